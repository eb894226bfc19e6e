//! The task that reads the registry once a second.

use std::sync::Arc;
use std::time::Duration;

use leaparray::{Clock, Timestamp};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use super::readings::Readings;
use super::{DELAY, Hub, Viewers};

/// How long the registry is read after the last viewer has left.
const LINGER: Duration = Duration::from_secs(60);

/// Marks the task as ended however it ends: also if a reading panics, or its runtime is dropped.
struct Running {
    viewers: Arc<Viewers>,
    /// Whether the task was marked as ended.
    has_stopped: bool,
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.has_stopped {
            self.viewers.fail();
        }
    }
}

/// Reads the registry once a second, until there was no viewer for a minute, or the page is closed.
pub(super) async fn run<C>(hub: Arc<Hub<C>>)
where
    C: Clock + Clone + Send + Sync + 'static,
{
    let mut running = Running { viewers: Arc::clone(&hub.viewers), has_stopped: false };
    let mut readings = Readings::new(&hub, DELAY);
    let mut last_viewer = Instant::now();
    loop {
        let now = hub.registry.clock().now();
        let reading = Arc::clone(&hub);
        // A reading takes some milliseconds, in which this thread serves other tasks.
        let step = spawn_blocking(move || {
            reading.step(&mut readings, now);
            readings
        });
        // A reading that has panicked, in the code of a clock for example, ends the task.
        let Ok(after) = step.await else { return };
        readings = after;
        if hub.viewers.len() > 0 {
            last_viewer = Instant::now();
        }
        let is_over = last_viewer.elapsed() >= LINGER || hub.viewers.is_closed();
        if is_over && hub.viewers.stop_if_empty() {
            running.has_stopped = true;
            return;
        }
        let until_next = until_next_second(hub.registry.clock().now());
        if let Some(after) = wait(&hub, readings, until_next).await {
            readings = after;
        } else {
            return;
        }
    }
}

/// Returns the time until the next second can be read.
fn until_next_second(now: Timestamp) -> Duration {
    let newest = now.saturating_sub(DELAY).as_secs();
    let next = Timestamp::from_secs(newest + 1).saturating_add(DELAY);
    next.saturating_since(now)
}

/// Waits, and sends the history and the details to viewers that join before. Returns early if the
/// page is closed.
async fn wait<C>(hub: &Arc<Hub<C>>, mut readings: Readings, time: Duration) -> Option<Readings>
where
    C: Clock + Clone + Send + Sync + 'static,
{
    let end = sleep(time);
    tokio::pin!(end);
    loop {
        tokio::select! {
            () = &mut end => return Some(readings),
            () = hub.viewers.changed() => {}
        }
        if hub.viewers.is_closed() {
            return Some(readings);
        }
        let reading = Arc::clone(hub);
        let step = spawn_blocking(move || {
            let now = reading.registry.clock().now();
            reading.welcome(&readings, now);
            reading.send_details(&readings, now, false);
            readings
        });
        readings = step.await.ok()?;
    }
}
