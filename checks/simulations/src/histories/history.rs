//! A past, and the health after it.

use std::time::Duration;

use fastrand::Rng;

use super::Lengths;

/// The lowest, the first and the highest limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The lowest limit.
    pub min: u64,
    /// The limit before the first call.
    pub initial: u64,
    /// The highest limit.
    pub max: u64,
}

/// The way in which a caller asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// By an acquire.
    Direct,
    /// By a peek, and by an acquire only if the peek finds room.
    AfterPeek,
    /// Through a queue in which no request waits.
    ThroughQueue,
    /// Through a combination with a limiter that admits all.
    ThroughAllOf,
}

/// Calls that do not succeed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Failures {
    /// The share of the calls that end with an exception as soon as they are admitted.
    pub fast: f64,
    /// The share of the calls that end with an exception when a worker has worked on them.
    pub late: f64,
    /// The time after which a client gives up: the call is cancelled, and leaves its worker or the
    /// queue.
    pub patience: Option<Duration>,
    /// The share of the calls that are cancelled at any time before they would have ended without
    /// a wait.
    pub cancelled: f64,
}

impl Failures {
    /// All calls succeed.
    pub const NONE: Self = Self { fast: 0.0, late: 0.0, patience: None, cancelled: 0.0 };
}

/// A time in which nothing changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stage {
    /// Its length.
    pub length: Duration,
    /// The number of workers. A call for k permits takes k of them.
    pub workers: u64,
    /// The mean number of calls that arrive in a second, at random.
    pub arrivals: f64,
    /// The times that calls take.
    pub lengths: Lengths,
    /// The lowest and the highest number of permits that a call asks for.
    pub weights: [u64; 2],
    /// The calls that do not succeed.
    pub failures: Failures,
    /// The way in which a caller asks.
    pub asks: Asks,
    /// At the start, the clock shows a time that is this far ahead, for one call.
    pub step: Duration,
}

impl Stage {
    /// A stage whose calls arrive at `load` times the rate that the workers serve. Its length is
    /// the settling time and the time after it in which the property is judged.
    #[must_use]
    pub fn healthy(workers: u64, load: f64, lengths: Lengths, weights: [u64; 2]) -> Self {
        let mut stage = Self {
            length: Duration::ZERO,
            workers,
            arrivals: 0.0,
            lengths,
            weights,
            failures: Failures::NONE,
            asks: Asks::Direct,
            step: Duration::ZERO,
        };
        stage.arrivals = load * float(workers) / stage.mean_work();
        stage.length = stage.settling_time() + stage.judged_time();
        stage
    }

    /// Returns the mean of permits × seconds that a call takes.
    #[must_use]
    pub fn mean_work(&self) -> f64 {
        float(self.weights[0] + self.weights[1]) / 2.0 * self.lengths.mean().as_secs_f64()
    }

    /// Returns the time within which a limiter finds the capacity of a healthy backend: 2 s, and
    /// 200 times the mean length of a call, and the time in which 2,000 calls are served. A limiter
    /// learns from calls, and few workers serve few.
    #[must_use]
    pub fn settling_time(&self) -> Duration {
        Duration::from_secs(2) + self.lengths.mean() * 200 + self.time_of(2_000.0)
    }

    /// Returns the time in which the workers serve that many calls.
    fn time_of(&self, calls: f64) -> Duration {
        Duration::from_secs_f64(calls * self.mean_work() / float(self.workers))
    }

    /// Returns the time in which the property is judged: that in which the workers serve 4,000
    /// calls, and at least 200 times the mean length of a call. A limiter that measures how long
    /// calls take, measures for at least the length of a call, so a share of some hundredths for
    /// the measurement tells something only of a time that is much longer.
    #[must_use]
    pub fn judged_time(&self) -> Duration {
        self.time_of(4_000.0).max(self.lengths.mean() * 200)
    }

    /// Returns the longest wait of a good call: with the mean length of a call S and n calls that
    /// are served at once, S · (3 + 12/√n). With many workers, calls wait so long at a limit of
    /// four times the capacity. With few, chance alone makes long queues.
    #[must_use]
    pub fn longest_wait(&self) -> Duration {
        let served = float(self.workers) * self.lengths.mean().as_secs_f64() / self.mean_work();
        self.lengths.mean().mul_f64(3.0 + 12.0 / served.max(1.0).sqrt())
    }

