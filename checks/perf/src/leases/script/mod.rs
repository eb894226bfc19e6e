//! The script on a server: its cost by the account of the server, round trips, and memory.

mod limit;

use std::cell::RefCell;
use std::error::Error;
use std::rc::Rc;
use std::time::Instant;

use leaparray_perf_page::Value;
use leaparray_redis::{Engine, RedisEngine};
use redis::Connection;
use tokio::runtime::Builder;

use crate::goals::{self, Row, Unit};
use crate::harness::{Plan, Suite};
use crate::machine;
use crate::quiet::Quiet;
use crate::redis_server::Server;
use crate::results::Results;
use crate::scenarios::crowd::Crowd;
use limit::Limit;

/// The numbers of buckets of a window, and the numbers of moves of an ask.
const BUCKETS: [u32; 3] = [10, 60, 256];
const MOVES: [usize; 3] = [0, 4, 64];

/// The ask that the goal and the round trips are about.
const USUAL: (u32, usize) = (60, 4);
/// In nanoseconds.
const GOAL: f64 = 50_000.0;

/// A sample takes this many times as long as a sample of the other cases.
const SAMPLES: u32 = 2;

const PING: &str = "a round trip of `PING`";

/// Measurements of the server beside the costs.
#[derive(Debug)]
pub(super) struct OnServer {
    pub(super) version: String,
    /// The number of buckets, and the bytes of the three keys of a limit.
    pub(super) memory: Vec<(u32, [u64; 3])>,
}

impl OnServer {
    /// Returns the bytes of the keys as values.
    pub(super) fn values(&self) -> Vec<Value> {
        let keys = ["mark", "charges", "last ask of a node"];
        let values = self.memory.iter().flat_map(|(buckets, bytes)| {
            keys.into_iter().zip(bytes).map(move |(key, bytes)| {
                let case = format!("memory of a limit, {buckets} buckets: {key}");
                goals::value(case, *bytes as f64, "bytes", None)
            })
        });
        values.collect()
    }
}

fn case(buckets: u32, moves: usize) -> String {
    format!("the script, {buckets} buckets, {moves} moves")
}

fn round_trip(client: &str) -> String {
    let (buckets, moves) = USUAL;
    format!("a round trip of an ask {client}, {buckets} buckets, {moves} moves")
}

const BY_CONNECTION: &str = "over a connection that blocks";
const BY_ENGINE: &str = "by `RedisEngine`";

pub(super) fn rows() -> Vec<Row> {
    let one = Crowd::of(1);
    let mut rows = Vec::new();
    for buckets in BUCKETS {
        for moves in MOVES {
            let goal = ((buckets, moves) == USUAL).then_some(GOAL);
            rows.push(Row::new(case(buckets, moves), one, Unit::Nanos, goal));
        }
    }
    rows
}

pub(super) fn round_trips() -> Vec<Row> {
    vec![
        Row::baseline(PING, 1),
        Row::ratio(round_trip(BY_CONNECTION), 1, PING, None),
        Row::ratio(round_trip(BY_ENGINE), 1, PING, None),
    ]
}

/// Measures all that needs a server.
pub(super) fn measure(
    server: &Server,
    plan: Plan,
    quiet: &mut Quiet,
) -> Result<(Results, OnServer), Box<dyn Error>> {
    let connection = Rc::new(RefCell::new(server.connect()?));
    let mut suite = Suite::new(machine::cores());
    for buckets in BUCKETS {
        for moves in MOVES {
            let (limit, connection) = (Limit::new(buckets, moves), Rc::clone(&connection));
            let run = move |iters| cost_on_server(&limit, &mut connection.borrow_mut(), iters);
            add(&mut suite, &case(buckets, moves), run)?;
        }
    }
    add_round_trips(&mut suite, server, &connection)?;
    let plan = Plan { sample: plan.sample * SAMPLES, ..plan };
    let results = suite.measure(plan, quiet, |_| {});
    let connection = &mut *connection.borrow_mut();
    let info = info(connection, "server")?;
    let version = value(&info, "redis_version:").unwrap_or("unknown").to_owned();
    let memory = BUCKETS.map(|buckets| Ok((buckets, memory(&Limit::new(buckets, 0), connection)?)));
    let memory = memory.into_iter().collect::<Result<_, Box<dyn Error>>>()?;
    Ok((results, OnServer { version, memory }))
}

