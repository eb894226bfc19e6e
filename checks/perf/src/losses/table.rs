//! The table of the results.

use leaparray_perf_page::grouped;

use super::pace::Pace;
use super::tally::Tally;
use super::{BUCKETS, Peer, WINDOWS};
use crate::machine;

const HEAD: [&str; 7] = ["recorded", "summed", "expired", "late", "lost", "too many", "panicked"];

pub(super) fn print(peers: &[Peer], rounds: u64, threads: usize) {
    println!(
        "{rounds} rounds of each, {threads} threads on {} cores, {WINDOWS} windows of {BUCKETS} \
         buckets of 1 ms; checks/perf/src/losses/tally.rs explains the columns",
        machine::cores()
    );
    for pace in Pace::ALL {
        println!("\n{}", line(pace.name(), HEAD.map(str::to_owned)));
        for peer in peers {
            println!("{}", row(peer, &peer.tallies[pace as usize]));
        }
    }
    println!();
    for peer in peers {
        if let Some(ledger) = peer.ledger() {
            println!("{}'s own ledger: {ledger}", peer.name);
        }
    }
}

fn line(first: &str, others: [String; 7]) -> String {
    let others = others.map(|cell| format!("{cell:>13}")).concat();
    format!("{first:<26}{others}")
}

fn row(peer: &Peer, tally: &Tally) -> String {
    let Tally { recorded, summed, expired, late, lost, too_many, panicked } = *tally;
    let cells = [recorded, summed, expired, late, lost, too_many, panicked];
    let mut cells = cells.map(|it| grouped(it as f64));
    if peer.ledger().is_none() {
        "–".clone_into(&mut cells[3]);
    }
    line(&peer.name, cells)
}
