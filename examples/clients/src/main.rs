//! Limits the requests of each client while an attacker invents a client for each request, in
//! simulated time.
//!
//! ```text
//! cargo run -p example-clients
//! ```

mod arguments;

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use leaparray::flow::{Keyed, Rate, RateError, Reason, TokenBucket};
use leaparray::{Clock, ManualClock, Timestamp};

/// The cap on the number of clients that are stored.
const MAX_CLIENTS: usize = 1_000;

/// What has become of the requests of one kind of client.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcomes {
    admitted: u32,
    /// Refused by the limit of the client.
    limited: u32,
    /// Refused because there was no room for the client.
    no_room: u32,
}

/// The outcomes of a run, and the clients with the most refusals.
#[derive(Debug)]
struct Run {
    steady: Outcomes,
    greedy: Outcomes,
    invented: Outcomes,
    stored: usize,
    evicted: u64,
    most_refused: Vec<(String, u64)>,
}

/// Runs a minute: 20 clients ask every half a second, one client asks 100 times a second, and from
/// second 10 on an attacker asks 5,000 times a second, as another client each time.
fn run() -> Result<Run, Box<dyn std::error::Error>> {
    let start = Timestamp::from_secs(60);
    let clock = ManualClock::new(start);
    let limiter = Keyed::new(limit(clock.clone())?, MAX_CLIENTS)?;
    let limiter = limiter.with_keep(Duration::from_secs(30));
    let ask = |client: &str, outcomes: &mut Outcomes| match limiter.try_acquire(client).refusal() {
        None => outcomes.admitted += 1,
        Some(refusal) if refusal.reason == Reason::NO_ROOM_FOR_KEY => outcomes.no_room += 1,
        Some(_) => outcomes.limited += 1,
    };
    let (mut steady, mut greedy, mut invented) = Default::default();
    for millis in 0..60_000 {
        if millis % 500 == 0 {
            (0..20).for_each(|number| ask(&format!("steady-{number}"), &mut steady));
        }
        if millis % 10 == 0 {
            ask("greedy", &mut greedy);
        }
        if millis >= 10_000 {
            (0..5).for_each(|number| ask(&format!("invented-{millis}-{number}"), &mut invented));
        }
        clock.advance(Duration::from_millis(1));
    }
    assert_eq!(clock.now().saturating_since(start), Duration::from_secs(60));
    let top = limiter.top_refused(1).into_iter();
    let most_refused = top.map(|refused| (refused.key, refused.refusals)).collect();
    let (stored, evicted) = (limiter.len(), limiter.counts().evicted_keys);
    Ok(Run { steady, greedy, invented, stored, evicted, most_refused })
}

/// Four requests a second, and bursts of ten.
fn limit(clock: ManualClock) -> Result<TokenBucket<ManualClock>, RateError> {
    Ok(TokenBucket::with_clock(Rate::per_second(4)?, 10, clock))
}

fn main() -> ExitCode {
    if let Some(code) = arguments::exit_code() {
        return code;
    }
    let run = match run() {
        Ok(run) => run,
        Err(error) => {
            arguments::complain(error);
            return ExitCode::FAILURE;
        }
    };
    match print(run) {
        // A broken pipe is no failure: the reader of the output has closed it.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            arguments::complain(format_args!("cannot write to stdout: {error}"));
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

fn print(run: Run) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{:10} {:>9} {:>9} {:>9}", "clients", "admitted", "limited", "no room")?;
    let rows = [("steady", &run.steady), ("greedy", &run.greedy), ("invented", &run.invented)];
    for (name, Outcomes { admitted, limited, no_room }) in rows {
        writeln!(out, "{name:10} {admitted:>9} {limited:>9} {no_room:>9}")?;
    }
    writeln!(out, "\n{} clients are stored, {} were evicted.", run.stored, run.evicted)?;
    for (client, refusals) in run.most_refused {
        writeln!(out, "Most refused: {client}, {refusals} times.")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_clients_are_admitted_throughout_the_attack() {
        let run = run().unwrap();
        assert_eq!(run.steady, Outcomes { admitted: 20 * 120, limited: 0, no_room: 0 });
        // Ten of the burst, and four a second.
        assert_eq!(run.greedy.admitted, 10 + 4 * 60 - 1);
        assert_eq!((run.greedy.no_room, run.greedy.admitted + run.greedy.limited), (0, 6_000));
        assert!(run.stored <= MAX_CLIENTS && run.invented.no_room > 0);
        assert_eq!(run.most_refused[0].0, "greedy");
    }
}