/// Adds a case. A sample that fails is lost, and the reason is printed.
fn add(
    suite: &mut Suite,
    name: &str,
    run: impl Fn(u64) -> Result<f64, Box<dyn Error>> + 'static,
) -> Result<(), Box<dyn Error>> {
    // A case with a wrong setup ends the program before the run.
    run(10)?;
    let case = name.to_owned();
    suite.add_run(name, Crowd::of(1), 1, move |iters, _| {
        run(iters).inspect_err(|error| eprintln!("{case}: {error}")).ok()
    });
    Ok(())
}

fn add_round_trips(
    suite: &mut Suite,
    server: &Server,
    connection: &Rc<RefCell<Connection>>,
) -> Result<(), Box<dyn Error>> {
    let other = Rc::clone(connection);
    add(suite, PING, move |iters| {
        let connection = &mut *other.borrow_mut();
        let start = Instant::now();
        for _ in 0..iters {
            let _: String = redis::cmd("PING").query(connection)?;
        }
        Ok(per_operation(start, iters))
    })?;
    let (limit, other) = (Limit::new(USUAL.0, USUAL.1), Rc::clone(connection));
    add(suite, &round_trip(BY_CONNECTION), move |iters| {
        let connection = &mut *other.borrow_mut();
        let seeded = limit.seed(connection)?;
        let start = Instant::now();
        for _ in 0..iters {
            limit.check(&seeded, &limit.send(&seeded, connection)?)?;
        }
        Ok(per_operation(start, iters))
    })?;
    let (limit, other) = (Limit::new(USUAL.0, USUAL.1), Rc::clone(connection));
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let engine = runtime.block_on(async { RedisEngine::open(&server.address()) })?;
    add(suite, &round_trip(BY_ENGINE), move |iters| {
        let seeded = limit.seed(&mut other.borrow_mut())?;
        let start = Instant::now();
        runtime.block_on(async {
            for _ in 0..iters {
                let ask = limit.ask(&seeded);
                limit.check(&seeded, &engine.lease(&limit.keys, &limit.config, &ask).await?)?;
            }
            Ok(per_operation(start, iters))
        })
    })
}

fn per_operation(start: Instant, iters: u64) -> f64 {
    start.elapsed().as_secs_f64() * 1e9 / iters as f64
}

/// Asks `iters` times. Returns nanoseconds of the server for each.
fn cost_on_server(
    limit: &Limit,
    connection: &mut Connection,
    iters: u64,
) -> Result<f64, Box<dyn Error>> {
    let seeded = limit.seed(connection)?;
    redis::cmd("CONFIG").arg("RESETSTAT").exec(connection)?;
    for _ in 0..iters {
        limit.check(&seeded, &limit.send(&seeded, connection)?)?;
    }
    let info = info(connection, "commandstats")?;
    limit.check_moves(&seeded, connection, iters)?;
    per_call(&info, iters).ok_or_else(|| format!("not the calls of {iters} asks: {info}").into())
}

/// Returns nanoseconds for each of `calls` calls of the script.
fn per_call(info: &str, calls: u64) -> Option<f64> {
    let counts = value(info, "cmdstat_evalsha:")?;
    let count = |name: &str| -> Option<f64> {
        counts.split(',').find_map(|it| it.strip_prefix(name))?.parse().ok()
    };
    (count("calls=")? as u64 == calls).then_some(count("usec=")? * 1e3 / calls as f64)
}

/// Returns the bytes of the three keys of a limit.
fn memory(limit: &Limit, connection: &mut Connection) -> Result<[u64; 3], Box<dyn Error>> {
    let seeded = limit.seed(connection)?;
    limit.check(&seeded, &limit.send(&seeded, connection)?)?;
    let mut bytes = [0; 3];
    for (bytes, key) in bytes.iter_mut().zip(limit.stored()) {
        // All fields of a hash count.
        let usage = redis::cmd("MEMORY").arg(&["USAGE", &key, "SAMPLES", "0"]).query(connection);
        *bytes = usage?;
    }
    Ok(bytes)
}

fn info(connection: &mut Connection, section: &str) -> redis::RedisResult<String> {
    redis::cmd("INFO").arg(section).query(connection)
}

fn value<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cost_is_that_of_the_script_alone() {
        let info = "# Commandstats\r\n\
                    cmdstat_get:calls=20,usec=4,usec_per_call=0.20\r\n\
                    cmdstat_evalsha:calls=10,usec=512,usec_per_call=51.20,rejected_calls=0\r\n";
        assert_eq!(per_call(info, 10), Some(51_200.0));
        assert_eq!(per_call(info, 11), None, "another client has asked");
    }
}
