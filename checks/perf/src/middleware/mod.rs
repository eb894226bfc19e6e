//! Measures the middleware of `leaparray-tower` beside that of other crates, in a run and with
//! pages of their own.

mod counts;
mod report;
mod requests;
mod sockets;
mod stacks;

pub(crate) use counts::print_allocations;

use std::env;
use std::error::Error;
use std::time::Instant;

use crate::MAX_WAIT;
use crate::harness::{Plan, Suite};
use crate::machine::{self, Processor};
use crate::options::Options;
use crate::quiet::Quiet;
use crate::report::{Page, Run};
use counts::Counted;
use stacks::{TRACE_WITH_SUBSCRIBER, WITHOUT_SUBSCRIBER};

/// The results of a run.
struct Measured {
    run: Run,
    counted: Counted,
}

/// Runs the measurements of middleware, and prints and writes the report.
///
/// # Errors
///
/// Returns an error if an argument is invalid, if the machine was disturbed, or if the report
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
    let goals = report::goals(&measured);
    options.publish(&measured.run, Page::Middleware, &report::document(&measured), &goals)
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
