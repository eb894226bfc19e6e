//! The same rule files, decided by the rules of Sentinel and by those of this crate: what passes.
//!
//! `cargo run -p leaparray-sentinel --example traces` prints the tables of the guide. Time is
//! simulated, so each run prints the same. The decisions of Sentinel are those of a model of its
//! controllers, version 1.8.9, of which each is a few lines.
#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::fmt::Write;
use std::path::Path;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use leaparray::{Entry, ManualClock, Registry, RegistryConfig, Timestamp};
use leaparray_rules::{RuleEntry, RuleSet, Rules};
use leaparray_sentinel::RuleBook;

/// 2026-11-28 06:00:00 in milliseconds.
const START: u64 = 1_795_845_600_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    print!("{}", page()?);
    Ok(())
}

fn page() -> Result<String, Box<dyn std::error::Error>> {
    let mut page = String::new();
    for table in [race()?, windows()?, warm_up()?, breaker()?] {
        writeln!(page, "{table}")?;
    }
    page.pop();
    Ok(page)
}

/// A service with the rules of the files.
struct Service {
    clock: ManualClock,
    book: RuleBook<ManualClock>,
}

impl Service {
    fn new() -> Result<Self, Box<dyn std::error::Error>> {
        let clock = ManualClock::new(Timestamp::from_millis(START));
        let registry = Registry::with_clock(RegistryConfig::default(), clock.clone());
        let rules = Rules::new(Arc::new(registry));
        let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/java_service");
        let book = RuleBook::new(rules).folder(files)?;
        Ok(Self { clock, book })
    }

    fn enter(&self, resource: &str) -> Option<RuleEntry<ManualClock>> {
        self.book.rules().try_enter(resource, ()).ok()
    }

    fn pass(&self, millis: u64) {
        self.clock.advance(Duration::from_millis(millis));
    }
}

/// Sentinel's count of a resource: two buckets of half a second, and the last second before.
#[derive(Default)]
struct Node {
    /// The times of the passes, the oldest first.
    passes: VecDeque<u64>,
}

impl Node {
    fn count(&mut self, now: u64) {
        self.passes.push_back(now);
    }

    fn between(&self, from: u64, to: u64) -> u32 {
        let between = self.passes.iter().filter(|it| (from..to).contains(it)).count();
        between.try_into().expect("few")
    }

    /// Returns the passes of the present bucket and the one before.
    fn pass_qps(&self, now: u64) -> u32 {
        self.between((now / 500 - 1) * 500, now + 1)
    }

    /// Returns the passes of the last second before this one.
    fn previous_pass_qps(&self, now: u64) -> u32 {
        let second = now / 1_000 * 1_000;
        self.between(second - 1_000, second)
    }
}

/// A limit of 20: checked, and counted afterwards.
fn race() -> Result<String, Box<dyn std::error::Error>> {
    let mut table = String::from(
        "| threads that ask at once | Sentinel, in the worst order | here |\n|---:|---:|---:|\n",
    );
    for threads in [1_u32, 4, 16, 64] {
        let mut node = Node::default();
        // The worst order: 19 pass one after the other, and then all threads check before one
        // counts.
        (0..19).for_each(|_| node.count(START));
        let passing = if node.pass_qps(START) < 20 { threads } else { 0 };
        (0..passing).for_each(|_| node.count(START));
        let service = Service::new()?;
        let barrier = Barrier::new(threads as usize);
        let here: usize = thread::scope(|scope| {
            let ask = || {
                barrier.wait();
                (0..200).filter_map(|_| service.enter("GET /orders")).map(Entry::success).count()
            };
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(ask)).collect();
            threads.into_iter().map(|it| it.join().expect("no panic")).sum()
        });
        writeln!(table, "| {threads} | {} | {here} |", node.passes.len())?;
    }
    Ok(table)
}

