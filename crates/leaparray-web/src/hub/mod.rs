//! The hub: one task reads the registry once a second while there are viewers, and serializes each
//! second once.

mod alert;
mod change_log;
mod collect;
mod detail;
mod frame;
mod identity;
mod judge;
mod ledger;
mod nodes;
mod readings;
mod refused;
pub(crate) mod rule;
mod seconds;
pub mod steps;
mod task;
#[cfg(test)]
mod tests;
mod viewer;
mod viewers;
mod watch;

pub(crate) use frame::Encoding;
pub(crate) use identity::Identity;
pub(crate) use viewer::{Target, Viewer, Wish};
pub(crate) use viewers::{NotJoined, Viewers};

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leaparray::{Clock, Registry, Timestamp};
use tokio::sync::Semaphore;

use crate::format::{FleetUpdate, RulesUpdate};
use crate::source::{FleetSource, RuleSource};
use frame::Frame;
use readings::Readings;
use viewers::Joined;

/// The number of seconds that the hub keeps.
pub(crate) const HISTORY: u32 = 60;

/// How long after the end of a second it is read: a thread may have read the clock just before, and
/// record only now.
pub(crate) const DELAY: Duration = Duration::from_millis(50);

/// Returns a time in seconds since the Unix epoch.
pub(crate) fn seconds(time: Timestamp) -> f64 {
    // Microseconds: a current time of that precision fits an `f64`.
    #[expect(clippy::cast_precision_loss, reason = "of less than a microsecond")]
    let micros = time.as_micros() as f64;
    micros / 1e6
}

/// The source of the messages of a page.
pub(crate) struct Hub<C> {
    registry: Arc<Registry<C>>,
    identity: Identity,
    fleet: FleetSource,
    rules: RuleSource,
    viewers: Arc<Viewers>,
    max_viewers: usize,
    life: Duration,
    /// The turn of a `/snapshot`.
    snapshots: Arc<Semaphore>,
    /// The last id of a node, over all tasks.
    last_id: AtomicU64,
}

impl<C: Clock + Clone + Send + Sync + 'static> Hub<C> {
    pub(crate) fn new(
        registry: Arc<Registry<C>>,
        identity: Identity,
        fleet: FleetSource,
        viewers: Arc<Viewers>,
        max_viewers: usize,
        life: Duration,
    ) -> Self {
        Self {
            registry,
            identity,
            fleet,
            rules: RuleSource::default(),
            viewers,
            max_viewers,
            life,
            snapshots: Arc::new(Semaphore::new(1)),
            last_id: AtomicU64::new(0),
        }
    }

    /// Shows rules.
    pub(crate) fn with_rules(self, rules: RuleSource) -> Self {
        Self { rules, ..self }
    }

    pub(crate) const fn registry(&self) -> &Arc<Registry<C>> {
        &self.registry
    }

    pub(crate) const fn identity(&self) -> &Identity {
        &self.identity
    }

    pub(crate) const fn fleet(&self) -> &FleetSource {
        &self.fleet
    }

    pub(crate) const fn rules(&self) -> &RuleSource {
        &self.rules
    }

    pub(crate) const fn viewers(&self) -> &Arc<Viewers> {
        &self.viewers
    }

    pub(crate) const fn snapshots(&self) -> &Arc<Semaphore> {
        &self.snapshots
    }

    pub(crate) const fn life(&self) -> Duration {
        self.life
    }

    fn last_id(&self) -> u64 {
        // Relaxed, here and below: one task at a time uses the ids.
        self.last_id.load(Ordering::Relaxed)
    }

    fn set_last_id(&self, id: u64) {
        self.last_id.fetch_max(id, Ordering::Relaxed);
    }

    /// Adds a viewer, and starts the task if there is none.
    pub(crate) fn join(self: &Arc<Self>, wish: Wish) -> Result<Arc<Viewer>, NotJoined> {
        let now = self.registry.clock().now();
        let hello = self.hello(now);
        match self.viewers.join(wish, now, &hello, self.max_viewers)? {
            Joined::Later(viewer) => Ok(viewer),
            Joined::First(viewer) => {
                tokio::spawn(task::run(Arc::clone(self)));
                Ok(viewer)
            }
        }
    }

    fn hello(&self, now: Timestamp) -> Frame {
        Frame::new(None, &self.identity.hello(now, self.registry.config().long()), 512)
    }

    /// Reads the registry at `now`, and sends the seconds that are complete, the details that
    /// viewers want, the fleet and the rules.
    fn step(&self, readings: &mut Readings, now: Timestamp) {
        let reading = readings.read(self, now);
        let update = readings.serialize(&self.identity, reading);
        let has_seconds = !update.seconds.is_empty();
        self.viewers.publish(update);
        self.welcome(readings, now);
        self.send_details(readings, now, has_seconds);
        self.send_beside(readings, now);
    }

    /// Sends the fleet and the rules to all viewers. They come last: the functions of the user may
    /// be slow, and no lock is held while they run.
    fn send_beside(&self, readings: &mut Readings, now: Timestamp) {
        if !self.fleet.exists() && !self.rules.exists() {
            return;
        }
        let (mut frames, has_viewers) = (Vec::new(), self.viewers.len() > 0);
        if self.fleet.exists() && has_viewers {
            let update = FleetUpdate { now: seconds(now), fleet: self.fleet.read() };
            if let Some(fleet) = &update.fleet {
                readings.watch.fleet(fleet);
            }
            frames.push(Frame::new(None, &update, 1024));
        }
        if self.rules.exists() && has_viewers {
            let update = RulesUpdate { now: seconds(now), rules: self.rules.read() };
            frames.push(Frame::new(None, &update, 1024));
        }
        self.viewers.publish_beside(now, frames);
    }

    /// Sends the listed nodes to the viewers that wait for them, and the history to those that have
    /// just joined.
    fn welcome(&self, readings: &Readings, now: Timestamp) {
        if self.viewers.has_new() {
            self.viewers.welcome(now, readings.resources());
        }
    }

    /// Sends details to the viewers that have none, and to all others if a second has become
    /// complete.
    fn send_details(&self, readings: &Readings, now: Timestamp, has_seconds: bool) {
        let mut wanted = self.viewers.wanted();
        for it in &mut wanted {
            it.newest &= has_seconds;
        }
        wanted.retain(|it| it.all || it.newest);
        if !wanted.is_empty() {
            let details = readings.details(self, now, wanted);
            self.viewers.publish_details(now, &details);
        }
    }
}
