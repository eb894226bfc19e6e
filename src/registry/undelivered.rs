//! The seconds of resources that can record no more, until they are delivered.

use std::ops::Range;

use super::listed::Listed;
use super::second::{ResourceSecond, add_up_equal};
use crate::node::{SecondsCursor, number_of};
use crate::sync::Arc;
use crate::time::Clock;

/// The seconds of evicted resources, and of removed resources without handles, that a cursor has
/// yet to deliver.
///
/// A cursor is known from its first poll until it is dropped. A second is kept while a known cursor
/// has not delivered it, and while it is in the registry's long window. Without a cursor, nothing
/// is kept.
#[derive(Debug, Default)]
pub(crate) struct Undelivered {
    cursors: Vec<Arc<SecondsCursor>>,
    kept: Vec<ResourceSecond>,
    /// The number of kept seconds at which the seconds that are not needed are forgotten.
    limit: usize,
}

impl Undelivered {
    /// Adds a cursor, unless it is known.
    pub(crate) fn add_cursor(&mut self, cursor: &Arc<SecondsCursor>) {
        if !self.cursors.iter().any(|known| Arc::ptr_eq(known, cursor)) {
            self.cursors.push(Arc::clone(cursor));
        }
    }

    /// Returns the number of the first second that some cursor has not delivered; `u64::MAX` if
    /// there is no cursor.
    fn first(&mut self) -> u64 {
        // A dropped cursor has closed its position.
        self.cursors.retain(|cursor| cursor.next() != u64::MAX);
        self.cursors.iter().map(|cursor| cursor.next()).min().unwrap_or(u64::MAX)
    }

    /// Keeps the undelivered seconds of a resource in which no thread can record from now on.
    pub(crate) fn keep<C: Clock + Clone>(&mut self, listed: &Listed<C>) {
        let first = self.first();
        if first == u64::MAX {
            return;
        }
        for (context, node) in listed.named_nodes() {
            let seconds = node.seconds_from(first);
            self.kept.extend(seconds.map(|metrics| listed.second(context, metrics)));
        }
    }

    /// Returns the kept seconds with these numbers.
    pub(crate) fn of(&self, seconds: &Range<u64>) -> impl Iterator<Item = &ResourceSecond> {
        self.kept.iter().filter(|second| seconds.contains(&number_of(second.metrics.second)))
    }

    /// Returns whether the number of kept seconds has doubled since the seconds that were not
    /// needed were forgotten.
    pub(crate) fn has_doubled(&self) -> bool {
        self.kept.len() > self.limit
    }

    /// Forgets the seconds before the number `oldest`, and the seconds that all cursors have
    /// delivered.
    pub(crate) fn forget_before(&mut self, oldest: u64) {
        let first = self.first().max(oldest);
        self.kept.retain(|second| number_of(second.metrics.second) >= first);
        // A resource that is evicted and listed again within a second does not take more memory
        // each time.
        add_up_equal(&mut self.kept);
        self.limit = (2 * self.kept.len()).max(64);
        // After many evictions, the memory is returned.
        self.kept.shrink_to(self.limit);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use crate::registry::{Registry, RegistryConfig, RegistryCursor};
    use crate::time::{Clock, ManualClock, Timestamp};

    type Tested = Registry<ManualClock>;

    const SECOND: Duration = Duration::from_secs(1);

    fn registry() -> Tested {
        let clock = ManualClock::new(Timestamp::from_secs(600));
        Registry::with_clock(RegistryConfig::default(), clock)
    }

    fn kept(registry: &Tested) -> usize {
        registry.delisted().undelivered().kept.len()
    }

    /// Evicts, and removes, resources with records in this second.
    fn lose_two(registry: &Tested) {
        registry.resource("evicted").unwrap().block();
        assert_eq!(registry.evict_idle_at(registry.clock().now(), Duration::ZERO), 1);
        registry.resource("removed").unwrap().block();
        assert!(registry.remove("removed"));
    }

    #[test]
    fn nothing_is_kept_without_a_cursor() {
        let registry = registry();
        lose_two(&registry);
        assert_eq!(kept(&registry), 0, "before the first poll");
        let cursor = RegistryCursor::new();
        registry.now().poll_seconds(&cursor);
        lose_two(&registry);
        assert_eq!(kept(&registry), 2);
        drop(cursor);
        registry.clock().advance(SECOND);
        let late = RegistryCursor::new();
        assert!(registry.now().poll_seconds(&late).len() <= 2);
        drop(late);
        lose_two(&registry);
        lose_two(&registry);
        registry.delisted().undelivered().forget_before(0);
        assert_eq!(kept(&registry), 0, "after the last cursor");
        assert!(registry.delisted().undelivered().cursors.is_empty());
    }

    #[test]
    fn delivered_second_is_forgotten() {
        let registry = registry();
        let [one, other] = [(); 2].map(|()| RegistryCursor::new());
        registry.now().poll_seconds(&one);
        registry.now().poll_seconds(&other);
        lose_two(&registry);
        registry.clock().advance(SECOND);
        assert_eq!((registry.now().poll_seconds(&one).len(), kept(&registry)), (2, 2));
        assert_eq!((registry.now().poll_seconds(&other).len(), kept(&registry)), (2, 0));
        assert_eq!(registry.delisted().undelivered().cursors.len(), 2, "each cursor once");
    }

    #[test]
    fn seconds_of_a_cursor_that_polls_no_more_are_bounded() {
        let registry = registry();
        let cursor = RegistryCursor::new();
        registry.now().poll_seconds(&cursor);
        let evict = || {
            registry.resource("evicted").unwrap().block();
            assert_eq!(registry.evict_idle_at(registry.clock().now(), Duration::ZERO), 1);
        };
        let remove = || {
            registry.resource("removed").unwrap().block();
            assert!(registry.remove("removed"));
        };
        for lose in [&evict as &dyn Fn(), &remove] {
            for _ in 0..1_000 {
                lose();
                registry.clock().advance(SECOND);
                // One resource in each of the sixty seconds of the window, and the present one.
                assert!(kept(&registry) <= 2 * 61, "{} are kept", kept(&registry));
            }
        }
        registry.now().poll_seconds(&cursor);
        assert_eq!(kept(&registry), 0);
        let capacity = registry.delisted().undelivered().kept.capacity();
        assert!(capacity <= 64, "{capacity}");
    }
}
