//! The table.

use super::pace::Pace;
use super::tally::Tally;
use super::{BUCKETS, Lane, WINDOWS};
use crate::machine;
use crate::report::thousands;

const HEAD: [&str; 7] = ["recorded", "summed", "expired", "late", "lost", "too many", "panicked"];

pub(super) fn print(lanes: &[Lane], rounds: u64, threads: usize) {
    println!(
        "{rounds} rounds of each, {threads} threads on {} cores, {WINDOWS} windows of {BUCKETS} \
         buckets of 1 ms; --help tells what is counted",
        machine::cores()
    );
    for pace in Pace::ALL {
        println!("\n{}", line(pace.name(), HEAD.map(str::to_owned)));
        for lane in lanes {
            println!("{}", row(lane, &lane.tallies[pace as usize]));
        }
    }
    println!();
    for note in lanes.iter().filter_map(ledger).chain(lanes.iter().filter_map(said)) {
        println!("{note}");
    }
}

fn line(first: &str, others: [String; 7]) -> String {
    let others = others.map(|cell| format!("{cell:>13}")).concat();
    format!("{first:<26}{others}")
}

fn row(lane: &Lane, tally: &Tally) -> String {
    let Tally { recorded, summed, expired, late, lost, too_many, panicked, .. } = *tally;
    let mut cells = [recorded, summed, expired, late, lost, too_many, panicked].map(thousands);
    if lane.ledger().is_none() {
        // It does not say.
        "–".clone_into(&mut cells[3]);
    }
    line(&lane.name, cells)
}

/// What the peer itself says about all that it recorded.
fn ledger(lane: &Lane) -> Option<String> {
    Some(format!("{}'s own ledger: {}", lane.name, lane.ledger()?))
}

/// The first line of a panic: what follows are backtraces.
fn said(lane: &Lane) -> Option<String> {
    let said = lane.tallies.iter().find_map(|tally| tally.said.as_ref())?;
    Some(format!("{} panicked: {}", lane.name, said.lines().next()?))
}
