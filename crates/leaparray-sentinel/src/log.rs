//! The metric log: the seconds of a registry in files, with an index.
//!
//! The lines of a second are in one file, in the order of the seconds. The index of a file has 16
//! bytes for each second of it: the number of the second since the Unix epoch, and the position of
//! its first line, both as big-endian 64-bit integers. A reader finds the first second that is not
//! before the one it looks for, and reads lines from there, through the following files.

use std::fmt::{self, Write as _};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use leaparray::registry::{RegistryCursor, ResourceSecond};
use leaparray::{MonotonicClock, Registry};
use leaparray_rules::RuleClock;

use crate::lines::{self, SecondLines};
use crate::seconds::SETTLE;

/// The time between two writes.
const INTERVAL: Duration = Duration::from_secs(1);

/// The end of the name of an index.
const INDEX: &str = ".idx";

/// Sentinel's metric log of a [`Registry`]: files of lines, each with an index, as the agents and
/// tools of Sentinel read them.
///
/// A file is `orders-metrics.log.2026-11-28`, and the next ones of that day end with `.1`, `.2` and
/// so on. A new file begins with each start of the service, with each day of UTC, and when the last
/// one has reached its size. Before a new one is made, the oldest ones are removed. Sentinel names
/// files by the day of local time: a service whose time zone is UTC has the same names.
///
/// The log has its own position in the seconds of the registry: it and a command centre do not take
/// seconds from each other.
///
/// ```
/// use leaparray::{ManualClock, Registry, RegistryConfig, Timestamp};
/// use leaparray_sentinel::MetricLog;
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path();
/// let clock = ManualClock::new(Timestamp::from_secs(1_795_845_600));
/// let registry = Registry::with_clock(RegistryConfig::default(), clock.clone());
/// let registry = Arc::new(registry);
/// let mut log = MetricLog::new(Arc::clone(&registry), path, "orders").open()?;
/// registry.resource("pay")?.block();
/// clock.advance(Duration::from_millis(1_500));
/// assert_eq!(log.write()?, 2);
/// assert_eq!(
///     std::fs::read_to_string(path.join("orders-metrics.log.2026-11-28"))?,
///     "1795845600000|2026-11-28 06:00:00|pay|0|1|0|0|0|0|0|0\n\
///      1795845600000|2026-11-28 06:00:00|__total_inbound_traffic__|0|1|0|0|0|0|0|0\n",
/// );
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use]
pub struct MetricLog<C: RuleClock = MonotonicClock> {
    registry: Arc<Registry<C>>,
    folder: PathBuf,
    base: String,
    max_size: u64,
    max_files: usize,
}

impl<C: RuleClock> MetricLog<C> {
    /// Creates a log in a folder, for an application. Its files have at most 50 MiB and the lines
    /// of one more second, and there are at most six, as in Sentinel. A dot in the name of the
    /// application becomes `-`, and so does a separator of paths.
    pub fn new(registry: Arc<Registry<C>>, folder: impl Into<PathBuf>, app: &str) -> Self {
        let base = format!("{}-metrics.log", app.replace(['.', '/', '\\'], "-"));
        Self { registry, folder: folder.into(), base, max_size: 50 << 20, max_files: 6 }
    }

    /// Sets the size in bytes from which on a file is not continued: at least 1.
    pub fn max_file_size(mut self, bytes: u64) -> Self {
        self.max_size = bytes.max(1);
        self
    }

    /// Sets the greatest number of files, without their indices: at least 1.
    pub fn max_files(mut self, files: usize) -> Self {
        self.max_files = files.max(1);
        self
    }

    /// Has the names contain the number of this process, for several processes of an application
    /// that share a folder: `orders-metrics.log.pid4711.2026-11-28`. Each process bounds its own
    /// files, so those of processes that have ended stay.
    pub fn with_process_id(mut self) -> Self {
        self.base = format!("{}.pid{}", self.base, std::process::id());
        self
    }

    /// Opens the log, to be written by the caller. Creates the folder. The log has the seconds from
    /// this one on.
    ///
    /// # Errors
    ///
    /// Returns an error if the folder cannot be created.
    pub fn open(self) -> io::Result<MetricLogWriter<C>> {
        fs::create_dir_all(&self.folder)?;
        let mut writer = MetricLogWriter {
            cursor: RegistryCursor::new(),
            polled: Vec::new(),
            files: None,
            is_full: false,
            log: self,
        };
        // Those before are of another file, or of no interest.
        writer.poll();
        Ok(writer)
    }

