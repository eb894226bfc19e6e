//! A reader of the fleet, in a process of its own: its CPU time and its memory are those of the
//! process.
//!
//! It prints a line for each second that it has seen final, and one for what it has used.

use std::error::Error;
use std::fs;
use std::process::Stdio;
use std::str::FromStr;
use std::time::Duration;

use leaparray::MetricEvent;
use leaparray_redis::fleet::FleetWindow;
use leaparray_redis::{FleetReader, RedisEngine};
use rustix::time::{ClockId, clock_gettime};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::load::now;

/// The first argument of the program, if it is a reader.
pub(super) const READER: &str = "--reader";
/// The number of seconds between two readings of the last minute.
const MINUTES: u64 = 5;
/// How long the reader waits for a second.
const PATIENCE: Duration = Duration::from_secs(20);

/// A second, as the reader saw it when it was final.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Seen {
    pub(super) second: u64,
    pub(super) present: u64,
    pub(super) expected: u64,
    pub(super) passes: u64,
    /// How often a process had no row for a resource.
    pub(super) left_out: u64,
    /// The resources, and those with quantiles.
    pub(super) resources: u64,
    pub(super) with_quantiles: u64,
    /// The passes in these.
    pub(super) passes_with_quantiles: u64,
    /// From the end of the second until the reader has it, in milliseconds.
    pub(super) millis: u64,
}

/// The CPU time and the memory of a reader.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ReaderUsage {
    /// Seconds of the CPU in each second.
    pub(super) cpu: f64,
    /// In bytes.
    pub(super) memory: f64,
    /// Milliseconds of the CPU for a reading of the last second, and of the last minute.
    pub(super) last_second: f64,
    pub(super) last_minute: f64,
}

/// Starts a reader. It ends after the second `end`, and measures from `begin` on.
pub(super) fn start(address: &str, fleet: &str, begin: u64, end: u64) -> std::io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .args([READER, address, fleet, &begin.to_string(), &end.to_string()])
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
}

/// Waits for the end of a reader, and returns what it has printed.
pub(super) async fn finish(reader: Child) -> Result<(Vec<Seen>, ReaderUsage), Box<dyn Error>> {
    let output = reader.wait_with_output().await?;
    let (mut seen, mut usage) = (Vec::new(), None);
    for line in String::from_utf8(output.stdout)?.lines() {
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["second", ref fields @ ..] => {
                let [
                    second,
                    present,
                    expected,
                    passes,
                    left_out,
                    resources,
                    with_quantiles,
                    passes_with_quantiles,
                    millis,
                ] = numbers(fields)?;
                seen.push(Seen {
                    second,
                    present,
                    expected,
                    passes,
                    left_out,
                    resources,
                    with_quantiles,
                    passes_with_quantiles,
                    millis,
                });
            }
            ["usage", ref fields @ ..] => {
                let [cpu, memory, last_second, last_minute] = numbers(fields)?;
                usage = Some(ReaderUsage { cpu, memory, last_second, last_minute });
            }
            _ => return Err(format!("the reader has printed: {line}").into()),
        }
    }
    Ok((seen, usage.ok_or("the reader has ended early")?))
}

fn numbers<T: FromStr, const N: usize>(fields: &[&str]) -> Result<[T; N], String> {
    let numbers: Result<Vec<T>, _> = fields.iter().map(|it| it.parse()).collect();
    let numbers = numbers.ok().and_then(|it| it.try_into().ok());
    numbers.ok_or_else(|| format!("{N} numbers are expected: {fields:?}"))
}

/// Reads a fleet, with the arguments of [`start`] after the first one.
pub(super) async fn run(args: &[String]) -> Result<(), Box<dyn Error>> {
    let [address, fleet, begin, end] = args else { return Err("four arguments".into()) };
    let (begin, end): (u64, u64) = (begin.parse()?, end.parse()?);
    let reader = FleetReader::builder(fleet).start(RedisEngine::open(address)?)?;
    let mut newest = reader.newest();
    let (mut start, mut measured) = (None, Measured::default());
    loop {
        let late = |_| format!("no new second is final, the reader is {:?}", reader.state());
        timeout(PATIENCE, newest.changed()).await.map_err(late)??;
        let Some(second) = *newest.borrow_and_update() else { continue };
        if second >= begin && start.is_none() {
            (start, measured) = (Some((now(), cpu(ClockId::ProcessCPUTime))), Measured::default());
        }
        let late = now().saturating_sub(Duration::from_secs(second + 1));
        let window = measured.seconds.time(|| reader.last_second()).ok_or("no last second")?;
        print(&window, late);
        if second % MINUTES == 0 {
            measured.minutes.time(|| reader.last_minute());
        }
        if second >= end {
            break;
        }
    }
    let (start, cpu_before) = start.ok_or("no second was measured")?;
    let busy =
        cpu(ClockId::ProcessCPUTime) - cpu_before - measured.seconds.cpu - measured.minutes.cpu;
    let share = busy / now().saturating_sub(start).as_secs_f64();
    let (second, minute) = (measured.seconds.millis(), measured.minutes.millis());
    println!("usage {share} {} {second} {minute}", memory().ok_or("no /proc/self/status")?);
    Ok(())
}

#[derive(Debug, Default)]
struct Measured {
    seconds: Readings,
    minutes: Readings,
}

/// The CPU time of readings, in seconds, and their number.
#[derive(Debug, Default)]
struct Readings {
    cpu: f64,
    count: u32,
}

impl Readings {
    fn time<T>(&mut self, read: impl FnOnce() -> T) -> T {
        let before = cpu(ClockId::ThreadCPUTime);
        let result = read();
        self.cpu += cpu(ClockId::ThreadCPUTime) - before;
        self.count += 1;
        result
    }

    fn millis(&self) -> f64 {
        self.cpu * 1e3 / f64::from(self.count)
    }
}

fn print(window: &FleetWindow, late: Duration) {
    let presence = window.presence;
    let quantiles = window.resources.iter().filter(|it| it.counts.quantile(0.99).is_some());
    let passes: u64 = quantiles.clone().map(|it| it.counts.metrics.counts[MetricEvent::Pass]).sum();
    println!(
        "second {} {} {} {} {} {} {} {passes} {}",
        window.seconds.start,
        presence.present,
        presence.expected,
        window.total.metrics.counts[MetricEvent::Pass],
        window.left_out_rows,
        window.resources.len(),
        quantiles.count(),
        late.as_millis()
    );
}

/// Returns CPU time in seconds.
fn cpu(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Returns the resident memory of this process in bytes.
fn memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let value = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}
