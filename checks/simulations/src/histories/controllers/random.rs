//! Random courses.

use std::time::Duration;

use fastrand::Rng;

use super::super::Lengths;
use super::Family;
use super::course::{Course, Outcomes, Period, Step};
use super::subject::{Base, Breaker, Circuit, Rule, Subject, Way};

impl Course {
    /// Draws a course of a family.
    #[must_use]
    pub fn random(family: Family, seed: u64) -> Self {
        let rng = &mut Rng::with_seed(seed);
        let mean = seconds(log_uniform(rng, 1e-3, 60.0));
        let lengths = match rng.u8(0..3) {
            0 => Lengths::Constant(mean),
            1 => Lengths::Around(mean),
            _ => Lengths::Exponential(mean),
        };
        let mut health = Period {
            length: Duration::ZERO,
            arrivals: log_uniform(rng, 0.5, 2_000.0),
            lengths,
            weights: [1, 1],
            outcomes: Outcomes::SUCCESS,
            patience: Duration::ZERO,
            step: Step::No,
            strangers: 0.0,
            meddling: 0.0,
        };
        let subject = match family {
            Family::Circuits => circuit(rng, &mut health),
            Family::Breakers => breaker(rng, &mut health),
            Family::Limits => {
                let base = if rng.bool() { warm_up(rng) } else { base(rng) };
                limit(base, rng, &mut health)
            }
            Family::Keys => keys(rng, &mut health),
            Family::Queues => queue(rng, &mut health),
        };
        if subject.base.is_breaker() {
            // So that a run has few requests.
            let most = 10_000.0 / subject.settling_time(&health).as_secs_f64();
            health.arrivals = health.arrivals.min(most);
        }
        if subject.base.is_breaker() && rng.bool() {
            health.outcomes.cancelled = 0.4 * rng.f64();
            health.outcomes.dropped = 0.4 * rng.f64();
        }
        let past = (0..rng.usize(0..4)).map(|_| past(rng, &health, &subject)).collect();
        let mut course = Self { subject, past, health };
        course.health.length = course.settling_time() + course.judged_time();
        course
    }
}

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn log_uniform(rng: &mut Rng, low: f64, high: f64) -> f64 {
    low * libm::pow(high / low, rng.f64())
}

/// Draws a whole number of nanoseconds that divides into 40 buckets.
fn interval(rng: &mut Rng, low: f64, high: f64) -> Duration {
    let parts = seconds(log_uniform(rng, low, high)).as_millis().max(1) / 40 + 1;
    Duration::from_millis(u64::try_from(parts).expect("small") * 40)
}

fn buckets(rng: &mut Rng) -> usize {
    [1, 2, 5, 10, 40][rng.usize(0..5)]
}

fn circuit(rng: &mut Rng, health: &mut Period) -> Subject {
    let slow = health.long_call() * 2;
    let rule = match rng.u8(0..4) {
        0 => Rule::Ratio(0.05 + 0.95 * rng.f64()),
        1 => Rule::Slow(0.05 + 0.95 * rng.f64(), slow),
        2 => Rule::Exceptions(rng.u64(1..50)),
        _ => Rule::InARow(rng.u64(1..20)),
    };
    let first = seconds(log_uniform(rng, 0.01, 30.0));
    // The probes of health end in time.
    let timeout = (health.long_call() + health.longest_gap()).mul_f64(1.5);
    let circuit = Circuit {
        rule,
        window: (buckets(rng), interval(rng, 0.5, 600.0)),
        last_calls: rng.bool().then(|| rng.u32(1..200)),
        min_calls: rng.u64(0..100),
        wait: [first, first * [1, 4, 32][rng.usize(0..3)]],
        jitter: [0.0, 0.5, 1.0][rng.usize(0..3)],
        probes: [1, 3, 10, 100][rng.usize(0..4)],
        timeout: rng.bool().then_some(timeout),
    };
    Subject { base: Base::Circuit(circuit), way: Way::Direct }
}

fn breaker(rng: &mut Rng, health: &mut Period) -> Subject {
    // The formula is for an acceptance in each half of the window.
    let least = 2.0 * (health.longest_gap() * 10).as_secs_f64();
    let window = interval(rng, least.max(0.5), least.max(0.5) * 20.0);
    let breaker = Breaker {
        window: ([2, 5, 10, 40][rng.usize(0..4)], window),
        k: 1.0 + rng.f64() * 2.0,
        probe_interval: window.mul_f64(0.01 + 0.2 * rng.f64()),
        recovery: window.mul_f64(log_uniform(rng, 0.01, 2.0)),
    };
    Subject { base: Base::Breaker(breaker), way: Way::Direct }
}

fn warm_up(rng: &mut Rng) -> Base {
    let limit = rng.u64(10..300);
    Base::WarmUp(limit, seconds(log_uniform(rng, 0.2, 30.0)), 1.0 + log_uniform(rng, 0.1, 20.0))
}

