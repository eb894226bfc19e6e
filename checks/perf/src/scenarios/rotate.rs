//! Rotating: every operation is the first in its bucket. In processes of their own, since what other
//! cases leave behind would be part of it.

use std::env;
use std::fmt;
use std::hint::black_box;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use leaparray::MetricEvent::Pass;
use leaparray::{ManualClock, MetricBucket, SlidingWindow, Timestamp};

use super::crowd::{come_and_go, park};
use super::{BUCKET_LEN, config};
use crate::harness::Plan;
use crate::machine;
use crate::quiet::{Ledger, Quiet};
use crate::results::{Cost, Key};

/// What a rotation would do at least, if it allocated.
pub(crate) const STORE: &str = "a fresh bucket, allocated and stored in an `ArcSwapOption`";
pub(crate) const SECOND: &str = "rotate and record one event, 2 buckets";
pub(crate) const MINUTE: &str = "rotate and record one event, 120 buckets";
const NAMES: [&str; 3] = [STORE, SECOND, MINUTE];

/// For how long each process may wait until the machine is quiet.
const PATIENCE: Duration = Duration::from_secs(20);

/// What other threads have done in the process before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// There were none.
    Fresh,
    /// 1,024 threads have recorded in the windows, used an unrelated `ArcSwap`, and ended.
    Ended,
    /// 256 threads have done the same and are alive.
    Idle,
}

impl Stage {
    pub(crate) const ALL: [Self; 3] = [Self::Fresh, Self::Ended, Self::Idle];
    /// How many processes there are for each.
    const PROCESSES: usize = 5;

    /// How many threads idle, and how many have ended.
    pub(crate) const fn idle_and_ended(self) -> (usize, usize) {
        match self {
            Self::Fresh => (0, 0),
            Self::Ended => (0, 1_024),
            Self::Idle => (256, 0),
        }
    }

    const fn argument(self) -> &'static str {
        match self {
            Self::Fresh => "fresh",
            Self::Ended => "ended",
            Self::Idle => "idle",
        }
    }

    pub(crate) fn parse(argument: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| stage.argument() == argument)
    }

    /// The name of the case at this stage.
    pub(crate) fn name(self, what: &str) -> String {
        format!("{what}, {}", self.argument())
    }
}

/// A line that a process prints.
enum Line {
    /// The index of a case, and its nanoseconds.
    Sample { index: usize, nanos: f64 },
    /// What became of its samples.
    Ledger(Ledger),
}

impl Line {
    fn parse(line: &str) -> Option<Self> {
        match line.split('\t').collect::<Vec<_>>()[..] {
            [index, nanos] => {
                let index = index.parse().ok().filter(|&index| index < NAMES.len())?;
                Some(Self::Sample { index, nanos: nanos.parse().ok()? })
            }
            [quiet, discarded, missing] => {
                let [quiet, discarded, missing] =
                    [quiet, discarded, missing].map(|count| count.parse().ok());
                let (quiet, discarded, missing) = (quiet?, discarded?, missing?);
                Some(Self::Ledger(Ledger { quiet, discarded, missing }))
            }
            _ => None,
        }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sample { index, nanos } => write!(f, "{index}\t{nanos}"),
            Self::Ledger(Ledger { quiet, discarded, missing }) => {
                write!(f, "{quiet}\t{discarded}\t{missing}")
            }
        }
    }
}

/// Measures all stages in turn, a process at a time, and adds what became of the samples to the ledger.
pub(crate) fn measure(plan: Plan, ledger: &mut Ledger) -> Vec<(Key, Cost)> {
    let processes = Stage::PROCESSES.min(plan.rounds);
    let rounds = plan.rounds.div_ceil(processes).to_string();
    let mut samples = [(); 3].map(|()| NAMES.map(|_| Vec::new()));
    let mut lost = 0;
    for _ in 0..processes {
        for (stage, samples) in Stage::ALL.into_iter().zip(&mut samples) {
            let Some(output) = run_process(stage, &rounds, plan.sample) else {
                lost += 1;
                continue;
            };
            for line in output.lines() {
                match Line::parse(line) {
                    Some(Line::Sample { index, nanos }) => samples[index].push(nanos),
                    Some(Line::Ledger(of_process)) => *ledger += of_process,
                    None => {}
                }
            }
        }
    }
    let costs = Stage::ALL.into_iter().zip(&samples).flat_map(|(stage, samples)| {
        NAMES
            .into_iter()
            .zip(samples)
            .map(move |(what, samples)| (Key::new(&stage.name(what), 1), Cost::of(samples, lost)))
    });
    costs.collect()
}

fn run_process(stage: Stage, rounds: &str, sample: Duration) -> Option<String> {
    let sample = sample.as_micros().to_string();
    let program = env::current_exe().ok()?;
    let arguments = ["--rotate", stage.argument(), rounds, &sample];
    let output = Command::new(program).args(arguments).output().ok()?;
    if !output.status.success() {
        eprintln!("{}", String::from_utf8_lossy(&output.stderr));
    }
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// What such a process does: prints a line for each sample, and its ledger.
pub(crate) fn print(stage: Stage, rounds: usize, sample: Duration) {
    let window = |count| {
        SlidingWindow::with_clock(config(count, BUCKET_LEN), ManualClock::new(Timestamp::MIN))
    };
    let (windows, slot) = ([2, 120].map(window), ArcSwapOption::empty());
    let other = Arc::new(ArcSwapOption::new(Some(Arc::new(0_u64))));
    let use_all = {
        let windows = windows.clone();
        move || {
            for window in &windows {
                window.add_at(Timestamp::MIN, Pass, 1);
            }
            drop(black_box(other.load()));
        }
    };
    let (idle, ended) = stage.idle_and_ended();
    come_and_go(ended, use_all.clone());
    park(idle, use_all);
    let mut number = 0;
    let mut time = |length: Duration, op: &dyn Fn(u64)| {
        let (start, first) = (Instant::now(), number);
        while start.elapsed() < length {
            for _ in 0..256 {
                number += 1;
                op(number);
            }
        }
        start.elapsed().as_secs_f64() * 1e9 / (number - first) as f64
    };
    // The end of time is 3.7 · 10¹⁰ buckets away: hours of measuring.
    let record = |window: &SlidingWindow<ManualClock>, number: u64| {
        window.add_at(Timestamp::from_millis(number * 500), Pass, black_box(1));
    };
    let store = |_| slot.store(Some(Arc::new(MetricBucket::default())));
    let ops: [&dyn Fn(u64); 3] =
        [&store, &|number| record(&windows[0], number), &|number| record(&windows[1], number)];
    for op in ops {
        time(sample, op);
    }
    let mut quiet = Quiet::new(machine::cores(), PATIENCE);
    for _ in 0..rounds {
        for (index, op) in ops.into_iter().enumerate() {
            if let Some(nanos) = quiet.sample(|| time(sample, op)) {
                println!("{}", Line::Sample { index, nanos });
            }
        }
    }
    println!("{}", Line::Ledger(quiet.ledger));
}
