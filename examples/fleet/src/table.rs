//! The table of the fleet: a row a second, with columns for each process.

use std::fmt::Write as _;
use std::time::Duration;

use leaparray_redis::fleet::Presence;

use crate::status::Status;

/// The last known status of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Status(Status),
    Killed,
    Silent,
}

impl Seen {
    pub(crate) const fn in_hand(&self) -> u64 {
        match self {
            Self::Status(status) => status.in_hand,
            Self::Killed | Self::Silent => 0,
        }
    }
}

/// The last final second of the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LastSecond {
    /// How many seconds ago it has ended.
    pub(crate) ago: u64,
    pub(crate) admitted: u64,
    pub(crate) refused: u64,
    /// The processes whose requests are in it, and the processes that it should have.
    pub(crate) processes: Presence,
}

/// Returns the heading of the table.
pub(crate) fn heading(processes: usize, limit: u64) -> String {
    let mut first = String::from("\n       ");
    let mut second = String::from(" time  ");
    for number in 1..=processes {
        let _ = write!(first, "  {:-^28}", format!(" process {number} "));
        second += "  state      hand   ok/s  429/s";
    }
    let of = format!("of {limit}");
    format!(
        "{first}   fleet  -- last final second of all ---\n{second} {of:>8}  ended   ok/s  429/s  processes\n"
    )
}

/// Returns the row of a second.
pub(crate) fn row(
    elapsed: Duration,
    processes: &[Seen],
    in_window: u64,
    last: Option<LastSecond>,
) -> String {
    let mut row = time(elapsed);
    for it in processes {
        let cells = match it {
            Seen::Status(Status { state, in_hand, admitted, refused }) => {
                format!("  {state:10} {in_hand:>4} {admitted:>6} {refused:>6}")
            }
            Seen::Killed => nothing("killed"),
            Seen::Silent => nothing("no answer"),
        };
        row += &cells;
    }
    let last = last.map_or_else(
        || format!("{:>7} {:>6} {:>6}  -", "-", "-", "-"),
        |LastSecond { ago, admitted, refused, processes: Presence { present, expected } }| {
            format!(
                "{:>7} {admitted:>6} {refused:>6}  {present} of {expected}",
                format!("-{ago} s")
            )
        },
    );
    format!("{row} {in_window:>8}{last}\n")
}

/// Returns the line of an event.
pub(crate) fn event(elapsed: Duration, text: &str) -> String {
    format!("{}  {text}\n", time(elapsed))
}

fn nothing(state: &str) -> String {
    format!("  {state:10} {:>4} {:>6} {:>6}", "-", "-", "-")
}

fn time(elapsed: Duration) -> String {
    format!("{:>5.1} s", elapsed.as_secs_f64())
}