    /// Opens the log, and starts a thread that writes each second.
    ///
    /// # Errors
    ///
    /// Returns an error if the folder cannot be created or the thread cannot be started.
    pub fn start(self) -> io::Result<MetricLogHandle> {
        let mut writer = self.open()?;
        let state = Arc::new(Mutex::new(MetricLogState::default()));
        let shared = Arc::clone(&state);
        let (stop, stopped) = sync_channel::<()>(0);
        let thread =
            thread::Builder::new().name("sentinel-metric-log".into()).spawn(move || {
                loop {
                    // Nothing is sent: the channel ends with the handle.
                    let end = stopped.recv_timeout(INTERVAL);
                    let result = writer.write();
                    let mut state = shared.lock().unwrap_or_else(PoisonError::into_inner);
                    state.missed = writer.missed();
                    match result {
                        Ok(lines) => {
                            state.lines += lines;
                            state.error = None;
                        }
                        Err(error) => {
                            state.failures += 1;
                            state.error = Some(error.to_string());
                        }
                    }
                    drop(state);
                    if !matches!(end, Err(RecvTimeoutError::Timeout)) {
                        return;
                    }
                }
            })?;
        Ok(MetricLogHandle { state, stop, thread })
    }
}

/// A log that was [opened](MetricLog::open).
#[derive(Debug)]
pub struct MetricLogWriter<C: RuleClock = MonotonicClock> {
    log: MetricLog<C>,
    cursor: RegistryCursor,
    polled: Vec<ResourceSecond>,
    files: Option<Files>,
    /// Whether the last file has reached its size.
    is_full: bool,
}

/// A file and its index.
#[derive(Debug)]
struct Files {
    path: PathBuf,
    lines: File,
    index: File,
    /// The day of its name.
    day: String,
    /// The bytes of the lines of whole seconds.
    size: u64,
    /// The whole seconds.
    seconds: u64,
}

/// An entry of an index: a second, and the position of its first line.
const ENTRY: usize = 16;

impl Files {
    /// Creates a file and its index.
    fn create(path: PathBuf, day: &str) -> io::Result<Self> {
        let lines = File::create_new(&path)?;
        let index = File::create(index_of(&path)).inspect_err(|_| {
            // A file without an index is not read.
            let _ = fs::remove_file(&path);
        })?;
        Ok(Self { path, lines, index, day: day.to_owned(), size: 0, seconds: 0 })
    }

    /// Adds a second.
    fn add(&mut self, second: u64, lines: &str) -> io::Result<()> {
        // The index first: a reader that finds a second without lines reads none, and one that does
        // not find it would skip its lines.
        let mut entry = [0; ENTRY];
        entry[..8].copy_from_slice(&second.to_be_bytes());
        entry[8..].copy_from_slice(&self.size.to_be_bytes());
        self.index.write_all(&entry)?;
        self.lines.write_all(lines.as_bytes())?;
        self.size += lines.len() as u64;
        self.seconds += 1;
        Ok(())
    }

    /// Leaves the whole seconds, after an error. Errors are those of a disk that has failed before.
    fn end(self) {
        if self.seconds == 0 {
            let _ = fs::remove_file(index_of(&self.path));
            let _ = fs::remove_file(&self.path);
        } else {
            let _ = self.lines.set_len(self.size);
            let _ = self.index.set_len(self.seconds * ENTRY as u64);
        }
    }
}

impl<C: RuleClock> MetricLogWriter<C> {
    /// Writes the seconds that have ended half a second ago or earlier, and were not written yet.
    /// Returns the number of lines. Call it once a second: a second that has left the long window
    /// of the registry, by default a minute, is [missed](Self::missed).
    ///
    /// # Errors
    ///
    /// Returns an error if a file cannot be made or written. The seconds of this call from that one
    /// on are lost. The next call makes a new file. A second of which a part was written is removed
    /// if possible, and so is a file without a second, so that a full disk does not fill the number
    /// of files with empty ones, and the older ones stay.
    pub fn write(&mut self) -> io::Result<u64> {
        self.poll();
        let polled = std::mem::take(&mut self.polled);
        let result = lines::of_seconds(&polled).try_fold(0, |lines, second| {
            self.write_second(&second)?;
            Ok(lines + second.lines.len() as u64)
        });
        self.polled = polled;
        if result.is_err()
            && let Some(files) = self.files.take()
        {
            files.end();
        }
        result
    }

    /// Returns the number of seconds that left the registry's long window between two calls.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.cursor.missed()
    }

    fn poll(&mut self) {
        let registry = &self.log.registry;
        let ended = registry.clock().now().saturating_sub(SETTLE);
        registry.at(ended).poll_seconds_into(&self.cursor, &mut self.polled);
    }

    fn write_second(&mut self, second: &SecondLines) -> io::Result<()> {
        let mut text = String::new();
        for line in &second.lines {
            writeln!(text, "{line}").expect("a string takes any text");
        }
        let day = day_of(&text);
        let files = match &mut self.files {
            Some(files) if files.day == day && !self.is_full => files,
            _ => self.files.insert(self.log.next_files(&day)?),
        };
        files.add(second.second.as_secs(), &text)?;
        self.is_full = files.size >= self.log.max_size;
        Ok(())
    }
}

