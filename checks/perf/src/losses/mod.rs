//! Counts the adds that this crate and its peers lose at rollovers.
//!
//! Each peer has 16 windows of 20 buckets of 1 ms. The peers take turns, one round at a time. In a
//! round, threads record in all windows of the peer, by the system's clock; then the threads end,
//! and each window is read once.
//!
//! For each call, the milliseconds in which it can have read the clock are known, and so is whether
//! an exact window contains it. An add that an exact window may leave out does not count as lost.
//! [`Tally`] defines the columns of the table.

mod clock;
mod pace;
mod round;
mod table;
mod tally;
mod windows;
mod written;

use std::process::ExitCode;
use std::sync::Once;
use std::time::{Duration, Instant};
use std::{env, panic};

use leaparray::array::Ledger;

use crate::machine;
use clock::{WallClock, sleep_until};
use pace::Pace;
use tally::Tally;
use windows::Window;

/// The number of windows of each peer, which roll over at the same time.
const WINDOWS: usize = 16;
/// The number of buckets of each window. A bucket is a millisecond long, the shortest length in
/// sentinel-core.
const BUCKETS: u64 = 20;

/// Drives every peer for `--seconds N` and prints the outcome of the recorded calls. Returns a
/// failure if this crate has lost or duplicated an add, or has panicked.
#[must_use]
pub fn run() -> ExitCode {
    let args: Vec<_> = env::args().skip(1).collect();
    let seconds = match &args[..] {
        [] => Some(16),
        [option, seconds] if option == "--seconds" => seconds.parse().ok(),
        _ => None,
    };
    let Some(seconds) = seconds else {
        eprintln!("usage: losses [--seconds N]");
        return ExitCode::from(2);
    };
    print_first_panic();
    let clock = WallClock::start();
    let sentinel = format!("sentinel-core {}", machine::version("sentinel-core"));
    let mut peers = [
        Peer::of("leaparray", |_| Box::new(windows::Ours::new(clock))),
        Peer::of(sentinel, |number| Box::new(windows::Sentinel::new(number))),
        Peer::of("mutex ring", |_| Box::new(windows::mutex_ring())),
        Peer::of("reset-in-place ring", |_| Box::new(windows::reset_in_place_ring())),
    ];
    // More threads than cores, so that some are preempted in the middle of a call.
    let threads = 2 * machine::cores();
    let rounds = drive(&mut peers, threads, Duration::from_secs(seconds), clock);
    table::print(&peers, rounds, threads);
    if peers[0].is_exact() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints only the first panic of the threads that record. The table counts all of them.
fn print_first_panic() {
    static FIRST: Once = Once::new();
    panic::set_hook(Box::new(|panic| {
        // The other lines of a message are a backtrace.
        let message = panic.to_string().lines().take(2).collect::<Vec<_>>().join(" ");
        FIRST.call_once(|| eprintln!("{message}"));
    }));
}

/// Runs rounds. In a round, the peers take turns, so that a disturbance of the machine affects all
/// of them.
fn drive(peers: &mut [Peer], threads: usize, length: Duration, clock: WallClock) -> u64 {
    let (start, mut rounds) = (Instant::now(), 0);
    while start.elapsed() < length {
        let pace = Pace::of_round(rounds);
        for peer in &mut *peers {
            peer.round(pace, threads, clock);
        }
        rounds += 1;
    }
    rounds
}

/// A peer, and its results so far.
struct Peer {
    name: String,
    windows: Vec<Box<dyn Window>>,
    /// One tally for each pace.
    tallies: [Tally; 2],
    /// The time from which the windows no longer contain anything of the last round.
    empty_from: u64,
}

impl Peer {
    fn of(name: impl Into<String>, window: impl Fn(usize) -> Box<dyn Window>) -> Self {
        let windows = (0..WINDOWS).map(window).collect();
        Self { name: name.into(), windows, tallies: Default::default(), empty_from: 0 }
    }

    fn round(&mut self, pace: Pace, threads: usize, clock: WallClock) {
        sleep_until(clock, self.empty_from);
        let late = self.late();
        let mut tally = round::drive(&self.windows, pace, threads, clock);
        tally.set_late(self.late() - late);
        self.tallies[pace as usize] += tally;
        self.empty_from = clock.millis() + BUCKETS;
    }

    fn late(&self) -> u64 {
        self.ledger().map_or(0, |ledger| ledger.late)
    }

    /// Returns the sum of the windows' own ledgers, if the peer has ledgers.
    fn ledger(&self) -> Option<Ledger<u64>> {
        let ledgers: Option<Vec<_>> = self.windows.iter().map(|window| window.ledger()).collect();
        ledgers?.into_iter().reduce(|mut sum, ledger| {
            sum += &ledger;
            sum
        })
    }

    /// Returns whether nothing was lost or duplicated, no call panicked, and the peer's own ledger
    /// adds up to the recorded calls.
    fn is_exact(&self) -> bool {
        let recorded: u64 = self.tallies.iter().map(|tally| tally.recorded).sum();
        self.tallies.iter().all(|tally| tally.lost + tally.too_many + tally.panicked == 0)
            && self.ledger().is_none_or(|ledger| ledger.recorded() == recorded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peer_that_loses_adds_or_whose_ledger_differs_is_not_exact() {
        let clock = WallClock::start();
        let is_exact = |tally: Tally| {
            let peer = Peer::of("ours", |_| Box::new(windows::Ours::new(clock)));
            Peer { tallies: [Tally::default(), tally], ..peer }.is_exact()
        };
        assert!(is_exact(Tally::default()));
        assert!(!is_exact(Tally { lost: 1, ..Tally::default() }));
        assert!(!is_exact(Tally { too_many: 1, ..Tally::default() }));
        assert!(!is_exact(Tally { panicked: 1, ..Tally::default() }));
        assert!(!is_exact(Tally { recorded: 1, ..Tally::default() }), "the ledger is empty");
    }
}
