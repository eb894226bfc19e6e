//! The load of the processors, from Linux's files.

use std::fs;
use std::path::PathBuf;
use std::thread;

use crate::time::Timestamp;

/// A source of the load of the processors, for [`Bbr`](super::Bbr).
pub trait CpuLoad {
    /// Returns the load since the last call, as a share of the processors that the process may use:
    /// 1 if all of them were busy. `None` at the first call, or if the load is not known. The
    /// average then stays as it is. Before the first reading, the load counts as low.
    fn load(&mut self, now: Timestamp) -> Option<f64>;
}

/// A load that does not change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FixedCpuLoad(pub f64);

impl CpuLoad for FixedCpuLoad {
    fn load(&mut self, _now: Timestamp) -> Option<f64> {
        Some(self.0)
    }
}

/// The load of a control group, or of the machine if there is no such group; on Linux. Inside a
/// container, it is the group of the container.
///
/// Reads the files of version 2 of the control groups (`cpu.stat`, `cpu.max`,
/// `cpuset.cpus.effective`), otherwise those of version 1 (`cpuacct.usage`, `cpu.cfs_quota_us`,
/// `cpu.cfs_period_us`, `cpuset.effective_cpus`), otherwise `/proc/stat`. A group may use the
/// processors of its set, or all processors of the machine, but not more than its quota. The small
/// files of the kernel are read in the thread of the call that ends an epoch. On other systems, the
/// load is not known.
#[derive(Debug)]
pub struct SystemCpu {
    groups: PathBuf,
    proc: PathBuf,
    last: Option<Reading>,
}

/// The time that processors have been used, and the time that they could have been used since the
/// same moment.
#[derive(Clone, Copy, Debug)]
enum Reading {
    /// Nanoseconds of use, and the number of processors that the group may use, at a time.
    Group { used: f64, processors: f64, at: Timestamp },
    /// Ticks of use, and of use or idleness.
    Machine { used: f64, all: f64 },
}

impl Default for SystemCpu {
    fn default() -> Self {
        Self::new()
    }
}

impl SystemCpu {
    /// Creates a source that reads `/sys/fs/cgroup` and `/proc/stat`. Outside of a container, the
    /// first is the group of the whole machine.
    #[must_use]
    pub fn new() -> Self {
        Self::in_folders("/sys/fs/cgroup", "/proc")
    }

    /// Creates a source that reads the files of other folders, for tests, or for the group of
    /// another process.
    ///
    /// ```
    /// use leaparray::Timestamp;
    /// use leaparray::flow::adaptive::{CpuLoad, SystemCpu};
    ///
    /// let folder = tempfile::tempdir()?;
    /// std::fs::write(folder.path().join("cpuset.cpus.effective"), "0-3\n")?;
    /// let used = |micros: u64| {
    ///     std::fs::write(folder.path().join("cpu.stat"), format!("usage_usec {micros}\n"))
    /// };
    /// std::fs::write(folder.path().join("cpu.max"), "200000 100000\n")?;
    /// let mut cpu = SystemCpu::in_folders(folder.path(), "/proc");
    /// used(1_000_000)?;
    /// assert_eq!(cpu.load(Timestamp::from_secs(10)), None);
    /// used(2_500_000)?;
    /// assert_eq!(
    ///     cpu.load(Timestamp::from_secs(11)),
    ///     Some(0.75),
    ///     "1.5 s of 2 processors in 1 s"
    /// );
    /// # Ok::<_, std::io::Error>(())
    /// ```
    #[must_use]
    pub fn in_folders(groups: impl Into<PathBuf>, proc: impl Into<PathBuf>) -> Self {
        Self { groups: groups.into(), proc: proc.into(), last: None }
    }

    fn read(&self, now: Timestamp) -> Option<Reading> {
        self.read_group_2(now).or_else(|| self.read_group_1(now)).or_else(|| self.read_machine())
    }

