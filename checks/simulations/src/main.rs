//! Writes `docs/SIMULATIONS.md` and `docs/guide/adaptive_limits.md`, with its table
//! `published.tsv`, or with `--check` compares them with the results. Fails if one of the goals on
//! the pages is missed, if leases overshoot, or if a check of the fleet windows or of the traces
//! fails.
//!
//! | arguments | instead |
//! |---|---|
//! | `search N` | searches N random histories of each family of controllers |
//! | `rules FIRST N` | searches N random histories of rules, from that seed on |
//! | `leases FIRST N` | searches N random fleets with a limit, from that seed on |
//! | `delivery FIRST N` | searches N random fleets that deliver their counts, from that seed on |
//! | `quotas FIRST N` | searches N random sets of clients of quotas, from that seed on |
//! | `traces N` | runs each limit and each breaker on N traces of each shape |
#![forbid(unsafe_code)]

use std::fmt::Debug;
use std::ops::Range;
use std::path::Path;
use std::process::ExitCode;
use std::{env, fs, io};

use leaparray_simulations::histories::controllers::{self, Family};
use leaparray_simulations::histories::rules;
use leaparray_simulations::report::{self, Result};
use leaparray_simulations::scenarios::{self, Scenario};
use leaparray_simulations::{fleet, parallel, published, quotas, shares, storms, traces, windows};

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let is_check = match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => false,
        ["--check"] => true,
        ["search", seeds] => return seeds.parse().map_or(ExitCode::from(2), search),
        [kind @ ("rules" | "leases" | "delivery" | "quotas"), first, seeds] => {
            let (Ok(first), Ok(seeds)) = (first.parse(), seeds.parse()) else {
                return ExitCode::from(2);
            };
            return match *kind {
                "rules" => search_parts(first, seeds, rules::search),
                "quotas" => search_parts(first, seeds, quotas::search::search),
                "delivery" => search_parts(first, seeds, windows::search::search),
                _ => search_parts(first, seeds, fleet::search::search),
            };
        }
        ["traces", seeds] => return seeds.parse().map_or(ExitCode::from(2), run_traces),
        _ => {
            eprintln!(
                "the arguments are --check, or search, rules, leases, delivery, quotas or traces and \
                 numbers, not {arguments:?}"
            );
            return ExitCode::from(2);
        }
    };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/SIMULATIONS.md");
    let results = run_all();
    println!("a limit over a fleet");
    let fleet = fleet::run_all(fleet::all());
    println!("one window over a fleet");
    let windows = windows::run_all(windows::all());
    println!("clients that come again");
    let storms = storms::run_all();
    println!("tenants that share a limit");
    let tenants = shares::run_all();
    let jobs = shares::jobs();
    println!("traces with the shape of real load");
    let traces = traces::run_all(5);
    println!("published algorithms");
    let published = if is_check {
        published::Results::of_checked_table()
    } else {
        Ok(published::Results::of_all_seeds())
    };
    let published = match published {
        Ok(published) => published,
        Err(error) => {
            eprintln!("{error}: run this program without --check");
            return ExitCode::from(2);
        }
    };
    let mut missed: Vec<_> = results.iter().flat_map(|(it, result)| result.missed(it)).collect();
    missed.extend(fleet.missed());
    missed.extend(windows.missed());
    missed.extend(storms.missed());
    missed.extend(shares::missed(&tenants));
    missed.extend(shares::missed_jobs(&jobs));
    missed.extend(traces.missed());
    for line in &missed {
        eprintln!("missed: {line}");
    }
    let numbers = path.with_file_name("guide").join("adaptive_limits.md");
    let sharing = shares::section(&tenants) + &shares::section_of_jobs(&jobs);
    let page = page(&results, &fleet, &windows, &storms) + &sharing + &traces::section(&traces);
    let table = Path::new(env!("CARGO_MANIFEST_DIR")).join("published.tsv");
    let pages = [(path, page), (numbers, published::page(&published)), (table, published.table())];
    for (path, page) in pages {
        let done = if is_check { check(&path, &page) } else { fs::write(&path, page) };
        if let Err(error) = done {
            eprintln!("{}: {error}", path.display());
            return ExitCode::from(2);
        }
    }
    ExitCode::from(u8::from(!missed.is_empty()))
}

/// Prints the first history of each family that breaks its property, made simpler.
fn search(seeds: u64) -> ExitCode {
    let found = parallel::map(&Family::ALL, |family| controllers::search(*family, 0..seeds));
    for (family, found) in Family::ALL.iter().zip(&found) {
        println!("{family:?}: {found:#?}");
    }
    ExitCode::from(u8::from(found.iter().any(Option::is_some)))
}

/// Prints the first history that breaks its property in each part of the seeds, made simpler.
fn search_parts<F: Debug + Send>(
    first: u64,
    seeds: u64,
    search: impl Fn(Range<u64>) -> Option<F> + Sync,
) -> ExitCode {
    const PART: u64 = 1_000;
    let last = first.saturating_add(seeds);
    let parts: Vec<_> = (first..last).step_by(1_000).collect();
    let found = parallel::map(&parts, |part| search(*part..last.min(part + PART)));
    for found in found.iter().flatten() {
        println!("{found:#?}");
    }
    let found = found.iter().flatten().count();
    println!("{seeds} histories from {first} on: {found} parts of {PART} with a difference");
    ExitCode::from(u8::from(found > 0))
}

/// Prints the section of the traces, and each run with a wrong decision.
fn run_traces(seeds: u64) -> ExitCode {
    let results = traces::run_all(seeds);
    print!("{}", traces::section(&results));
    let missed = results.missed();
    for line in &missed {
        eprintln!("missed: {line}");
    }
    println!("\n{} decisions, {} runs missed a goal", results.decisions(), missed.len());
    ExitCode::from(u8::from(!missed.is_empty()))
}

/// Runs all scenarios of the limits that adapt themselves.
fn run_all() -> Vec<(Scenario, Result)> {
    let scenarios = scenarios::all(60);
    let done = parallel::map(&scenarios, |scenario| {
        println!("{}", scenario.name);
        report::run(scenario)
    });
    scenarios.into_iter().zip(done).collect()
}

const HEAD: &str = "\
# Simulations

<!-- Written by `cargo run --release -p leaparray-simulations`. Do not edit: run it again. -->

By discrete events in virtual time, with fixed seeds: each run has the same results. The program
that writes this page fails if a goal below is missed; with `-- --check`, it compares the page.

";

fn page(
    results: &[(Scenario, Result)],
    fleet: &fleet::Results,
    windows: &windows::Results,
    storms: &storms::Results,
) -> String {
    let sections = [
        report::section(results),
        fleet::report::section(fleet),
        windows::report::section(windows),
        storms::section(storms),
    ];
    HEAD.to_owned() + &sections.concat()
}

fn check(path: &Path, page: &str) -> io::Result<()> {
    if fs::read_to_string(path)? == page {
        return Ok(());
    }
    Err(io::Error::other("other results: run this program without --check"))
}