/// Returns the day of the first line, which has the date in its second field.
fn day_of(lines: &str) -> String {
    let date = lines.split('|').nth(1).unwrap_or_default();
    date.split(' ').next().unwrap_or_default().to_owned()
}

impl<C: RuleClock> MetricLog<C> {
    /// Removes the oldest files, and makes the next one of a day.
    fn next_files(&self, day: &str) -> io::Result<Files> {
        let mut names = self.names()?;
        names.sort_unstable();
        let surplus = (names.len() + 1).saturating_sub(self.max_files);
        for name in &names[..surplus] {
            let path = self.folder.join(name.file(&self.base));
            // Another process of the same name may have removed it.
            for path in [index_of(&path), path] {
                match fs::remove_file(path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
        }
        let of_day = names.iter().filter(|it| it.day == day).map(|it| it.number);
        let mut name = Name { day: day.to_owned(), number: of_day.max().map_or(0, |it| it + 1) };
        loop {
            let path = self.folder.join(name.file(&self.base));
            match Files::create(path, day) {
                // Of another process of the same name.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => name.number += 1,
                result => return result,
            }
        }
    }

    /// Returns the names of the files of this log.
    fn names(&self) -> io::Result<Vec<Name>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let file = entry?.file_name();
            let end = file.to_str().and_then(|it| it.strip_prefix(&*self.base));
            names.extend(end.and_then(Name::parse));
        }
        Ok(names)
    }
}

/// The end of the name of a file. Sorts in the order of the files.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    day: String,
    /// The first file of a day has none, which is 0.
    number: u64,
}

impl Name {
    /// Parses `.2026-11-28` and `.2026-11-28.7`.
    fn parse(end: &str) -> Option<Self> {
        let mut parts = end.strip_prefix('.')?.split('.');
        let day = parts.next()?;
        let is_day = day.len() == 10
            && day.bytes().enumerate().all(|(at, it)| match at {
                4 | 7 => it == b'-',
                _ => it.is_ascii_digit(),
            });
        let number = parts.next().map_or(Some(0), |it| it.parse().ok())?;
        (is_day && parts.next().is_none()).then(|| Self { day: day.to_owned(), number })
    }

    fn file(&self, base: &str) -> String {
        match self.number {
            0 => format!("{base}.{}", self.day),
            number => format!("{base}.{}.{number}", self.day),
        }
    }
}

fn index_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(INDEX);
    name.into()
}

/// A log that is written by a thread. The thread writes a last time and ends when this is dropped.
#[must_use = "the log ends when this is dropped"]
pub struct MetricLogHandle {
    state: Arc<Mutex<MetricLogState>>,
    stop: SyncSender<()>,
    thread: JoinHandle<()>,
}

/// The state of a log: plain data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MetricLogState {
    /// The number of lines that were written.
    pub lines: u64,
    /// The number of seconds that were not written, since the thread was late by more than the long
    /// window of the registry.
    pub missed: u64,
    /// The number of writes that have failed.
    pub failures: u64,
    /// Why the last write has failed, if it has.
    pub error: Option<String>,
}

impl MetricLogHandle {
    /// Returns the state after the last write.
    #[must_use]
    pub fn state(&self) -> MetricLogState {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Writes a last time, waits for it, and returns the state.
    pub fn close(self) -> MetricLogState {
        let Self { state, stop, thread } = self;
        drop(stop);
        // A thread that has panicked has written what it could.
        let _ = thread.join();
        state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl fmt::Debug for MetricLogHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetricLogHandle").field("state", &self.state()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_in_the_order_of_their_days_and_numbers() {
        let parse = |it| Name::parse(it).unwrap();
        let mut names =
            [".2026-11-28.10", ".2026-11-28.9", ".2026-11-29", ".2026-11-28"].map(parse);
        names.sort();
        let files = names.map(|it| it.file("a-metrics.log"));
        assert_eq!(
            files,
            [
                "a-metrics.log.2026-11-28",
                "a-metrics.log.2026-11-28.9",
                "a-metrics.log.2026-11-28.10",
                "a-metrics.log.2026-11-29",
            ]
        );
        for end in ["", ".2026-11-28.idx", ".2026-11-28.1.idx", ".pid7.2026-11-28", ".2026-11-2"] {
            assert_eq!(Name::parse(end), None, "{end}");
        }
    }
}
