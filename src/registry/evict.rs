//! Taking resources off the list.

use std::time::Duration;

use super::Registry;
use super::listed::Listed;
use crate::sync::Arc;
use crate::time::{Clock, Timestamp};

impl<C: Clock + Clone> Registry<C> {
    /// Evicts what has been idle for that long, and says how many resources that were.
    pub fn evict_idle(&self, idle: Duration) -> usize {
        self.evict_idle_at(self.clock.now(), idle)
    }

    /// Evicts what has been idle for that long at `now`: nobody holds it, and nothing was recorded in it
    /// or in its contexts, nor was it made, with a time later than `now − idle`. It goes by buckets, and
    /// so may come a bucket late, but not early; with [`Duration::ZERO`], all goes that nobody holds.
    ///
    /// A resource that somebody holds stays, however idle: its holder could record in a node that nobody
    /// sees. Who wants it evicted keeps no [`Resource`](crate::Resource) of it.
    ///
    /// Nothing is lost: a thread that looks the resource up meanwhile either keeps it from being evicted,
    /// or finds it gone and lists it anew. What was ever recorded in it stays in the registry's
    /// [lifetime totals](Self::lifetime); what it had in its windows goes with it, so that `idle` is as
    /// long as the long window, or longer, where those are read.
    ///
    /// ```
    /// use leaparray::{ManualClock, MetricEvent, Registry, RegistryConfig, Timestamp};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new(Timestamp::from_secs(60));
    /// let registry = Registry::with_clock(RegistryConfig::default(), clock.clone());
    /// registry.resource("GET /orders")?.enter().success();
    /// let kept = registry.resource("GET /users")?;
    ///
    /// clock.advance(Duration::from_secs(120));
    /// assert_eq!(registry.evict_idle(Duration::from_secs(180)), 0);
    /// assert_eq!(registry.evict_idle(Duration::from_secs(60)), 1);
    /// assert!(registry.get("GET /orders").is_none() && registry.get("GET /users").is_some());
    /// assert_eq!(registry.lifetime().sum(MetricEvent::Success), 1);
    /// # Ok::<_, leaparray::RegistryError>(())
    /// ```
    pub fn evict_idle_at(&self, now: Timestamp, idle: Duration) -> usize {
        let mut evicted = 0;
        self.names.for_each(|listed| {
            if listed.is_idle(now, idle) && self.evict(listed, now, idle) {
                evicted += 1;
            }
        });
        evicted
    }

    fn evict(&self, listed: &Arc<Listed<C>>, now: Timestamp, idle: Duration) -> bool {
        // One at a time watches a resource; and from here until its totals are settled, nobody adds up.
        let mut departed = self.departed();
        let holders = listed.holders();
        // Idle while it is watched: what was recorded before is seen now, and who takes it after this
        // ends the watch.
        if !(holders.watch() && listed.is_idle(now, idle) && holders.evict()) {
            return false;
        }
        departed.settle(listed);
        drop(departed);
        self.unlist(listed);
        true
    }

    /// Takes the resource of that name off the list, whoever holds it, and says whether it was listed.
    ///
    /// Who holds it goes on recording in it, and sees what is recorded, but nobody else finds it: the
    /// name stands for a new resource when it is next asked for, and its place is free at once. What was
    /// and will be recorded in it is in the registry's [lifetime totals](Self::lifetime), and it is kept
    /// until its last holder has let go of it and these are next read, or something else is removed.
    ///
    /// ```
    /// use leaparray::{MetricEvent, Registry};
    ///
    /// let registry = Registry::new();
    /// let orders = registry.resource("GET /orders")?;
    /// orders.enter().success();
    /// assert!(registry.remove("GET /orders") && orders.is_removed());
    /// orders.enter().success();
    ///
    /// let anew = registry.resource("GET /orders")?;
    /// assert_eq!(anew.minute_sum(MetricEvent::Success), 0);
    /// assert_eq!(registry.lifetime().sum(MetricEvent::Success), 2);
    /// # Ok::<_, leaparray::RegistryError>(())
    /// ```
    pub fn remove(&self, name: &str) -> bool {
        loop {
            let Some(listed) = self.names.with(name, Arc::clone) else { return false };
            let mut departed = self.departed();
            let is_ours = listed.holders().remove();
            if is_ours {
                departed.keep(Arc::clone(&listed));
                departed.settle_held();
            }
            drop(departed);
            self.unlist(&listed);
            if is_ours {
                return true;
            }
            // It was gone already; there may be another one of that name by now.
        }
    }
}
