//! Measures the window over a fleet of `leaparray-redis`: a fleet of simulated processes delivers
//! its seconds to a Redis server in real time, and a reader in a process of its own reads them.
//!
//! Server, reader and processes share the cores of the machine. In each second, each process has
//! requests to all its resources: *requests* is their mean number for one resource. Their numbers
//! follow Zipf's law. Of these, 1 % fail and 1 % are refused. The response times have a log-normal
//! distribution with a median of 20 ms. A fleet runs until the server and the reader drop as many
//! seconds as they add, and is then measured. The program checks that each measured second has all
//! processes and the number of requests that they have recorded.
//!
//! An operation is one call of a script. CPU is a share of one core. *Reading and encoding* is a
//! median of cold calls. The CPU of the reader leaves out the calls of `last_second` and
//! `last_minute`, whose CPU time is a value of its own.

mod case;
mod load;
mod reader;
mod report;
mod template;
mod usage;

use std::env;
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::time::sleep;

use crate::machine::{self, Processor};
use crate::options::Options;
use crate::quiet::SampleCounts;
use crate::redis_server::Server;
use crate::report::{Report, Run};
use crate::results::{Results, quantile};
use case::Case;
use load::{Load, now};
use reader::{ReaderUsage, Seen};
use usage::{ServerUsage, Usage};

/// The crates whose versions belong to the results.
const CRATES: &str = "leaparray leaparray-redis redis tokio";

/// The share of the seconds that a reader sees at least if it keeps up. It may see two become final
/// at once.
const KEPT_UP: f64 = 0.9;

/// The measurements of a case.
struct Measured {
    case: Case,
    /// The mean bytes of a second of a process.
    bytes: f64,
    /// The median time in which a process reads and encodes a second, in milliseconds.
    collect: f64,
    server: ServerUsage,
    reader: ReaderUsage,
    /// The seconds that were measured.
    seen: Vec<Seen>,
}

/// Runs the measurements of the window over a fleet, and prints and writes the results.
///
/// # Errors
///
/// Returns an error if an argument is invalid, if `redis-server` is not installed, if a second is
/// incomplete or has not the counts that were delivered, or if the results cannot be
/// written.
pub fn run() -> Result<(), Box<dyn Error>> {
    let args: Vec<_> = env::args().skip(1).collect();
    if let Some((reader::READER, args)) = args.split_first().map(|(it, args)| (it.as_str(), args)) {
        return Runtime::new()?.block_on(reader::run(args));
    }
    let options = Options::from_args("windows")?;
    let start = Instant::now();
    let mut measured = Vec::new();
    for case in case::all(options.is_quick()) {
        eprintln!("measuring {case}");
        let server = Server::start()?.ok_or("redis-server is not installed")?;
        measured.push(Runtime::new()?.block_on(measure(case, &server))?);
    }
    let run = Run {
        plan: options.plan,
        processor: Processor::current(),
        cores: machine::cores(),
        results: Results::default(),
        elapsed: start.elapsed(),
        samples: samples(&measured),
    };
    options.publish(Report::new("windows", run, report::values(&measured), CRATES), None)
}

/// A case counts if the reader kept up: then the machine was not busy with other work.
fn samples(measured: &[Measured]) -> SampleCounts {
    let quiet = measured.iter().filter(|it| it.seen_share() >= KEPT_UP).count();
    SampleCounts { quiet, missing: measured.len() - quiet, ..SampleCounts::default() }
}

impl Measured {
    /// Returns the share of the measured seconds that the reader has seen as the newest final one.
    fn seen_share(&self) -> f64 {
        self.seen.len() as f64 / (self.case.times.measure + 1) as f64
    }
}

async fn measure(case: Case, server: &Server) -> Result<Measured, Box<dyn Error>> {
    let keys = template::keys(&case);
    let templates = template::all(&case, &keys).await?;
    let bytes = templates.iter().map(|it| it.bytes.len() as f64).sum::<f64>();
    let mut collect: Vec<f64> = templates.iter().map(|it| it.elapsed.as_secs_f64() * 1e3).collect();
    collect.sort_by(f64::total_cmp);
    let bytes = bytes / templates.len() as f64;

    let load = Arc::new(Load { case, name: "shop".to_owned(), keys, templates });
    let begin = now().as_secs() + case.times.join + case.times.fill;
    let end = begin + case.times.measure;
    let address = server.address();
    let fleet = {
        let (load, address) = (Arc::clone(&load), address.clone());
        // Until the reader has seen the last second.
        tokio::spawn(async move { load.run(&address, end + 8).await.map_err(|it| it.to_string()) })
    };
    sleep(Duration::from_secs(case.times.join + 1)).await;
    let reader = reader::start(&address, &load.name, begin, end)?;
    let mut connection = server.connect()?;
    sleep(Duration::from_secs(begin).saturating_sub(now())).await;
    let before = Usage::read(&mut connection)?;
    sleep(Duration::from_secs(end).saturating_sub(now())).await;
    let server = Usage::read(&mut connection)?.since(&before);
    fleet.await??;
    let (mut seen, reader) = reader::finish(reader).await?;
    seen.retain(|it| (begin..=end).contains(&it.second));
    for it in &seen {
        let all = u64::from(case.processes);
        let wanted = (all, all, load.passes(it.second));
        if (it.present, it.expected, it.passes) != wanted {
            return Err(format!("{wanted:?} are expected: {it:?}").into());
        }
    }
    let collect = quantile(0.5, &collect);
    Ok(Measured { case, bytes, collect, server, reader, seen })
}