    fn read_group_2(&self, at: Timestamp) -> Option<Reading> {
        let stat = fs::read_to_string(self.groups.join("cpu.stat")).ok()?;
        let micros: f64 =
            stat.lines().find_map(|line| line.strip_prefix("usage_usec "))?.parse().ok()?;
        let max = fs::read_to_string(self.groups.join("cpu.max")).unwrap_or_default();
        let mut words = max.split_whitespace();
        let quota = words.next().and_then(|it| it.parse::<f64>().ok());
        let period = words.next().and_then(|it| it.parse::<f64>().ok());
        Some(Reading::Group { used: micros * 1e3, processors: self.processors(quota, period), at })
    }

    fn read_group_1(&self, at: Timestamp) -> Option<Reading> {
        let number = |folder: &str, file: &str| {
            let text = fs::read_to_string(self.groups.join(folder).join(file)).ok()?;
            text.trim().parse::<f64>().ok()
        };
        let used = number("cpuacct", "cpuacct.usage")?;
        let [quota, period] = ["cpu.cfs_quota_us", "cpu.cfs_period_us"].map(|it| number("cpu", it));
        Some(Reading::Group { used, processors: self.processors(quota, period), at })
    }

    fn read_machine(&self) -> Option<Reading> {
        let stat = fs::read_to_string(self.proc.join("stat")).ok()?;
        let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        // user nice system idle iowait irq softirq steal; guest time is part of user time.
        let ticks: Vec<f64> =
            line.split_whitespace().take(8).filter_map(|it| it.parse().ok()).collect();
        let all = ticks.iter().sum();
        let idle: f64 = ticks.get(3..5)?.iter().sum();
        Some(Reading::Machine { used: all - idle, all })
    }
}

impl SystemCpu {
    /// Returns the number of processors that a group may use: its quota, but not more than its set
    /// or the machine has. A quota that is not a positive number is none.
    fn processors(&self, quota: Option<f64>, period: Option<f64>) -> f64 {
        // Not the processors on which this process may run: others of the group may run on more.
        let all = self.set_of_group().or_else(|| self.of_machine()).map_or_else(
            || thread::available_parallelism().map_or(1.0, |it| float(it.get())),
            float,
        );
        match (quota, period) {
            (Some(quota), Some(period)) if quota > 0.0 && period > 0.0 => all.min(quota / period),
            _ => all,
        }
    }

    /// Returns the number of processors of the group's set, such as `0-3,8`.
    fn set_of_group(&self) -> Option<usize> {
        // Of version 2, or of version 1.
        let files = ["cpuset.cpus.effective", "cpuset/cpuset.effective_cpus"];
        let set = files.iter().find_map(|file| fs::read_to_string(self.groups.join(file)).ok())?;
        let count = |range: &str| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
            last.checked_sub(first).map(|it| it + 1)
        };
        set.trim().split(',').map(count).sum::<Option<usize>>().filter(|&it| it > 0)
    }

    /// Returns the number of processors of the machine.
    fn of_machine(&self) -> Option<usize> {
        let stat = fs::read_to_string(self.proc.join("stat")).ok()?;
        let is_processor = |line: &&str| line.starts_with("cpu") && !line.starts_with("cpu ");
        Some(stat.lines().filter(is_processor).count()).filter(|&it| it > 0)
    }
}

#[expect(clippy::cast_precision_loss, reason = "no machine has 2⁵³ processors")]
fn float(processors: usize) -> f64 {
    processors as f64
}

impl CpuLoad for SystemCpu {
    fn load(&mut self, now: Timestamp) -> Option<f64> {
        let new = self.read(now)?;
        let (used, could) = match (self.last.replace(new)?, new) {
            (
                Reading::Group { used: before, at: since, .. },
                Reading::Group { used, processors, at },
            ) => {
                let nanos = at.saturating_since(since).as_secs_f64() * 1e9;
                (used - before, nanos * processors)
            }
            (
                Reading::Machine { used: used_before, all: all_before },
                Reading::Machine { used, all },
            ) => (used - used_before, all - all_before),
            _ => return None,
        };
        (could > 0.0).then(|| (used / could).clamp(0.0, 1.0))
    }
}