    /// Returns the limit by the formula of `Headroom`, of the workers and the mean permits of a
    /// call. An algorithm has to find both out.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small numbers")]
    pub fn known_limit(&self) -> u64 {
        let (workers, mean) = (float(self.workers), float(self.weights[0] + self.weights[1]) / 2.0);
        (workers + mean * (4.0 + 1.5 * (workers / mean).sqrt())).ceil() as u64
    }
}

/// A past, and the health after it.
#[derive(Clone, Debug, PartialEq)]
pub struct History {
    /// The range of the limit.
    pub range: Range,
    /// The past.
    pub past: Vec<Stage>,
    /// The stage that is judged.
    pub health: Stage,
}

impl History {
    /// Draws a history. A run of it has some 300,000 calls at most.
    #[must_use]
    pub fn random(seed: u64) -> Self {
        let rng = &mut Rng::with_seed(seed);
        let workers = log_uniform(rng, 1.0, 200.0).round();
        let mean = Duration::from_secs_f64(log_uniform(rng, 1e-3, 600.0));
        let lengths = random_lengths(rng, mean, workers);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
        let workers = workers as u64;
        let heaviest = if rng.bool() { 1 } else { rng.u64(1..=workers.min(20)) };
        let load = [0.5, 0.8, 1.2, 2.0, 3.0][rng.usize(0..5)];
        let health = Stage::healthy(workers, load, lengths, [1, heaviest]);
        let initial = [1, 1, 3, 20, 200][rng.usize(0..5)].min(20 * workers);
        let range = Range { min: 1, initial, max: 10_000 };
        let past = (0..rng.usize(0..4)).map(|_| random_past(rng, &health)).collect();
        let mut history = Self { range, past, health };
        for stage in history.past.iter_mut().chain([&mut history.health]) {
            if rng.u8(0..4) == 0 {
                stage.failures.cancelled = 0.5 * rng.f64();
            }
        }
        history
    }
}

/// Draws lengths with that mean.
fn random_lengths(rng: &mut Rng, mean: Duration, workers: f64) -> Lengths {
    // Few workers are all busy with streams at times, whatever the limit.
    let kinds = if workers < 30.0 { 4 } else { 5 };
    match rng.u8(0..kinds) {
        0 => Lengths::Constant(mean),
        1 => Lengths::Around(mean),
        2 => Lengths::Exponential(mean),
        4 => {
            let share = 0.02 + 0.18 * rng.f64();
            let ratio = log_uniform(rng, 10.0, 10_000.0);
            let short = mean.div_f64(1.0 - share + share * ratio);
            Lengths::Streams { short, stream: short.mul_f64(ratio), share }
        }
        _ => Lengths::HeavyTail(mean.div_f64(2.906)),
    }
}

fn random_past(rng: &mut Rng, health: &Stage) -> Stage {
    let mut stage = *health;
    let mean = health.lengths.mean();
    let calls = log_uniform(rng, 10.0, 5_000.0);
    stage.length = Duration::from_secs_f64(calls / health.arrivals);
    match rng.u8(0..8) {
        // An idle night.
        0 => (stage.length, stage.arrivals) = (Duration::from_secs(28_800), 1.0 / 3_600.0),
        // Most of the workers are gone.
        1 => stage.workers = (health.workers / 8).max(1),
        2 => stage.arrivals = health.arrivals * 3.0,
        3 => stage.failures.fast = 0.2 + 0.8 * rng.f64(),
        4 => stage.failures.late = 0.2 + 0.8 * rng.f64(),
        5 => stage.failures.patience = Some(mean * rng.u32(1..5)),
        6 => stage.step = Duration::from_secs(rng.u64(1..7_200)),
        // Other calls.
        _ => {
            let factor = log_uniform(rng, 0.1, 10.0);
            stage.lengths = random_lengths(rng, mean.mul_f64(factor), float(health.workers));
        }
    }
    // A call for more permits than there are workers would keep all others waiting.
    stage.weights[1] = stage.weights[1].min(stage.workers);
    stage
}

fn log_uniform(rng: &mut Rng, low: f64, high: f64) -> f64 {
    low * libm::pow(high / low, rng.f64())
}

#[expect(clippy::cast_precision_loss, reason = "small numbers")]
pub(super) fn float(number: u64) -> f64 {
    number as f64
}
