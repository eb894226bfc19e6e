//! The command line.

use std::env;
use std::path::PathBuf;
use std::time::Duration;

use crate::harness::Plan;

pub(crate) const HELP: &str = "\
Measures leaparray and its peers, writes this processor's results to docs/performance, and lists the
results of all processors in docs/PERFORMANCE.md.

  --quick       a smoke test of some seconds; writes nothing unless --out is given
  --out DIR     write to DIR instead of docs, and also if the machine was disturbed
  --rounds N    how often each case is measured
  --only TEXT   only the cases with TEXT in their name; writes nothing unless --out is given
  --help        this";

/// They take three minutes on two quiet cores, and a quarter of an hour where others often disturb them.
const ROUNDS: usize = 41;

/// What is to be done.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) plan: Plan,
    /// What the names of the cases have in them.
    pub(crate) only: String,
    /// The folder to write to.
    pub(crate) out: Option<PathBuf>,
    /// Whether to write there the numbers of a disturbed machine too.
    pub(crate) writes_disturbed: bool,
}

impl Options {
    /// `None` if help is asked for.
    pub(crate) fn from_args() -> Result<Option<Self>, String> {
        Self::parse(env::args().skip(1))
    }

    fn parse(mut args: impl Iterator<Item = String>) -> Result<Option<Self>, String> {
        let (mut quick, mut out, mut rounds, mut only) = (false, None, None, None);
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or(format!("{arg} needs a value"));
            match arg.as_str() {
                "--quick" => quick = true,
                "--out" => out = Some(PathBuf::from(value()?)),
                "--only" => only = Some(value()?),
                "--rounds" => {
                    let count = value()?.parse().ok().filter(|&count| count > 0);
                    rounds = Some(count.ok_or("--rounds needs a number above 0")?);
                }
                "--help" | "-h" => return Ok(None),
                _ => return Err(format!("{arg} is not understood; see --help")),
            }
        }
        let docs = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs"));
        let (usual, millis) = if quick { (3, 1) } else { (ROUNDS, 5) };
        let rounds = rounds.unwrap_or(usual);
        let plan = Plan { rounds, sample: Duration::from_millis(millis) };
        let all = !quick && only.is_none();
        let writes_disturbed = out.is_some();
        let out = out.or(all.then_some(docs));
        Ok(Some(Self { plan, only: only.unwrap_or_default(), out, writes_disturbed }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &str) -> Result<Option<Options>, String> {
        Options::parse(args.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn only_a_whole_run_writes_to_docs() {
        let out = |args| parse(args).unwrap().unwrap().out;
        assert!(out("").is_some_and(|folder| folder.ends_with("docs")));
        assert_eq!((out("--quick"), out("--only rate")), (None, None));
        assert_eq!(out("--quick --out here"), Some("here".into()));
    }

    #[test]
    fn unknown_options_are_refused() {
        assert!(parse("--fast").is_err() && parse("--rounds 0").is_err());
        assert!(parse("--out").is_err());
        assert!(parse("--help").unwrap().is_none());
    }
}
