//! The load of the machine: how busy its processors are, as Linux counts it.

/// The times of all processors since the start of the machine, in ticks.
///
/// ```
/// use leaparray_rules::machine::cpu_times;
///
/// if let (Ok(before), Ok(now)) = (cpu_times(), cpu_times()) {
///     assert!((0.0..=100.0).contains(&now.percent_since(before)));
/// }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    busy: u64,
    all: u64,
    processors: u64,
}

/// The share of the time for which the processors were busy, from readings of their times.
#[derive(Debug, Default)]
pub(crate) struct CpuLoad {
    last: Option<CpuTimes>,
    percent: f64,
}

impl CpuLoad {
    /// The shortest time of a share in seconds. That of a few ticks says nothing.
    const MIN: f64 = 0.5;

    /// The longest time of a share in seconds: it is one of now, and not of a night.
    const MAX: f64 = 5.0;

    /// Returns the share since the reading before, in percent: 0 if that is too long ago or if
    /// there is none, and the last share if it is too short ago. The ticks themselves tell how long
    /// ago it is: no clock that may step does.
    pub(crate) fn read(&mut self, times: CpuTimes) -> f64 {
        let seconds = self.last.and_then(|it| times.seconds_since(it));
        if seconds.is_some_and(|it| it < Self::MIN) {
            return self.percent;
        }
        let last = self.last.replace(times);
        let is_recent = seconds.is_some_and(|it| it <= Self::MAX);
        self.percent = last.filter(|_| is_recent).map_or(0.0, |it| times.percent_since(it));
        self.percent
    }
}

impl CpuTimes {
    /// The ticks of a second: `USER_HZ` of Linux, which is 100 on all architectures of today.
    const TICKS: f64 = 100.0;

    /// Returns the time since the times `before` in seconds; `None` if they are later ones.
    #[expect(clippy::cast_precision_loss, reason = "far below 2⁵³ ticks")]
    fn seconds_since(self, before: Self) -> Option<f64> {
        let ticks = self.all.checked_sub(before.all)?;
        Some(ticks as f64 / (Self::TICKS * self.processors as f64))
    }

    /// Returns the share of the time since the times `before` for which the processors were busy,
    /// in percent.
    #[expect(clippy::cast_precision_loss, reason = "a share")]
    #[must_use]
    pub fn percent_since(self, before: Self) -> f64 {
        let (busy, all) =
            (self.busy.saturating_sub(before.busy), self.all.saturating_sub(before.all));
        if all == 0 { 0.0 } else { busy as f64 * 100.0 / all as f64 }
    }
}

/// Reads the times of all processors.
///
/// # Errors
///
/// Returns why this machine has none: it has no file `/proc/stat`, as outside of Linux.
pub fn cpu_times() -> Result<CpuTimes, String> {
    const FILE: &str = "/proc/stat";
    let text = std::fs::read_to_string(FILE)
        .map_err(|error| format!("the load of this machine is not known: {FILE}: {error}"))?;
    parse(&text)
        .ok_or_else(|| format!("the load of this machine is not known: {FILE} has no `cpu`"))
}

/// Reads the first line of `/proc/stat`: user, nice, system, idle, waiting for input and output,
/// interrupts (two), stolen, and guests (two), whose times are among those of users. Counts the
/// lines of the processors.
fn parse(text: &str) -> Option<CpuTimes> {
    let line = text.lines().find_map(|it| it.strip_prefix("cpu "))?;
    // Each has a line of its own, such as `cpu0 1 2 3 4`.
    let is_processor = |it: &&str| it.starts_with("cpu") && !it.starts_with("cpu ");
    let processors = text.lines().filter(is_processor).count().max(1) as u64;
    let ticks: Option<Vec<u64>> =
        line.split_whitespace().take(8).map(|it| it.parse().ok()).collect();
    let ticks = ticks.filter(|it| it.len() >= 4)?;
    let all = ticks.iter().sum();
    let idle: u64 = ticks[3..].iter().take(2).sum();
    Some(CpuTimes { busy: all - idle, all, processors })
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "exact shares")]
mod tests {
    use super::*;

    #[test]
    fn share_is_of_the_time_between_two_readings() {
        let before = parse("cpu  10 0 20 60 10 0 0 0 5 0\ncpu0 1 2 3 4\n").unwrap();
        assert_eq!(before, CpuTimes { busy: 30, all: 100, processors: 1 });
        let after = parse("cpu  70 5 25 70 10 5 3 12 5 0\n").unwrap();
        assert!((after.percent_since(before) - 90.0).abs() < 1e-9);
        assert!(after.percent_since(after) < f64::EPSILON);
        assert_eq!(parse("cpu 1 2 3\n"), None);
        assert_eq!(parse("intr 1 2 3 4\n"), None);
    }

    #[test]
    fn share_is_of_the_last_seconds() {
        // Two processors, so 200 ticks are a second.
        let times = |busy, all| CpuTimes { busy, all, processors: 2 };
        let mut load = CpuLoad::default();
        assert_eq!(load.read(times(1_000, 1_000)), 0.0, "the first one");
        assert_eq!(load.read(times(1_150, 1_200)), 75.0);
        assert_eq!(load.read(times(1_150, 1_210)), 75.0, "50 ms");
        assert_eq!(load.read(times(1_150, 1_400)), 0.0);
        assert_eq!(load.read(times(1_650, 2_400)), 50.0, "5 s");
        assert_eq!(load.read(times(3_650, 4_400)), 0.0, "10 s at full load, but long ago");
        assert_eq!(load.read(times(3_850, 4_600)), 100.0);
        assert_eq!(load.read(times(0, 0)), 0.0, "times of another machine");
        assert_eq!(load.read(times(50, 200)), 25.0);
    }

    #[test]
    fn processors_are_counted() {
        let text = "cpu  10 0 20 60 10\ncpu0 5 0 10 30 5\ncpu1 5 0 10 30 5\nintr 1\n";
        let times = parse(text).unwrap();
        assert_eq!(times, CpuTimes { busy: 30, all: 100, processors: 2 });
        assert_eq!(times.seconds_since(parse("cpu 0 0 0 0\n").unwrap()), Some(0.5));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn times_of_this_machine_are_read() {
        assert!(cpu_times().is_ok_and(|it| it.all >= it.busy && it.all > 0));
    }
}
