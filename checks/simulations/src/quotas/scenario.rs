//! The limit, its clients, and their faults.

use std::time::Duration;

use fastrand::Rng;
use leaparray_envoy::quota::QuotaConfig;

/// A limit that clients share.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// The settings of the quotas.
    pub config: QuotaConfig,
    /// The time of silence, and the idle time, which are settings as well.
    pub silence: Duration,
    /// See [`silence`](Self::silence).
    pub idle: Duration,
    /// The requests of a bucket in an interval.
    pub limit: u32,
    /// The length of the interval, in seconds.
    pub window: u64,
    /// The number of buckets, each with this limit.
    pub buckets: usize,
    /// The number of instances. Several have shares.
    pub instances: usize,
    /// The length of a step, in milliseconds: a divisor of a second.
    pub step: u64,
    /// The steps between two reports of a client.
    pub reports: u64,
    /// The length of the time with faults, in seconds.
    pub secs: u64,
    /// The loads of the first clients.
    pub clients: Vec<Load>,
    /// The faults.
    pub faults: Faults,
}

/// When a client sends requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// This number in each step.
    Steady(u64),
    /// As many as are admitted, in the first of each this number of steps.
    Saved(u64),
    /// None.
    None,
}

/// The faults of a scenario: how often each comes in a second, or for a message its probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Faults {
    /// The probability that a message of the server is lost. The stream breaks then.
    pub loss: f64,
    /// The part of the delivery time that a message takes at most.
    pub slow: f64,
    /// A stream breaks. The client opens another one, and keeps what it has.
    pub breaks: f64,
    /// The probability that the server never notices that a stream has broken.
    pub unnoticed: f64,
    /// A client is gone.
    pub leaves: f64,
    /// A client comes.
    pub joins: f64,
    /// A client sends no reports for a while.
    pub silent: f64,
    /// The load of a client changes.
    pub changes: f64,
    /// The limit changes.
    pub limits: f64,
    /// The interval changes, or the limit goes or comes back.
    pub windows: f64,
    /// An instance starts again, with nothing.
    pub restarts: f64,
    /// An instance does not reach the store for a while.
    pub away: f64,
}

impl Faults {
    /// No faults.
    pub const NONE: Self = Self {
        loss: 0.0,
        slow: 0.0,
        breaks: 0.0,
        unnoticed: 0.0,
        leaves: 0.0,
        joins: 0.0,
        silent: 0.0,
        changes: 0.0,
        limits: 0.0,
        windows: 0.0,
        restarts: 0.0,
        away: 0.0,
    };

    fn random(rng: &mut Rng) -> Self {
        let mut some = |most: f64| if rng.bool() { most * rng.f64() } else { 0.0 };
        Self {
            loss: some(0.2),
            slow: some(2.0).min(1.0),
            breaks: some(1.0),
            unnoticed: some(1.0),
            leaves: some(0.4),
            joins: some(0.4),
            silent: some(0.4),
            changes: some(1.0),
            limits: some(0.3),
            windows: some(0.1),
            restarts: some(0.1),
            away: some(0.3),
        }
    }
}

impl Load {
    pub(super) fn random(rng: &mut Rng, limit: u32, steps: u64) -> Self {
        let most = 2.0 * f64::from(limit) * f64::from(u32::try_from(steps).unwrap_or(1)).recip();
        match rng.u8(0..4) {
            0 => Self::None,
            1 => Self::Saved(rng.u64(1..=4 * steps)),
            2 => Self::Steady(u64::MAX),
            _ => Self::Steady(crate::fleet::whole(most * rng.f64()) + 1),
        }
    }
}

impl Scenario {
    /// An idle time from which on a run does not wait for the end of it: a client that reports no
    /// requests has one at most.
    pub(super) const SHORT_IDLE: Duration = Duration::from_secs(9);

    /// Draws a limit of up to 5,000 requests in 1 to 5 s, up to eight clients, and each fault with
    /// a chance of its own.
    #[must_use]
    pub fn random(seed: u64) -> Self {
        let rng = &mut Rng::with_seed(seed);
        let millis = |it: u64| Duration::from_millis(it);
        let delivery = [1, 50, 400, 1_000, 2_500][rng.usize(0..5)];
        let (silence, idle) = (millis(rng.u64(1_500..6_000)), millis(rng.u64(1_000..9_000)));
        let idle = if rng.u8(0..4) == 0 { Duration::from_secs(60) } else { idle };
        let config = QuotaConfig::default()
            .with_ttl(Duration::from_secs(rng.u64(1..5)))
            .with_delivery(millis(delivery))
            .with_silence(silence)
            .with_idle(idle);
        let limit = [rng.u32(0..6), rng.u32(6..200), rng.u32(200..5_000)][rng.usize(0..3)];
        let (step, window) = ([10, 20, 50, 100][rng.usize(0..4)], rng.u64(1..6));
        let steps = window * 1_000 / step;
        let clients = (0..rng.usize(1..9)).map(|_| Load::random(rng, limit, steps)).collect();
        let instances = if rng.bool() { 1 } else { rng.usize(2..4) };
        Self {
            config,
            silence,
            idle,
            limit,
            window,
            buckets: rng.usize(1..4),
            instances,
            step,
            reports: (rng.u64(100..1_000) / step).max(1),
            secs: rng.u64(5..30),
            clients,
            faults: if rng.u8(0..8) == 0 { Faults::NONE } else { Faults::random(rng) },
        }
    }

    /// The time from when an assignment is sent until what it has admitted has left each interval.
    pub(super) fn lasts(&self) -> Duration {
        self.config.ttl() + self.config.delivery()
    }
}