/// Returns the most passes in any second.
fn most_in_a_second(passes: &[u64]) -> usize {
    let within =
        |it: &u64| passes.iter().filter(|other| (*it..*it + 1_000).contains(other)).count();
    passes.iter().map(within).max().unwrap_or(0)
}

/// A limit of 20 a second, with all of the demand at the worst times.
fn windows() -> Result<String, Box<dyn std::error::Error>> {
    let service = Service::new()?;
    let own = {
        let registry = Registry::with_clock(RegistryConfig::default(), service.clock.clone());
        let rules = Rules::new(Arc::new(registry));
        let text = "[[rule]]\nname = \"orders\"\nresource = \"*\"\nlimit = \"20 per second\"\n";
        rules.apply(&RuleSet::parse(text)?);
        rules
    };
    let mut node = Node::default();
    let (mut as_sentinel, mut any_second) = (Vec::new(), Vec::new());
    // 50 requests at the end of a bucket, and 50 when it has left the window.
    for at in [499, 1_000, 1_499, 2_000] {
        let now = START + at;
        service.clock.set(Timestamp::from_millis(now));
        for _ in 0..50 {
            if node.pass_qps(now) < 20 {
                node.count(now);
            }
            if let Some(entry) = service.enter("GET /orders") {
                entry.success();
                as_sentinel.push(now);
            }
            if let Ok(entry) = own.try_enter("GET /orders", ()) {
                entry.success();
                any_second.push(now);
            }
        }
    }
    let sentinel: Vec<_> = node.passes.into();
    let mut table = String::from("| | passes | the most in any second |\n|---|---:|---:|\n");
    for (name, passes) in [
        ("Sentinel", &sentinel),
        ("here, the rule of the file", &as_sentinel),
        ("here, `limit = \"20 per second\"`", &any_second),
    ] {
        writeln!(table, "| {name} | {} | {} |", passes.len(), most_in_a_second(passes))?;
    }
    Ok(table)
}

/// Sentinel's warm-up: a bucket of tokens that is filled and emptied once a second.
struct WarmUp {
    count: f64,
    warning: f64,
    most: f64,
    slope: f64,
    stored: f64,
    filled_at: u64,
}

impl WarmUp {
    const COLD_FACTOR: f64 = 3.0;

    fn new(count: f64, seconds: f64) -> Self {
        let warning = (seconds * count / (Self::COLD_FACTOR - 1.0)).floor();
        let most = warning + (2.0 * seconds * count / (1.0 + Self::COLD_FACTOR)).floor();
        let slope = (Self::COLD_FACTOR - 1.0) / count / (most - warning);
        Self { count, warning, most, slope, stored: 0.0, filled_at: 0 }
    }

    fn can_pass(&mut self, node: &Node, now: u64) -> bool {
        let second = now / 1_000 * 1_000;
        if second > self.filled_at {
            let before = f64::from(node.previous_pass_qps(now));
            let is_filled = self.stored < self.warning
                || self.stored > self.warning && before < self.count / Self::COLD_FACTOR;
            if is_filled {
                #[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970")]
                let elapsed = (second - self.filled_at) as f64;
                self.stored += elapsed * self.count / 1e3;
            }
            self.stored = (self.stored.min(self.most) - before).max(0.0);
            self.filled_at = second;
        }
        let limit = if self.stored >= self.warning {
            (1.0 / ((self.stored - self.warning) * self.slope + 1.0 / self.count)).next_up()
        } else {
            self.count
        };
        f64::from(node.pass_qps(now) + 1) <= limit
    }
}

