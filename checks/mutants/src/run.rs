//! Runs the mutants whose killers are in one binary.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, io};

use leaparray_mutants::{Build, Mutant, Timeout};

use crate::copy::{Binary, Copy};

/// The outcome of one test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    /// It has passed, but checked nothing: a program that it needs is not installed.
    Skipped,
    /// It failed, or aborted its process.
    Failed,
    TimedOut,
    NoSuchTest,
    /// Loom cannot follow a model that is not deterministic. Its failure says nothing about the
    /// mutant.
    NotDeterministic,
}

enum Verdict {
    Killed,
    Survived,
    Error(String),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Passed => "passed",
            Self::Skipped => "skipped",
            Self::Failed => "failed",
            Self::TimedOut => "timed out",
            Self::NoSuchTest => "no such test",
            Self::NotDeterministic => "loom cannot follow it",
        })
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Killed => f.write_str("killed"),
            Self::Survived => f.write_str("SURVIVED"),
            Self::Error(error) => write!(f, "ERROR: {error}"),
        }
    }
}

/// The time limit of a killer on the unchanged tree.
const LIMIT: Duration = Duration::from_secs(600);

/// Runs the killers on the unchanged copy, and then each mutant. Returns how many are killed.
pub(crate) fn run_group(copy: &Copy, build: &Build, mutants: &[Mutant]) -> io::Result<usize> {
    let killers = run_killers(copy, build, mutants)?;
    let mut killed = 0;
    for mutant in mutants {
        let (started, log) = (Instant::now(), copy.log(&mutant.name));
        let verdict = match killers.get(&*mutant.killer.test) {
            Some(&time) => run_mutant(copy, mutant, time, &log)?,
            None => Verdict::Error("its killer does not pass on the unchanged tree".into()),
        };
        let is_killed = matches!(verdict, Verdict::Killed);
        killed += usize::from(is_killed);
        row(
            &verdict,
            started,
            &format!("{:<58} {}", mutant.name, mutant.killer),
            (!is_killed).then_some(&log),
        );
    }
    Ok(killed)
}

/// Runs each killer on the unchanged copy. Returns the times of those that pass, by their paths.
fn run_killers<'a>(
    copy: &Copy,
    build: &Build,
    mutants: &'a [Mutant],
) -> io::Result<BTreeMap<&'a str, Duration>> {
    let (mut passed, started) = (BTreeMap::new(), Instant::now());
    let arguments = build.arguments().join(" ");
    let log = copy.log(&arguments);
    let Some(binary) = copy.compile(build, &log)? else {
        let log = fs::read_to_string(&log)?;
        return Err(io::Error::other(format!("the unchanged tree does not compile:\n{log}")));
    };
    row(&"compiled", started, &arguments, None);
    let killers: BTreeSet<_> = mutants.iter().map(|mutant| &mutant.killer).collect();
    for killer in killers {
        let (started, log) = (Instant::now(), copy.log(&killer.to_string()));
        let outcome = run_test(&binary, &killer.test, LIMIT, &log)?;
        let has_passed = outcome == Outcome::Passed;
        row(&outcome, started, &format!("unchanged {killer}"), (!has_passed).then_some(&log));
        if has_passed {
            passed.insert(&*killer.test, started.elapsed());
        }
    }
    Ok(passed)
}

/// Applies a mutant, runs its killer, and restores the file.
fn run_mutant(
    copy: &Copy,
    mutant: &Mutant,
    unchanged: Duration,
    log: &Path,
) -> io::Result<Verdict> {
    let whole = copy.read(&mutant.file)?;
    let text = match mutant.apply(&whole) {
        Ok(text) => text,
        Err(error) => return Ok(Verdict::Error(error.to_string())),
    };
    copy.write(&mutant.file, &text)?;
    let binary = copy.compile(&mutant.killer.build, log);
    copy.write(&mutant.file, &whole)?;
    let Some(binary) = binary? else { return Ok(Verdict::Error("it does not compile".into())) };
    // A mutant may take longer than the unchanged tree before its killer fails. The tests that stop
    // threads fail after a minute.
    let limit = (unchanged * 4).clamp(Duration::from_secs(90), LIMIT);
    Ok(match run_test(&binary, &mutant.killer.test, limit, log)? {
        Outcome::Failed => Verdict::Killed,
        Outcome::TimedOut if mutant.timeout == Timeout::Killed => Verdict::Killed,
        Outcome::Passed => Verdict::Survived,
        outcome => Verdict::Error(outcome.to_string()),
    })
}

fn run_test(binary: &Binary, test: &str, limit: Duration, log: &Path) -> io::Result<Outcome> {
    let status = binary.run(test, limit, log)?;
    let output = String::from_utf8_lossy(&fs::read(log)?).into_owned();
    Ok(outcome(&output, status.code()))
}

/// Returns the outcome of a test, by its output and by the exit status of `timeout`, which is that
/// of the test if it has ended in time.
fn outcome(output: &str, status: Option<i32>) -> Outcome {
    let has = |line: &str| output.lines().any(|it| it.starts_with(line));
    if !has("running 1 test") {
        Outcome::NoSuchTest
    } else if output.contains("Is the model fully deterministic") {
        Outcome::NotDeterministic
    } else {
        match status {
            Some(124 | 137) => Outcome::TimedOut,
            Some(0) if has("skipped:") => Outcome::Skipped,
            Some(0) => Outcome::Passed,
            _ => Outcome::Failed,
        }
    }
}

/// Prints what became of something, after how many seconds, and the end of the log if there is one
/// to show.
fn row(what: &dyn fmt::Display, started: Instant, of: &str, log: Option<&PathBuf>) {
    let mut text =
        format!("{:<10} {:>6.1} s  {of}", what.to_string(), started.elapsed().as_secs_f64());
    let log = log.and_then(|log| fs::read_to_string(log).ok()).unwrap_or_default();
    let lines: Vec<_> = log.lines().collect();
    for line in &lines[lines.len().saturating_sub(20)..] {
        text += "\n    ";
        text += line;
    }
    println!("{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcome_is_that_of_the_exit_status() {
        let of = |status| outcome("running 1 test\ntest a_test ... ok\n", status);
        let all = [Some(0), Some(101), Some(124), Some(137), None].map(of);

        let [passed, failed] = [Outcome::Passed, Outcome::Failed];
        assert_eq!(all, [passed, failed, Outcome::TimedOut, Outcome::TimedOut, failed]);
    }

    #[test]
    fn test_that_was_skipped_has_not_passed() {
        let output = "\nrunning 1 test\ntest a_test ... ok\n\nsuccesses:\n\n\
            ---- a_test stdout ----\nskipped: a_test: redis-server is not installed\n";
        assert_eq!(outcome(output, Some(0)), Outcome::Skipped);
        assert_eq!(outcome(output, Some(101)), Outcome::Failed);
    }

    #[test]
    fn test_that_was_not_found_has_not_passed() {
        assert_eq!(outcome("running 0 tests\n", Some(0)), Outcome::NoSuchTest);
    }
}
