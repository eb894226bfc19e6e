//! The identity of a page.

use std::time::Duration;

use leaparray::{Timestamp, WindowConfig};

use super::seconds;
use crate::format::{Hello, VERSION, reasons};
use crate::hub::{DELAY, HISTORY};

/// The identity of a page.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) instance: String,
    pub(crate) name: String,
    pub(crate) host: String,
    pub(crate) pid: u32,
    pub(crate) started: Timestamp,
}

impl Identity {
    pub(crate) fn new(started: Timestamp) -> Self {
        let program = std::env::current_exe().ok();
        let name = program.as_deref().and_then(|it| it.file_stem()).map(|it| it.to_string_lossy());
        Self {
            instance: format!("{:016x}", fastrand::u64(..)),
            name: name.unwrap_or_default().into_owned(),
            host: gethostname::gethostname().to_string_lossy().into_owned(),
            pid: std::process::id(),
            started,
        }
    }

    pub(super) fn hello(&self, now: Timestamp, long: &WindowConfig) -> Hello {
        Hello {
            version: VERSION,
            instance: self.instance.clone(),
            name: self.name.clone(),
            host: self.host.clone(),
            pid: self.pid,
            started: seconds(self.started),
            now: seconds(now),
            history: HISTORY,
            has_seconds: has_complete_seconds(long),
            reasons: reasons(),
        }
    }

    /// Returns the id of the event of a second.
    pub(super) fn id_of(&self, second: u64) -> String {
        format!("{}.{second}", self.instance)
    }

    /// Returns the second of the event with that id; `None` for an event of another page.
    pub(crate) fn second_of(&self, id: &str) -> Option<u64> {
        id.strip_prefix(self.instance.as_str())?.strip_prefix('.')?.parse().ok()
    }
}

/// Returns whether a second is still whole in a long window at the time of its reading.
fn has_complete_seconds(long: &WindowConfig) -> bool {
    let second = Timestamp::from_secs(1_000);
    let read_at = second.saturating_add(Duration::from_secs(1) + DELAY);
    long.bucket_end(read_at).saturating_sub(long.interval()) <= second
}