/// Sets the load of health by the limit.
fn limit(base: Base, rng: &mut Rng, health: &mut Period) -> Subject {
    let load = [0.1, 0.5, 1.5, 3.0][rng.usize(0..4)];
    if let Some(rate) = base.rate() {
        let heaviest = match base {
            Base::Token(_, capacity) | Base::All(_, capacity, _) => capacity,
            Base::Leaky(_) => 4,
            // So that few permits are lost to it in each window.
            _ => super::subject::whole(rate / 10.0),
        };
        health.weights = [1, if rng.bool() { 1 } else { rng.u64(1..=heaviest.clamp(1, 20)) }];
        health.arrivals = load * rate / health.mean_weight();
        // A limit in flight beside it is not reached.
        let longest = 0.2;
        if let Base::All(..) = base {
            health.lengths = Lengths::Constant(seconds(longest * rng.f64()));
        }
    } else if let Base::Concurrency(limit) | Base::Adaptive(limit) = base {
        health.weights = [1, rng.u64(1..=(limit / 10).clamp(1, 20))];
        let work = health.mean_weight() * health.lengths.mean().as_secs_f64();
        health.arrivals = load * super::subject::float(limit) / work;
    }
    Subject { base, way: Way::Direct }
}

fn base(rng: &mut Rng) -> Base {
    let rate = super::subject::whole(log_uniform(rng, 10.0, 500.0));
    match rng.u8(0..7) {
        0 => warm_up(rng),
        1 => Base::Token(rate, [1, 1, 10, 100][rng.usize(0..4)]),
        2 => Base::Leaky(rate),
        3 => Base::Fixed(rate),
        4 => Base::Sliding(rate),
        5 => Base::Concurrency(rng.u64(1..200)),
        _ => Base::All(rate, rng.u64(1..20), rate * 20),
    }
}

fn keys(rng: &mut Rng, health: &mut Period) -> Subject {
    let mut subject = match rng.u8(0..8) {
        0 => circuit(rng, health),
        1 => breaker(rng, health),
        _ => limit(base(rng), rng, health),
    };
    if let Base::Circuit(circuit) = &mut subject.base {
        // Never as new.
        circuit.last_calls = None;
    }
    let keep = seconds(log_uniform(rng, 0.1, 100.0));
    // The keys of health have room, as long as each stays that long.
    health.strangers = 0.2 * rng.f64();
    let stays = subject.settling_time(health) + health.long_call();
    let known = super::subject::whole(health.arrivals * health.strangers * stays.as_secs_f64());
    // A new key examines some of them, and not all.
    let most = usize::try_from(4 * known + 16 * Period::CLIENTS).expect("few");
    let max_keys = most + rng.usize(0..50);
    subject.way = Way::PerKey { max_keys, keep };
    subject
}

fn queue(rng: &mut Rng, health: &mut Period) -> Subject {
    let mut subject = match rng.u8(0..10) {
        0 => circuit(rng, health),
        1 => breaker(rng, health),
        2 => limit(Base::Adaptive(rng.u64(1..100)), rng, health),
        _ => limit(base(rng), rng, health),
    };
    let grain = [1, 1_000_000, 1_000_000, 15_000_000][rng.usize(0..4)];
    // Several limiters at once are asked for no earlier time: late timers lower the rate.
    let grain = if let Base::All(..) = subject.base { 1 } else { grain };
    let newest_first = rng.u8(0..4) == 0;
    if let (true, Base::Leaky(_)) = (newest_first, subject.base) {
        // A request for several permits is due when the last one is. One for fewer, that arrives
        // while it waits, goes ahead, and the time of the wait is lost.
        health.arrivals *= health.mean_weight();
        health.weights = [1, 1];
    }
    subject.way = Way::Queue {
        newest_first,
        capacity: if rng.bool() { usize::MAX } else { rng.usize(20..1_000) },
        grain: Duration::from_nanos(grain),
    };
    // As long as all requests of a full window wait.
    health.patience = Duration::from_secs(3) + health.gap() * 50 + health.lengths.mean() * 3;
    subject
}

fn past(rng: &mut Rng, health: &Period, subject: &Subject) -> Period {
    let mut period = *health;
    let requests = log_uniform(rng, 10.0, 3_000.0);
    period.patience = health.lengths.mean().mul_f64(log_uniform(rng, 0.5, 200.0));
    if let Way::Queue { .. } = subject.way {
        period.patience = health.patience.mul_f64(log_uniform(rng, 1e-3, 2.0));
    }
    match rng.u8(0..10) {
        // An idle night.
        0 => period.arrivals = 1.0 / 3_600.0,
        1 => period.arrivals *= 3.0,
        2 => period.arrivals *= 0.05,
        3 => period.outcomes.exceptions = 0.2 + 0.8 * rng.f64(),
        4 => period.outcomes.hangs = 0.2 + 0.8 * rng.f64(),
        5 => {
            period.outcomes.cancelled = 0.5 * rng.f64();
            period.outcomes.dropped = 0.5 * rng.f64();
            period.outcomes.exceptions = 1.0 - period.outcomes.cancelled - period.outcomes.dropped;
        }
        6 => period.lengths = Lengths::Exponential(health.lengths.mean().mul_f64(10.0)),
        7 => period.outcomes.refunded = 0.5 * rng.f64(),
        8 => period.strangers = 1.0,
        _ => {}
    }
    period.length = seconds((requests / period.arrivals).min(28_800.0));
    let far = seconds(log_uniform(rng, 1e-3, 7_200.0));
    period.step = match rng.u8(0..8) {
        0 => Step::OfRequest(far),
        1 => Step::Forward(far),
        2 => Step::Back(far),
        3 => Step::ForwardAndBack(far),
        _ => Step::No,
    };
    if rng.u8(0..4) == 0 {
        period.meddling = 0.1 * rng.f64();
    }
    if rng.u8(0..4) == 0 {
        period.weights[1] = period.weights[1].max(rng.u64(1..20));
    }
    period
}
