//! Writes `docs/SIMULATIONS.md` and its plots, or with `--check` compares the page and the plots with the results. Fails if the limits of `Headroom`
//! miss a goal.
#![forbid(unsafe_code)]

use std::error::Error;
use std::num::NonZero;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs, thread};

use leaparray_simulations::report::{self, Result};
use leaparray_simulations::scenarios::{self, Scenario};

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let is_check = match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => false,
        ["--check"] => true,
        _ => {
            eprintln!("the only argument is --check, not {arguments:?}");
            return ExitCode::from(2);
        }
    };
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let results = run_all();
    let done = report::files(&results)
        .and_then(|files| if is_check { check(&docs, &files) } else { write(&docs, &files) });
    if let Err(error) = done {
        eprintln!("{error}");
        return ExitCode::from(2);
    }
    let missed: Vec<_> = results.iter().flat_map(|(it, result)| result.missed(it)).collect();
    for line in &missed {
        eprintln!("missed: {line}");
    }
    ExitCode::from(u8::from(!missed.is_empty()))
}

/// Runs all scenarios, as many at a time as there are processors.
fn run_all() -> Vec<(Scenario, Result)> {
    let scenarios = scenarios::all(60);
    let next = AtomicUsize::new(0);
    let run = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(scenario) = scenarios.get(index) else { return done };
            println!("{}", scenario.name);
            done.push((index, report::run(scenario)));
        }
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let mut done: Vec<_> = thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        running.into_iter().flat_map(|it| it.join().expect("no panic")).collect()
    });
    done.sort_by_key(|(index, _)| *index);
    scenarios.into_iter().zip(done.into_iter().map(|(_, result)| result)).collect()
}

fn write(docs: &Path, files: &[(String, String)]) -> std::result::Result<(), Box<dyn Error>> {
    fs::create_dir_all(docs.join("simulations"))?;
    for (path, text) in files {
        fs::write(docs.join(path), text)
            .map_err(|error| format!("{path} cannot be written: {error}"))?;
    }
    Ok(())
}

fn check(docs: &Path, files: &[(String, String)]) -> std::result::Result<(), Box<dyn Error>> {
    for (path, text) in files {
        let found = fs::read_to_string(docs.join(path))
            .map_err(|error| format!("docs/{path} cannot be read: {error}"))?;
        if found != *text {
            let error = format!("docs/{path} has other results: run this program without --check");
            return Err(error.into());
        }
    }
    Ok(())
}
