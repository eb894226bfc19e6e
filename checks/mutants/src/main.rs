//! Runs the mutants of `table.toml`.

#![forbid(unsafe_code)]

mod copy;
mod run;

use std::collections::{BTreeMap, VecDeque};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::{env, fs, io, iter, process, thread};

use copy::Copy;
use leaparray_mutants::{Build, Mutant, Table, root};
use run::run_group;

const USAGE: &str = "\
Runs the mutants of checks/mutants/table.toml, and reports which of them their killers notice.

    cargo run -p leaparray-mutants -- [--jobs N] [NAME...]

Runs those whose names contain one of the NAMEs, or all. Works on copies of the tree, one for each
of the N jobs (1). A killer has to pass on the unchanged copy first. A mutant is killed if its
killer then fails or aborts. It is an error, not a kill, if the mutant does not apply or does not
compile, if no test has the killer's name, if the killer was skipped because a program is missing,
or if a model is no longer deterministic. The exit status is 0 if all mutants are killed.

SCRATCH=FOLDER keeps the copies, what was compiled in them and the output of the tests in that
folder, so that the next run compiles less. Needs git, `timeout` of the GNU coreutils, and for some
mutants of leaparray-redis `redis-server`.";

/// The binaries to compile, each with its mutants. A job with an even number takes them from the
/// front and one with an odd number from the back, so that two jobs rarely compile the same crates.
type Queue = Mutex<VecDeque<(Build, Vec<Mutant>)>>;

fn main() -> ExitCode {
    if env::args().skip(1).any(|it| it == "--help") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let Some((jobs, names)) = arguments(env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match run(jobs, &names) {
        Ok(Done { mutants, killed }) => {
            println!("\n{killed} of {mutants} killed");
            if killed == mutants { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

fn arguments(mut all: impl Iterator<Item = String>) -> Option<(usize, Vec<String>)> {
    let (mut jobs, mut names) = (1, Vec::new());
    while let Some(argument) = all.next() {
        match argument.as_str() {
            "--jobs" => jobs = all.next()?.parse().ok().filter(|&jobs| jobs > 0)?,
            flag if flag.starts_with('-') => return None,
            _ => names.push(argument),
        }
    }
    Some((jobs, names))
}

/// The number of mutants that were run, and of those that were killed.
struct Done {
    mutants: usize,
    killed: usize,
}

fn run(jobs: usize, names: &[String]) -> io::Result<Done> {
    let root = root();
    let is_selected =
        |mutant: &Mutant| names.is_empty() || names.iter().any(|name| mutant.name.contains(name));
    let mut groups = BTreeMap::<Build, Vec<Mutant>>::new();
    for mutant in Table::read(&root)?.mutants.into_iter().filter(is_selected) {
        groups.entry(mutant.killer.build.clone()).or_default().push(mutant);
    }
    if groups.is_empty() {
        return Err(io::Error::other("no mutant has such a name"));
    }
    // Absolute, since the commands run in the copies.
    let kept = env::var_os("SCRATCH").map(std::path::absolute).transpose()?;
    let scratch = kept
        .clone()
        .unwrap_or_else(|| env::temp_dir().join(format!("leaparray-mutants-{}", process::id())));
    let mutants = groups.values().map(Vec::len).sum();
    let queue: Queue = Mutex::new(groups.into_iter().collect());
    let killed = thread::scope(|scope| {
        let start = |job: usize| {
            let (queue, root, folder) = (&queue, &root, scratch.join(job.to_string()));
            scope.spawn(move || work(job, queue, &Copy::of(root, &folder)?))
        };
        let workers: Vec<_> = (0..jobs).map(start).collect();
        let join = |worker: thread::ScopedJoinHandle<'_, io::Result<usize>>| {
            worker.join().expect("a job panicked")
        };
        workers.into_iter().map(join).sum::<io::Result<usize>>()
    });
    if kept.is_none() && scratch.exists() {
        fs::remove_dir_all(&scratch)?;
    }
    Ok(Done { mutants, killed: killed? })
}

/// Takes binaries from the queue until it is empty. Returns how many mutants are killed.
fn work(job: usize, queue: &Queue, copy: &Copy) -> io::Result<usize> {
    let lock = || queue.lock().unwrap_or_else(PoisonError::into_inner);
    let next = || if job.is_multiple_of(2) { lock().pop_front() } else { lock().pop_back() };
    let groups = iter::from_fn(next).map(|(build, mutants)| run_group(copy, &build, &mutants));
    // After an error, the other jobs only finish what they have begun.
    groups.sum::<io::Result<usize>>().inspect_err(|_| lock().clear())
}
