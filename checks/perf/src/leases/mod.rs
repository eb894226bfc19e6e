//! Measures the limiter of `leaparray-redis` and its script on a server, in a run and with pages of
//! their own.

mod decisions;
mod fill;
mod report;
mod script;

use std::error::Error;
use std::time::Instant;

use leaparray::MonotonicClock;

use crate::harness::{Plan, Suite};
use crate::machine::{self, Processor};
use crate::options::Options;
use crate::quiet::Quiet;
use crate::redis_server::Server;
use crate::report::{Page, Run};
use crate::{MAX_WAIT, goals};
use script::OnServer;

/// The results of a run.
struct Measured {
    run: Run,
    /// `None` if the server is not installed.
    on_server: Option<OnServer>,
}

/// Runs the measurements of leases, and prints and writes the report. Without `redis-server`, it
/// prints the decisions, and writes nothing.
///
/// # Errors
///
/// Returns an error if an argument is invalid, if the machine was disturbed, if `redis-server` is
/// not installed and the report should be written, or if the report cannot be written.
pub fn run() -> Result<(), Box<dyn Error>> {
    let options = Options::from_args("leases")?;
    let measured = measure(options.plan)?;
    let document = report::document(&measured);
    if measured.on_server.is_none() {
        return options.withhold(&document, "redis-server is not installed");
    }
    let rows = [decisions::given(), decisions::clocks(), decisions::refusals(), script::rows()];
    let goals = goals::of(&measured.run.results, rows.concat());
    options.publish(&measured.run, Page::Leases, &document, &goals)
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