/// A warm-up to 100 a second in 10 seconds, with a demand of 500 a second; and after a pause.
fn warm_up() -> Result<String, Box<dyn std::error::Error>> {
    let service = Service::new()?;
    let (mut node, mut sentinel) = (Node::default(), WarmUp::new(100.0, 10.0));
    let mut rows = Vec::new();
    for second in 0..40_u64 {
        let (mut there, mut here) = (0, 0);
        for step in 0..500 {
            let now = START + second * 1_000 + step * 2;
            // A pause of 20 seconds cools both down.
            if (15..35).contains(&second) {
                break;
            }
            service.clock.set(Timestamp::from_millis(now));
            if sentinel.can_pass(&node, now) {
                node.count(now);
                there += 1;
            }
            if let Some(entry) = service.enter("GET /report") {
                entry.success();
                here += 1;
            }
        }
        rows.push((second, there, here));
    }
    let mut table =
        String::from("| second | Sentinel, passes | here, passes |\n|---:|---:|---:|\n");
    let (mut there, mut here) = (0, 0);
    for (second, of_sentinel, of_here) in rows {
        if second < 15 {
            there += of_sentinel;
            here += of_here;
        }
        if !(15..35).contains(&second) {
            writeln!(table, "| {} | {of_sentinel} | {of_here} |", second + 1)?;
        }
        if second == 14 {
            writeln!(table, "| 1 to 15 | {there} | {here} |\n| 16 to 35 | idle | idle |")?;
        }
    }
    Ok(table)
}

/// Sentinel's breaker by a ratio of exceptions, with one bucket.
#[derive(Default)]
struct Breaker {
    state: State,
    bucket: u64,
    errors: u32,
    total: u32,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum State {
    #[default]
    Closed,
    Open {
        until: u64,
    },
    HalfOpen,
}

impl Breaker {
    fn can_pass(&mut self, now: u64) -> bool {
        match self.state {
            State::Closed => true,
            State::Open { until } if now >= until => {
                self.state = State::HalfOpen;
                true
            }
            State::HalfOpen | State::Open { .. } => false,
        }
    }

    fn complete(&mut self, now: u64, is_error: bool) {
        if now / 1_000 != self.bucket {
            (self.bucket, self.errors, self.total) = (now / 1_000, 0, 0);
        }
        self.errors += u32::from(is_error);
        self.total += 1;
        match self.state {
            State::HalfOpen if is_error => self.open(now),
            State::HalfOpen => {
                (self.state, self.errors, self.total) = (State::Closed, 0, 0);
            }
            State::Closed if self.total >= 5 && 2 * self.errors > self.total => self.open(now),
            _ => {}
        }
    }

    fn open(&mut self, now: u64) {
        self.state = State::Open { until: now + 5_000 };
    }
}

/// A breaker for more than half of exceptions, with ten requests a second, each of 20 ms. The
/// backend fails from the third to the tenth second.
fn breaker() -> Result<String, Box<dyn std::error::Error>> {
    let service = Service::new()?;
    let mut sentinel = Breaker::default();
    let mut table = String::from(
        "| second | backend | Sentinel, passes | here, passes |\n|---:|---|---:|---:|\n",
    );
    for second in 0..16_u64 {
        let is_error = (2..10).contains(&second);
        let (mut there, mut here) = (0, 0);
        for step in 0..10 {
            let now = START + second * 1_000 + step * 100;
            service.clock.set(Timestamp::from_millis(now));
            let is_passing = sentinel.can_pass(now);
            let entry = service.enter("pay");
            service.pass(20);
            if is_passing {
                there += 1;
                sentinel.complete(now + 20, is_error);
            }
            if let Some(entry) = entry {
                here += 1;
                if is_error { entry.exception() } else { entry.success() }
            }
        }
        let backend = if is_error { "fails" } else { "works" };
        writeln!(table, "| {} | {backend} | {there} | {here} |", second + 1)?;
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page has the tables as this program prints them.
    #[test]
    fn guide_has_the_traces() {
        let guide =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/sentinel_dashboard.md");
        let guide = std::fs::read_to_string(guide).unwrap();
        for table in page().unwrap().split("\n\n") {
            assert!(guide.contains(table.trim_end()), "not in the guide:\n{table}");
        }
    }
}
