//! The last seconds of a registry, as the dashboard reads them.

use std::collections::VecDeque;
use std::fmt::Write;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leaparray::registry::{RegistryCursor, ResourceSecond};
use leaparray::{Clock, Registry, Timestamp};

use crate::lines;

/// The time after the end of a second at which it is read. A thread that has taken its timestamp
/// before the end has recorded by then. The dashboard asks for a second at the earliest one second
/// after its end.
pub(crate) const SETTLE: Duration = Duration::from_millis(500);

/// How long seconds are kept after they were read. The dashboard reaches back 15 s at most.
const KEEP: Duration = Duration::from_secs(20);

/// The most lines of an answer: as many as Sentinel answers.
const MAX_LINES: usize = 100_000;

pub(crate) struct Seconds<C> {
    registry: Arc<Registry<C>>,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    cursor: RegistryCursor,
    /// The memory of a poll.
    polled: Vec<ResourceSecond>,
    seconds: VecDeque<Second>,
}

/// A second, and its lines in the thin form.
struct Second {
    number: u64,
    lines: String,
}

impl<C: Clock + Clone> Seconds<C> {
    /// Begins to keep seconds. From now on, the registry keeps those of resources that are evicted.
    pub(crate) fn new(registry: Arc<Registry<C>>) -> Self {
        let seconds = Self { registry, kept: Mutex::default() };
        seconds.read(|_| ());
        seconds
    }

    pub(crate) fn registry(&self) -> &Arc<Registry<C>> {
        &self.registry
    }

    /// Reads the seconds that were completed since, and returns what `read` makes of all kept ones.
    fn read<T>(&self, read: impl FnOnce(&VecDeque<Second>) -> T) -> T {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let Kept { cursor, polled, seconds } = &mut *kept;
        let now = self.registry.clock().now();
        self.registry.at(now.saturating_sub(SETTLE)).poll_seconds_into(cursor, polled);
        for of_second in lines::of_seconds(polled) {
            let mut text = String::new();
            for line in &of_second.lines {
                writeln!(text, "{}", line.thin()).expect("a string takes any text");
            }
            seconds.push_back(Second { number: of_second.second.as_secs(), lines: text });
        }
        let oldest = now.saturating_sub(KEEP).as_secs();
        seconds.retain(|it| it.number >= oldest);
        read(seconds)
    }

    /// Returns the lines of the seconds with these numbers, of one resource if it has a name. Ends
    /// after the second with which there are `most` lines.
    pub(crate) fn lines(
        &self,
        numbers: &RangeInclusive<u64>,
        identity: Option<&str>,
        most: usize,
    ) -> String {
        self.read(|seconds| {
            let (mut text, mut count) = (String::new(), 0);
            for second in seconds.iter().filter(|it| numbers.contains(&it.number)) {
                if count >= most.min(MAX_LINES) {
                    break;
                }
                let is_asked = |line: &&str| identity.is_none_or(|it| resource_of(line) == it);
                for line in second.lines.split_inclusive('\n').filter(is_asked) {
                    text.push_str(line);
                    count += 1;
                }
            }
            text
        })
    }
}

/// Returns the name in a line: its second field.
fn resource_of(line: &str) -> &str {
    line.split('|').nth(1).unwrap_or_default()
}

/// Returns the number of the second of a time in milliseconds since the Unix epoch.
pub(crate) const fn number_of(millis: u64) -> u64 {
    millis / 1_000
}

/// Returns the start of the second of a time.
pub(crate) const fn start_of_second(time: Timestamp) -> Timestamp {
    Timestamp::from_secs(time.as_secs())
}
