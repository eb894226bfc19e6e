//! The load of the machine.

/// The times of all processors since the start of the machine, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuTimes {
    busy: u64,
    all: u64,
}

impl CpuTimes {
    /// Returns the share of the time since the times `before` for which the processors were busy,
    /// in percent.
    #[expect(clippy::cast_precision_loss, reason = "a share")]
    pub(crate) fn percent_since(self, before: Self) -> f64 {
        let (busy, all) =
            (self.busy.saturating_sub(before.busy), self.all.saturating_sub(before.all));
        if all == 0 { 0.0 } else { busy as f64 * 100.0 / all as f64 }
    }
}

/// Reads the times of all processors, or tells why this machine has none.
pub(crate) fn cpu_times() -> Result<CpuTimes, String> {
    const FILE: &str = "/proc/stat";
    let text = std::fs::read_to_string(FILE)
        .map_err(|error| format!("the load of this machine is not known: {FILE}: {error}"))?;
    parse(&text)
        .ok_or_else(|| format!("the load of this machine is not known: {FILE} has no `cpu`"))
}

/// Reads the first line of `/proc/stat`: user, nice, system, idle, waiting for input and output,
/// interrupts (two), stolen, and guests (two), whose times are among those of users.
fn parse(text: &str) -> Option<CpuTimes> {
    let line = text.lines().find_map(|it| it.strip_prefix("cpu "))?;
    let ticks: Option<Vec<u64>> =
        line.split_whitespace().take(8).map(|it| it.parse().ok()).collect();
    let ticks = ticks.filter(|it| it.len() >= 4)?;
    let all = ticks.iter().sum();
    let idle: u64 = ticks[3..].iter().take(2).sum();
    Some(CpuTimes { busy: all - idle, all })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn share_is_of_the_time_between_two_readings() {
        let before = parse("cpu  10 0 20 60 10 0 0 0 5 0\ncpu0 1 2 3 4\n").unwrap();
        assert_eq!(before, CpuTimes { busy: 30, all: 100 });
        let after = parse("cpu  70 5 25 70 10 5 3 12 5 0\n").unwrap();
        assert!((after.percent_since(before) - 90.0).abs() < 1e-9);
        assert!(after.percent_since(after) < f64::EPSILON);
        assert_eq!(parse("cpu 1 2 3\n"), None);
        assert_eq!(parse("intr 1 2 3 4\n"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn times_of_this_machine_are_read() {
        assert!(cpu_times().is_ok_and(|it| it.all >= it.busy && it.all > 0));
    }
}
