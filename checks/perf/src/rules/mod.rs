//! Measures rules of `leaparray-rules` beside the flow rules of `sentinel-core`, and beside the
//! same limiters by hand.
//!
//! A flow rule limits each of 1, 10 or 10,000 resources to a rate that no request reaches, counted
//! in two buckets of 500 ms. A *request* is found by the name of its resource, decided, counted,
//! and ends with a success. Both sides count it in the nodes of the resource: `sentinel-core` in
//! its slot chain, of which the check of the flow rules is a part. The threads take the resources
//! in an order that looks random.
//!
//! By hand, a token bucket limits each resource. The program keeps the handles to the resources,
//! each with its limiter, and finds both by an index. So do the cases of a request and of a
//! decision that are compared with it. With 10,000 resources, cache misses are most of the cost. A
//! limiter in an `ArcSwap` can be replaced while threads decide, as a rule can.
//!
//! The *least* is what a decision reads if its limiter can be replaced: the version that the thread
//! keeps, the number of the newest one, the word of a handle and the line of the limiter. Nothing
//! else is decided, so it takes one kind of limiter, and returns no permit.
//!
//! A *change* replaces the rules in force by rules for the same resources with another limit:
//! `load_rules` is called with a list of rules, and `apply` with a list that was read and checked
//! before. *Reading* is that. `sentinel-core` begins each changed limiter anew.

mod cases;
mod changes;
mod floor;

use std::error::Error;
use std::time::Instant;

use crate::harness::{Plan, Suite};
use crate::machine::{self, Processor};
use crate::options::Options;
use crate::quiet::Quiet;
use crate::report::{Report, Run};
use crate::{MAX_WAIT, goals};

/// The crates whose versions belong to the results.
const CRATES: &str = "leaparray leaparray-rules quanta sentinel-core";

/// The numbers of resources, each with a rule.
const RESOURCES: [usize; 3] = [1, 10, 10_000];

/// Runs the measurements of rules, and prints and writes the results.
///
/// # Errors
///
/// Returns an error if an argument is invalid, if the machine was disturbed, or if the results
/// cannot be written.
pub fn run() -> Result<(), Box<dyn Error>> {
    let options = Options::from_args("rules")?;
    let run = measure(options.plan);
    let values = goals::values(&run.results, &[cases::rows(), changes::rows()].concat());
    options.publish(Report::new("rules", run, values, CRATES), None)
}

fn measure(plan: Plan) -> Run {
    let (start, cores) = (Instant::now(), machine::cores());
    eprintln!("measuring, {} rounds", plan.rounds);
    let mut quiet = Quiet::new(cores, MAX_WAIT * plan.rounds as u32);
    // One after the other: `sentinel-core` has one list of rules for the process.
    let mut results = crate::results::Results::default();
    for resources in RESOURCES {
        let mut suite = Suite::new(cores);
        cases::add(&mut suite, resources, cores);
        results.0.extend(suite.measure(plan, &mut quiet, |_| {}).0);
    }
    for resources in RESOURCES {
        let mut suite = Suite::new(cores);
        changes::add(&mut suite, resources);
        results.0.extend(suite.measure(plan, &mut quiet, |_| {}).0);
    }
    let (processor, samples) = (Processor::current(), quiet.samples);
    Run { plan, processor, cores, results, elapsed: start.elapsed(), samples }
}

/// Returns the name of a resource.
fn name(number: usize) -> String {
    format!("GET /resource/{number}")
}

/// Returns the name of a case.
fn case(what: &str, resources: usize) -> String {
    match resources {
        1 => format!("{what}, 1 rule"),
        many => format!("{what}, {} rules", leaparray_perf_page::grouped(many as f64)),
    }
}
