//! The command line of `losses`.

use std::ffi::OsString;
use std::time::Duration;

use clap::Parser;
use clap::error::ErrorKind;

const ABOUT: &str = "\
Counts what is lost where buckets roll over: leaparray beside sentinel-core and two stand-ins.";

const COUNTED: &str = "\
Each peer has 16 windows of 20 buckets of 1 ms, and a round at a time, in turn. In a round, threads
record in all of the windows, by the system's clock; then they end, and each window is read once.

  together at each rollover   10 ms: everybody waits for each millisecond, and records once in each
                              window
  as fast as they can         30 ms, which is a lap and a half: part of it has to expire

  recorded   calls that returned
  summed     what the windows then read
  expired    recorded at a time that the window no longer covered when it was read, or may not have
             covered: a right answer leaves it out
  late       those of the expired of which the peer says that they came when a newer bucket had
             their slot
  lost       missing from a window, though recorded at a time that it certainly covered
  too many   in a window, beyond all that was recorded at a time that it can have covered
  panicked   calls that panicked; they recorded nothing

recorded + too many = summed + expired + late + lost. A call that reads the clock by itself, as those
of sentinel-core do, took its time between two other readings. Where a window lost some and has others
too often, only the difference shows: lost and too many are the least there were.

The exit status is 1 if a row of leaparray is not 0 in the last three, or if its own ledger does not
add up to what was recorded.";

/// What is to be done.
#[derive(Clone, Debug, Parser)]
#[command(name = "losses", about = ABOUT, after_help = COUNTED)]
pub(super) struct Options {
    /// For how long to go on, with all peers together
    #[arg(long, value_name = "1..=3600", default_value_t = 16)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: u64,
    /// How many rounds each peer has, however long they take
    #[arg(long, value_name = "1..=1000000", conflicts_with = "seconds")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    rounds: Option<u64>,
    /// How many threads record at once [default: two for each core]
    #[arg(long, value_name = "1..=64", default_value_t = two_for_each_core())]
    #[arg(hide_default_value = true, value_parser = clap::value_parser!(u8).range(1..=64))]
    threads: u8,
}

/// More than can run at once, so that some are stopped in the middle of a call.
fn two_for_each_core() -> u8 {
    (2 * crate::machine::cores()).min(64) as u8
}

/// What the arguments ask for.
#[derive(Debug)]
pub(super) enum Asked {
    Run(Options),
    Help(String),
    /// They cannot be understood: why, in one line.
    Nonsense(String),
}

impl Options {
    pub(super) fn from_args() -> Asked {
        Self::parse_from(std::env::args_os())
    }

    fn parse_from(args: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> Asked {
        match Self::try_parse_from(args) {
            Ok(options) => Asked::Run(options),
            Err(error) if error.kind() == ErrorKind::DisplayHelp => Asked::Help(error.to_string()),
            // What follows the first line are tips and the usage.
            Err(error) => {
                Asked::Nonsense(error.to_string().lines().next().unwrap_or_default().to_owned())
            }
        }
    }

    pub(super) fn threads(&self) -> usize {
        usize::from(self.threads)
    }

    /// After so many rounds, and so long.
    pub(super) fn wants_more(&self, rounds: u64, elapsed: Duration) -> bool {
        self.rounds.map_or(elapsed.as_secs() < self.seconds, |wanted| rounds < wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(args: &str) -> Options {
        match Options::parse_from(args.split_whitespace()) {
            Asked::Run(options) => options,
            asked => panic!("{args}: {asked:?}"),
        }
    }

    #[test]
    fn rounds_take_as_long_as_they_take() {
        let ten = options("losses --rounds 10");
        assert!(ten.wants_more(9, Duration::MAX) && !ten.wants_more(10, Duration::ZERO));
        let usual = options("losses");
        assert!(usual.wants_more(u64::MAX, Duration::from_secs(15)));
        assert!(!usual.wants_more(0, Duration::from_secs(16)));
    }

    #[test]
    fn invalid_options_are_refused_in_one_line() {
        for args in ["--rounds 0", "--seconds 3601", "--threads 65", "--threads two", "--fast", "1"]
            .into_iter()
            .chain(["--rounds", "--rounds 1 --seconds 1", "--threads -1"])
        {
            let asked = Options::parse_from(format!("losses {args}").split_whitespace());
            let Asked::Nonsense(line) = asked else { panic!("{args}: {asked:?}") };
            assert!(line.starts_with("error: ") && line.lines().count() == 1, "{line}");
        }
    }
}
