//! What is lost where buckets roll over: here, and by peers that go through the same.
//!
//! Threads record across rollovers, end, and then the windows are read. Of each call it is known in
//! which milliseconds it can have taken its time, and so whether a right window has it. Nothing counts
//! as lost that a right window may leave out.

mod clock;
mod options;
mod pace;
mod panics;
mod peers;
mod round;
mod table;
mod tally;
mod written;

use std::process::ExitCode;
use std::time::Instant;

use leaparray::Ledger;

use clock::{WallClock, sleep_until};
use options::{Asked, Options};
use pace::Pace;
use peers::Window;
use tally::Tally;

/// So many windows of each peer roll over at the same time.
const WINDOWS: usize = 16;
/// Buckets of a millisecond: the shortest that sentinel-core has.
const BUCKETS: u64 = 20;

/// Drives every peer, and prints what became of what it recorded. Fails if this crate has lost
/// anything.
#[must_use]
pub fn run() -> ExitCode {
    match Options::from_args() {
        Asked::Run(options) => compare(&options),
        Asked::Help(help) => {
            print!("{help}");
            ExitCode::SUCCESS
        }
        Asked::Nonsense(complaint) => {
            eprintln!("{complaint}");
            ExitCode::from(2)
        }
    }
}

fn compare(options: &Options) -> ExitCode {
    panics::keep_quiet_when_caught();
    let clock = WallClock::start();
    let sentinel = format!("sentinel-core {}", crate::machine::version("sentinel-core"));
    let mut lanes = [
        Lane::of("leaparray", |_| Box::new(peers::Ours::new(clock))),
        Lane::of(sentinel, |number| Box::new(peers::Sentinel::new(number))),
        Lane::of("mutex ring", |_| Box::new(peers::mutex_ring())),
        Lane::of("reset-in-place ring", |_| Box::new(peers::reset_in_place_ring())),
    ];
    let rounds = drive(&mut lanes, options, clock);
    table::print(&lanes, rounds, options.threads());
    if lanes[0].is_exact() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A round of each peer in turn, so that what disturbs the machine disturbs all of them.
fn drive(lanes: &mut [Lane], options: &Options, clock: WallClock) -> u64 {
    let (began, mut rounds) = (Instant::now(), 0);
    while options.wants_more(rounds, began.elapsed()) {
        let pace = Pace::of_round(rounds);
        for lane in &mut *lanes {
            lane.round(pace, options.threads(), clock);
        }
        rounds += 1;
    }
    rounds
}

/// A peer, and what became of it so far.
struct Lane {
    name: String,
    windows: Vec<Box<dyn Window>>,
    /// One for each pace.
    tallies: [Tally; 2],
    /// From when on nothing of the last round is in a window any more.
    clear: u64,
}

impl Lane {
    fn of(name: impl Into<String>, window: impl Fn(usize) -> Box<dyn Window>) -> Self {
        let windows = (0..WINDOWS).map(window).collect();
        Self { name: name.into(), windows, tallies: Default::default(), clear: 0 }
    }

    fn round(&mut self, pace: Pace, threads: usize, clock: WallClock) {
        sleep_until(clock, self.clear);
        let late = self.late();
        let mut tally = round::drive(&self.windows, pace, threads, clock);
        tally.set_late(self.late() - late);
        self.tallies[pace as usize] += tally;
        self.clear = clock.millis() + BUCKETS;
    }

    fn late(&self) -> u64 {
        self.ledger().map_or(0, |ledger| ledger.late)
    }

    /// What the peer itself says about all that it recorded, if it does.
    fn ledger(&self) -> Option<Ledger<u64>> {
        let ledgers: Option<Vec<_>> = self.windows.iter().map(|window| window.ledger()).collect();
        ledgers?.into_iter().reduce(|sum, window| Ledger {
            in_window: sum.in_window + window.in_window,
            expired: sum.expired + window.expired,
            late: sum.late + window.late,
        })
    }

    /// Whether nothing went wrong, as measured from outside and by the peer's own ledger.
    fn is_exact(&self) -> bool {
        let wrong = |tally: &Tally| tally.lost + tally.too_many + tally.panicked;
        let recorded: u64 = self.tallies.iter().map(|tally| tally.recorded).sum();
        let balance = self.ledger().map(|ledger| ledger.recorded());
        self.tallies.iter().map(wrong).sum::<u64>() == 0
            && balance.is_none_or(|sum| sum == recorded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_that_loses_adds_or_has_no_ledger_is_not_exact() {
        let clock = WallClock::start();
        let lane = || Lane::of("ours", move |_| Box::new(peers::Ours::new(clock)));
        let with = |tally: Tally| Lane { tallies: [Tally::default(), tally], ..lane() };
        assert!(lane().is_exact());
        assert!(!with(Tally { lost: 1, ..Tally::default() }).is_exact());
        assert!(!with(Tally { too_many: 1, ..Tally::default() }).is_exact());
        assert!(!with(Tally { panicked: 1, ..Tally::default() }).is_exact());
        assert!(!with(Tally { recorded: 1, ..Tally::default() }).is_exact(), "it has no record");
    }
}
