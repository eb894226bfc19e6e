//! Measures the middleware of `leaparray-tower` beside that of other crates.
//!
//! A service is a router of axum with one route, and a layer around it. An operation calls the
//! service with a request, and reads the body of the response to its end. Nothing waits, so there
//! is no runtime. axum puts the future and the body of a response in boxes for each layer, so every
//! layer has allocations that are not its own. `TraceLayer` with a subscriber is measured after all
//! others, since a subscriber slows down every service that has events.

mod counts;
mod report;
pub(crate) mod requests;
mod sockets;
pub(crate) mod stacks;

pub(crate) use counts::print_allocations;

use std::env;
use std::error::Error;
use std::time::Instant;

use crate::harness::{Plan, Suite};
use crate::machine::{self, Processor};
use crate::options::Options;
use crate::quiet::Quiet;
use crate::report::{Report, Run};
use crate::{MAX_WAIT, goals};
use counts::Counted;
use stacks::{TRACE_WITH_SUBSCRIBER, WITHOUT_SUBSCRIBER};

/// The crates whose versions belong to the results.
const CRATES: &str =
    "leaparray leaparray-tower axum axum-prometheus tower-http tower_governor hyper tokio";

/// The results of a run.
struct Measured {
    run: Run,
    counted: Counted,
}

/// Runs the measurements of middleware, and prints and writes the results.
///
/// # Errors
///
/// Returns an error if an argument is invalid, if the machine was disturbed, or if the results
/// cannot be written.
pub fn run() -> Result<(), Box<dyn Error>> {
    let args: Vec<_> = env::args().skip(1).collect();
    if let [option, name] = &args[..]
        && option == counts::COUNT
    {
        return Ok(counts::count(name)?);
    }
    let options = Options::from_args("middleware")?;
    let measured = measure(options.plan);
    let mut values = goals::values(&measured.run.results, &requests::rows());
    values.extend(report::counts(&measured));
    values.extend(report::goals(&measured));
    options.publish(Report::new("middleware", measured.run, values, CRATES), None)
}

fn measure(plan: Plan) -> Measured {
    let (start, cores) = (Instant::now(), machine::cores());
    eprintln!("counting allocations and instructions");
    let counted = counts::measure();
    eprintln!("measuring, {} rounds", plan.rounds);
    let mut quiet = Quiet::new(cores, MAX_WAIT * plan.rounds as u32);
    let between = |round| {
        stacks::upkeep();
        if (round + 1) % 20 == 0 {
            eprintln!("round {}, {:.0?}", round + 1, start.elapsed());
        }
    };
    let of_requests = |quiet: &mut Quiet, stacks: &_| {
        let mut suite = Suite::new(cores);
        requests::add(&mut suite, stacks);
        suite.measure(plan, quiet, between)
    };
    let mut results = of_requests(&mut quiet, &WITHOUT_SUBSCRIBER[..]);
    results.0.extend(sockets::measure(plan, &mut quiet, &WITHOUT_SUBSCRIBER, between).0);
    results.0.extend(of_requests(&mut quiet, &[TRACE_WITH_SUBSCRIBER]).0);
    let (processor, samples) = (Processor::current(), quiet.samples);
    let run = Run { plan, processor, cores, results, elapsed: start.elapsed(), samples };
    Measured { run, counted }
}
