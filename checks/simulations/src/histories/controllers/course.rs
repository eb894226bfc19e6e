//! A past, and the health after it.

use std::time::Duration;

use super::super::Lengths;
use super::subject::{Base, Subject, Way};

/// The ends of requests. The rest succeeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcomes {
    /// The share that ends with an exception after the usual time.
    pub exceptions: f64,
    /// The share that ends with an exception after the patience of the caller.
    pub hangs: f64,
    /// The share that is cancelled: in a queue, or at some time of the call.
    pub cancelled: f64,
    /// The share whose permit, or whose future in a queue, is dropped.
    pub dropped: f64,
    /// The share whose permits are given back within a second, although they are not at the end.
    pub refunded: f64,
}

impl Outcomes {
    /// All requests succeed.
    pub const SUCCESS: Self =
        Self { exceptions: 0.0, hangs: 0.0, cancelled: 0.0, dropped: 0.0, refunded: 0.0 };
}

/// A wrong time at the start of a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// None.
    No,
    /// One request has a time that is this far ahead of the clock.
    OfRequest(Duration),
    /// The clock goes forward by this much.
    Forward(Duration),
    /// The clock goes back by this much.
    Back(Duration),
    /// The clock is this far ahead for one request.
    ForwardAndBack(Duration),
}

/// A time in which nothing changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Period {
    /// Its length.
    pub length: Duration,
    /// The mean number of requests that arrive in a second, at random.
    pub arrivals: f64,
    /// The times that calls take.
    pub lengths: Lengths,
    /// The lowest and the highest number of permits of a request.
    pub weights: [u64; 2],
    /// The ends of the requests.
    pub outcomes: Outcomes,
    /// The longest wait in a queue, and the time after which a caller gives up a call that hangs.
    pub patience: Duration,
    /// The wrong time at its start.
    pub step: Step,
    /// The share of the requests with a key of their own. The others have one of a few keys.
    pub strangers: f64,
    /// The share of the requests before which an operator interferes: sets the state of a breaker,
    /// removes a key, or lets a queue ask again.
    pub meddling: f64,
}

impl Period {
    /// The number of keys that come again and again.
    pub const CLIENTS: u64 = 4;

    /// Returns the mean time between two requests.
    #[must_use]
    pub fn gap(&self) -> Duration {
        Duration::from_secs_f64((1.0 / self.arrivals).min(1e9))
    }

    /// Returns the mean number of permits of a request.
    #[must_use]
    pub fn mean_weight(&self) -> f64 {
        super::subject::float(self.weights[0] + self.weights[1]) / 2.0
    }

    /// Returns the time within which a request of a client arrives, except for one in 10⁸ cases.
    #[must_use]
    pub fn longest_gap(&self) -> Duration {
        self.gap() * 20
    }

    /// Returns a time that few calls exceed.
    #[must_use]
    pub fn long_call(&self) -> Duration {
        match self.lengths {
            Lengths::Constant(time) => time,
            other => other.mean() * 20,
        }
    }
}

/// A subject, a past, and the health after it.
#[derive(Clone, Debug, PartialEq)]
pub struct Course {
    /// The controller.
    pub subject: Subject,
    /// The past.
    pub past: Vec<Period>,
    /// The period that is judged.
    pub health: Period,
}

impl Course {
    /// Returns the time within which the past has no effect any more: the [time of the
    /// subject](Subject::settling_time), after the last call and the last waiting request of the
    /// past have ended.
    #[must_use]
    pub fn settling_time(&self) -> Duration {
        let longest = |it: &Period| it.patience.max(it.long_call());
        let calls = self.past.iter().map(longest).max().unwrap_or_default();
        let waits = match self.subject.way {
            Way::Queue { .. } => {
                self.health.patience + self.past.iter().map(|it| it.patience).sum::<Duration>()
            }
            _ => Duration::ZERO,
        };
        calls + waits + self.subject.settling_time(&self.health)
    }

    /// Returns the time in which the property is judged: of 2,000 requests, and of 20 windows, so
    /// that it does not count in which part of a window it begins.
    #[must_use]
    pub fn judged_time(&self) -> Duration {
        let windows = if self.subject.base.rate().is_some() { 20 } else { 0 };
        (self.health.gap() * 2_000).max(Duration::from_secs(windows))
    }

    /// Returns courses that are simpler in one respect each, the simplest first.
    #[must_use]
    pub fn simpler(&self) -> Vec<Self> {
        let mut all = Vec::new();
        let mut add = |change: &dyn Fn(&mut Self)| {
            let mut changed = self.clone();
            change(&mut changed);
            if changed != *self {
                all.push(changed);
            }
        };
        for index in 0..self.past.len() {
            add(&|it| {
                it.past.remove(index);
            });
        }
        for index in 0..self.past.len() {
            add(&|it| it.past[index].step = Step::No);
            add(&|it| it.past[index].meddling = 0.0);
            add(&|it| it.past[index].strangers = 0.0);
            add(&|it| it.past[index].weights = it.health.weights);
            add(&|it| it.past[index].lengths = it.health.lengths);
            add(&|it| it.past[index].outcomes = Outcomes::SUCCESS);
            let period = self.past[index];
            if period.length.as_secs_f64() * period.arrivals >= 20.0 {
                add(&|it| it.past[index].length /= 2);
            }
        }
        add(&|it| it.health.outcomes = Outcomes::SUCCESS);
        add(&|it| it.health.weights = [1, 1]);
        add(&|it| it.health.strangers = 0.0);
        if !matches!(self.health.lengths, Lengths::Constant(_)) {
            add(&|it| it.health.lengths = Lengths::Constant(it.health.lengths.mean()));
        }
        if let Base::Circuit(circuit) = &self.subject.base {
            for simpler in circuit.simpler() {
                add(&|it| it.subject.base = Base::Circuit(simpler));
            }
        }
        all
    }
}
