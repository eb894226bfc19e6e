//! The controller, as it is asked.

use std::hash::{BuildHasher, DefaultHasher, Hasher};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use leaparray::flow::keyed::OfKey;
use leaparray::flow::{Ask, BoxLimiter, BoxPermit, Decision, Keyed, Limiter, WaitQueue};

use crate::histories::controllers::subject::{SimCircuit, SimClock, Subject, Way};

type Keys = Keyed<u64, (Box<dyn Fn() -> BoxLimiter>, SimClock), Seeded>;

/// The hashes of a seed, so that a course is decided on alike in each run: which idle keys are
/// evicted depends on the hashes.
pub(super) struct Seeded(u64);

impl BuildHasher for Seeded {
    type Hasher = DefaultHasher;

    fn build_hasher(&self) -> DefaultHasher {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(self.0);
        hasher
    }
}

pub(super) enum Asked {
    Direct(BoxLimiter),
    Queue(Rc<WaitQueue<BoxLimiter>>),
    Keys(Box<Keys>),
}

/// Returns a decision without its permit.
pub(super) fn plain<P>(decision: &Decision<P>) -> Decision {
    match decision {
        Decision::Admitted(_) => Decision::Admitted(()),
        Decision::Wait(delayed) => Decision::after((), delayed.wait()),
        Decision::Refused(refusal) => Decision::Refused(*refusal),
    }
}

impl Asked {
    /// Builds the controller of a subject. Returns it with its circuit breaker, if it is one.
    pub(super) fn build(
        subject: Subject,
        clock: &SimClock,
        seed: u64,
    ) -> (Self, Option<Arc<SimCircuit>>) {
        let mut circuit = None;
        let asked = match subject.way {
            Way::PerKey { max_keys, keep } => {
                let (base, of_keys) = (subject.base, clock.clone());
                let make = Box::new(move || base.build(&of_keys, seed).0) as Box<dyn Fn() -> _>;
                let keys = Keys::with_hasher((make, clock.clone()), max_keys, Seeded(seed));
                Self::Keys(Box::new(keys.expect("a cap").with_keep(keep)))
            }
            way => {
                let limiter;
                (limiter, circuit) = subject.base.build(clock, seed);
                if let Way::Queue { newest_first, capacity, .. } = way {
                    let queue = WaitQueue::new(limiter).with_capacity(capacity);
                    Self::Queue(Rc::new(if newest_first { queue.newest_first() } else { queue }))
                } else {
                    Self::Direct(limiter)
                }
            }
        };
        (asked, circuit)
    }

    /// Asks the limiter, beside the queue if there is one.
    pub(super) fn decide(&self, ask: &Ask<'_>, key: u64) -> Decision<BoxPermit> {
        match self {
            Self::Direct(limiter) => limiter.decide(ask),
            Self::Queue(queue) => queue.limiter().decide(ask),
            Self::Keys(keys) => OfKey::new(&**keys, &key).decide(ask),
        }
    }

    pub(super) fn peek(&self, ask: &Ask<'_>, key: u64) -> Option<Decision> {
        match self {
            Self::Direct(limiter) => limiter.peek(ask),
            Self::Queue(queue) => queue.limiter().peek(ask),
            Self::Keys(keys) => OfKey::new(&**keys, &key).peek(ask),
        }
    }

    /// Gives the permits of a request back that was decided on at the time of `ask`.
    pub(super) fn refund(&self, ask: &Ask<'_>, key: u64, wait: Duration) -> bool {
        match self {
            Self::Direct(limiter) => limiter.account().refund(ask, wait),
            Self::Queue(queue) => Limiter::account(&**queue).refund(ask, wait),
            Self::Keys(keys) => OfKey::new(&**keys, &key).account().refund(ask, wait),
        }
    }
}
