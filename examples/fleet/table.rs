//! The table of the fleet: a row a second, with columns for each process.

use std::fmt::Write as _;
use std::time::Duration;

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

/// Returns the heading of the table.
pub(crate) fn heading(processes: usize, limit: u64) -> String {
    let mut first = String::from("\n       ");
    let mut second = String::from(" time  ");
    for number in 1..=processes {
        let _ = write!(first, "  {:-^28}", format!(" process {number} "));
        second += "  state      hand   ok/s  429/s";
    }
    let of = format!("of {limit}");
    format!("{first}   fleet\n{second} {of:>8}\n")
}

/// Returns the row of a second.
pub(crate) fn row(elapsed: Duration, processes: &[Seen], in_window: u64) -> String {
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
    format!("{row} {in_window:>8}\n")
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
