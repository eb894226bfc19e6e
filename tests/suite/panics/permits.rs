//! The end of a permit that panics, or whose clock does.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use leaparray::MetricEvent::{Exception, Success};
use leaparray::flow::{Ask, Decision, Limiter, LimiterExt};
use leaparray::{Clock, NodeConfig, Outcome, Permit, ResourceNode, Timestamp};

use super::{Fragile, sums};

/// Admits each request. A permit has `N` words, and counts its ends by their outcome, and its drop.
#[derive(Clone, Default)]
struct Counted<const N: usize> {
    /// Successes, exceptions and drops.
    counts: Arc<[AtomicU64; 3]>,
    /// The end panics after it was counted.
    panics: bool,
}

struct CountedPermit<const N: usize>(Counted<N>, [u64; N]);

impl<const N: usize> Permit for CountedPermit<N> {
    fn end_at(&mut self, _now: Timestamp, outcome: Outcome) {
        self.0.counts[usize::from(outcome != Outcome::Success)].fetch_add(1, Ordering::Relaxed);
        assert!(!self.0.panics, "the end panics");
    }
}

impl<const N: usize> Drop for CountedPermit<N> {
    fn drop(&mut self) {
        self.0.counts[2].fetch_add(1, Ordering::Relaxed);
    }
}

impl<const N: usize> Limiter for Counted<N> {
    type Permit = CountedPermit<N>;

    fn decide(&self, _ask: &Ask<'_>) -> Decision<CountedPermit<N>> {
        Decision::Admitted(CountedPermit(self.clone(), [0; N]))
    }
}

/// Returns the ends and the drop of a permit whose end panics, or else whose clock does.
fn counts_after_panic<const N: usize>(panics: bool) -> [u64; 3] {
    let clock = Fragile::new();
    let node = ResourceNode::with_clock(NodeConfig::default(), clock.clone());
    let limiter = Counted::<N> { panics, ..Counted::default() };
    let entry = limiter.try_enter_at(&node, clock.clock.now()).unwrap();
    let end = || entry.success();
    assert!(if panics { super::panics(end) } else { clock.breaks(end) });
    assert_eq!(sums(&node, [Success, Exception]), if panics { [1, 0] } else { [0, 1] });
    assert_eq!(node.concurrency(), 0);
    [0, 1, 2].map(|it| limiter.counts[it].load(Ordering::Relaxed))
}

/// A small permit is taken out of its entry before it ends, and a large one ends there.
#[test]
fn permit_ends_once_and_is_dropped_once_if_its_end_or_the_clock_panics() {
    assert_eq!(
        [counts_after_panic::<0>, counts_after_panic::<9>].map(|it| it(true)),
        [[1, 0, 1]; 2]
    );
    assert_eq!(
        [counts_after_panic::<0>, counts_after_panic::<9>].map(|it| it(false)),
        [[0, 1, 1]; 2]
    );
}
