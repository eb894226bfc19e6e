//! Measures the limiter of `leaparray-redis` and its script on a server.
//!
//! An operation is one decision of a `LeasedLimiter` for one permit, beside one of a
//! `SlidingWindowLimiter` with the same window. Each sample has a new limiter. Before the sample, a
//! `LeasedLimiter` has asked an engine in memory: it has millions of permits by a lease that
//! outlasts the sample, or, for a refusal, the time at which to ask again. Its task does not run
//! during the sample. The program checks each decision: if one is not as intended, the sample is
//! lost. In a *first decision in a bucket*, each operation moves a clock by a bucket, and a
//! `LeasedLimiter` takes a lock, and renews the copy of its permits in hand.
//!
//! On the server, an operation is one run of the script by `EVALSHA`, with a new sequence number
//! and a grant, by the account of the server itself: `usec` of `INFO commandstats`. The limit has
//! buckets of a second, and charges in all buckets of the window and of its leases. A move takes a
//! permit from a bucket to an earlier one. A round trip includes the client, which waits for each
//! answer.

mod decisions;
mod fill;
mod script;

use std::error::Error;
use std::time::Instant;

use leaparray::MonotonicClock;

use crate::harness::{Plan, Suite};
use crate::machine::{self, Processor};
use crate::options::Options;
use crate::quiet::Quiet;
use crate::redis_server::Server;
use crate::report::{Report, Run};
use crate::{MAX_WAIT, goals};
use script::OnServer;

/// The crates whose versions belong to the results.
const CRATES: &str = "leaparray leaparray-redis quanta redis tokio";

/// The results of a run.
struct Measured {
    run: Run,
    /// `None` if the server is not installed.
    on_server: Option<OnServer>,
}

/// Runs the measurements of leases, and prints and writes the results. Without `redis-server`, it
/// prints the decisions, and writes nothing.
///
/// # Errors
///
/// Returns an error if an argument is invalid, if the machine was disturbed, if `redis-server` is
/// not installed and the results should be written, or if they cannot be written.
pub fn run() -> Result<(), Box<dyn Error>> {
    let options = Options::from_args("leases")?;
    let Measured { run, on_server } = measure(options.plan)?;
    let rows = [
        decisions::given(),
        decisions::clocks(),
        decisions::refusals(),
        script::rows(),
        script::round_trips(),
    ];
    let mut values = goals::values(&run.results, &rows.concat());
    values.extend(on_server.iter().flat_map(OnServer::values));
    let mut report = Report::new("leases", run, values, CRATES);
    let incomplete = on_server.is_none().then_some("redis-server is not installed");
    report.versions.extend(on_server.map(|it| ("redis-server".to_owned(), it.version)));
    options.publish(report, incomplete)
}

fn measure(plan: Plan) -> Result<Measured, Box<dyn Error>> {
    let (start, cores) = (Instant::now(), machine::cores());
    eprintln!("measuring, {} rounds", plan.rounds);
    let mut quiet = Quiet::new(cores, MAX_WAIT * plan.rounds as u32);
    let mut suite = Suite::new(cores);
    decisions::add(&mut suite, &MonotonicClock::new());
    let mut results = suite.measure(plan, &mut quiet, |_| {});
    // Afterwards, so that the server does not run beside the decisions.
    let on_server = match Server::start()? {
        Some(server) => {
            let (costs, about) = script::measure(&server, plan, &mut quiet)?;
            results.0.extend(costs.0);
            Some(about)
        }
        None => None,
    };
    let (processor, samples) = (Processor::current(), quiet.samples);
    let run = Run { plan, processor, cores, results, elapsed: start.elapsed(), samples };
    Ok(Measured { run, on_server })
}
