//! A thousand limiters with one waiting request each, beside another client of the server.

use std::env;
use std::fs::read_link;
use std::io::{Read, Write, stdin};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use leaparray_redis::lease::LeaseConfig;
use leaparray_redis::{LeasedLimiter, RedisEngine};
use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::task::LocalSet;

use crate::server::Server;

const LIMITERS: usize = 1_000;
/// The threads of the limiters, each with a connection.
const RUNTIMES: usize = 100;
/// The size of the stack of such a thread, in bytes.
const STACK: usize = 1 << 18;
/// Names the number of rounds for a measurement of the other client.
const ROUNDS: &str = "LEAPARRAY_HERD_ROUNDS";
/// The address of the server and the limit, for the process of the limiters.
const ADDRESS: &str = "LEAPARRAY_HERD_ADDRESS";
const LIMIT: &str = "LEAPARRAY_HERD_LIMIT";
/// What the process is told: whether its limiters have requests, or nothing.
const ON: &str = "on";
const OFF: &str = "off";
const USES: &str = "uses";
const ROUND: Duration = Duration::from_secs(1);
/// For how long a request waits.
const WAIT: Duration = Duration::from_secs(2);
/// The quarantine, and until the shares are known.
const WARM_UP: Duration = Duration::from_secs(5);

/// The processor of the server, and the processors of the other client and the limiters.
const OF_SERVER: &str = "0";
const OF_CLIENTS: &str = "1-1023";

/// Runs a thread only on these processors. Numbers without a processor have no effect.
fn pin(thread: &str, processors: &str) {
    let taskset = Command::new("taskset")
        .args(["--all-tasks", "--cpu-list", "--pid", processors, thread])
        .output();
    drop(taskset);
}

/// Lets a thread run before all others, as on a machine of its own. Returns whether it has the
/// priority, which needs a privilege.
fn prefer(thread: &str) -> bool {
    let chrt = Command::new("chrt").args(["--fifo", "--pid", "10", thread]).output();
    chrt.is_ok_and(|it| it.status.success())
}

/// Returns the quantile 0.99 of the round trips of `PING` in a round, in microseconds.
fn p99_of_ping(connection: &mut redis::Connection) -> f64 {
    if let Ok(thread) = read_link("/proc/thread-self") {
        let thread = thread.file_name().unwrap().to_string_lossy().into_owned();
        pin(&thread, OF_CLIENTS);
        prefer(&thread);
    }
    let mut times = Vec::new();
    let start = Instant::now();
    while start.elapsed() < ROUND {
        let sent = Instant::now();
        let _: String = redis::cmd("PING").query(connection).unwrap();
        times.push(sent.elapsed());
        sleep(Duration::from_micros(200));
    }
    times.sort_unstable();
    times[times.len() * 99 / 100].as_secs_f64() * 1e6
}

/// Returns the number that follows a name.
fn number(info: &str, name: &str) -> f64 {
    let (_, rest) = info.split_once(name).unwrap();
    rest.split([',', '\r']).next().unwrap().parse().unwrap()
}

/// What a server and the limiters have done since their start.
#[derive(Clone, Copy, Debug, Default)]
struct Work {
    /// The calls of the script.
    asks: f64,
    /// The microseconds in the script.
    micros: f64,
    /// The processor time of the server, in seconds.
    cpu: f64,
    /// The permits that were used.
    uses: f64,
}

impl Work {
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    fn so_far(connection: &mut redis::Connection, herd: &mut Herd) -> Self {
        let info: String = redis::cmd("INFO").arg("all").query(connection).unwrap();
        let (_, script) = info.split_once("cmdstat_evalsha:").unwrap();
        Self {
            asks: number(script, "calls="),
            micros: number(script, "usec="),
            cpu: number(&info, "used_cpu_user:") + number(&info, "used_cpu_sys:"),
            uses: herd.tell(USES) as f64,
        }
    }

    fn add(&mut self, before: Self, after: Self) {
        self.asks += after.asks - before.asks;
        self.micros += after.micros - before.micros;
        self.cpu += after.cpu - before.cpu;
        self.uses += after.uses - before.uses;
    }
}

/// Rounds of a kind: what was done in them, and the round trips of the other client.
#[derive(Debug, Default)]
struct Rounds {
    work: Work,
    secs: f64,
    p99: Vec<f64>,
}

impl Rounds {
    fn run(&mut self, connection: &mut redis::Connection, herd: &mut Herd) {
        let (before, start) = (Work::so_far(connection, herd), Instant::now());
        // In a thread of its own: processes that are started later have no priority.
        let p99 = thread::scope(|scope| scope.spawn(|| p99_of_ping(connection)).join().unwrap());
        self.p99.push(p99);
        self.secs += start.elapsed().as_secs_f64();
        self.work.add(before, Work::so_far(connection, herd));
    }

    /// Returns the quantile of the rounds in which the machine was quiet: of the fastest tenth.
    fn quiet_p99(&mut self) -> f64 {
        self.p99.sort_by(f64::total_cmp);
        self.p99[(self.p99.len() - 1) / 10]
    }
}

/// Runs limiters for as long as there is a sender of changes, of which each has requests while the
/// value is true.
///
/// The timers of a runtime tick in milliseconds, at which its limiters would ask together. So these
/// are few, with a connection of their own.
fn run_limiters(
    address: &str,
    config: LeaseConfig,
    uses: &Arc<AtomicU64>,
    changes: &watch::Receiver<bool>,
) {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let tasks = LocalSet::new();
    let guard = runtime.enter();
    let engine = RedisEngine::open(address).unwrap();
    for _ in 0..LIMITERS / RUNTIMES {
        let limiter = LeasedLimiter::builder(&format!("orders{}", config.limit()), config)
            .with_answer_timeout(Duration::from_secs(1))
            .start(engine.clone())
            .unwrap();
        let (uses, mut changes) = (Arc::clone(uses), changes.clone());
        tasks.spawn_local(async move {
            while changes.wait_for(|it| *it).await.is_ok() {
                if limiter.acquire_within(WAIT).await.is_ok() {
                    uses.fetch_add(1, Ordering::Relaxed);
                } else {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
        });
    }
    drop(guard);
    runtime.block_on(tasks);
}

#[test]
#[ignore = "a process of the other test"]
fn process() {
    let (Ok(address), Ok(limit)) = (env::var(ADDRESS), env::var(LIMIT)) else { return };
    let config = LeaseConfig::new(limit.parse().unwrap(), Duration::from_secs(1)).unwrap();
    let uses = Arc::new(AtomicU64::new(0));
    let (has_requests, changes) = watch::channel(false);
    thread::scope(|scope| {
        for _ in 0..RUNTIMES {
            let run = || run_limiters(&address, config, &uses, &changes);
            thread::Builder::new().stack_size(STACK).spawn_scoped(scope, run).unwrap();
        }
        for line in stdin().lines() {
            match &line.unwrap()[..] {
                ON => drop(has_requests.send_replace(true)),
                OFF => drop(has_requests.send_replace(false)),
                _ => {}
            }
            println!("{}", uses.load(Ordering::Relaxed));
        }
        drop(has_requests);
    });
}

/// A process of limiters. It runs with a lower priority than the server and the other client, and
/// not on the processor of the server, which would share none with limiters on other machines.
struct Herd(Child);

impl Herd {
    fn start(server: &Server, limit: u32) -> Self {
        let herd = Command::new("nice")
            .args(["-n", "10"])
            .arg(env::current_exe().unwrap())
            .args(["herd::process", "--exact", "--ignored", "--nocapture"])
            .env(ADDRESS, server.address())
            .env(LIMIT, limit.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        pin(&herd.id().to_string(), OF_CLIENTS);
        Self(herd)
    }

    /// Tells the process what to do. Returns the number of permits that were used so far.
    fn tell(&mut self, line: &str) -> u64 {
        writeln!(self.0.stdin.as_mut().unwrap(), "{line}").unwrap();
        // The harness of the tests has lines of its own, and begins one before the first number if
        // it runs one test at a time.
        let stdout = self.0.stdout.as_mut().unwrap();
        loop {
            let mut line = Vec::new();
            while line.last() != Some(&b'\n') {
                let mut byte = [0];
                stdout.read_exact(&mut byte).unwrap();
                line.extend(byte);
            }
            let line = String::from_utf8(line).unwrap();
            if let Some(uses) = line.split_whitespace().last().and_then(|it| it.parse().ok()) {
                return uses;
            }
        }
    }
}

impl Drop for Herd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs limiters of `limit` permits in any second on a server, in turn with rounds in which they
/// have no requests. Returns the rounds of both kinds.
fn rounds(server: &Server, limit: u32, number: u32) -> [Rounds; 2] {
    let (mut herd, mut connection) = (Herd::start(server, limit), server.connect());
    let [mut beside, mut idle] = [Rounds::default(), Rounds::default()];
    for _ in 0..number {
        herd.tell(ON);
        sleep(WARM_UP);
        beside.run(&mut connection, &mut herd);
        herd.tell(OFF);
        // Until the last request has waited for long enough, and its permits are given back.
        sleep(WAIT + Duration::from_secs(1));
        idle.run(&mut connection, &mut herd);
    }
    [beside, idle]
}

/// The limiters ask in turns. The test prints what another client of the server notices of that.
///
/// `LEAPARRAY_HERD_ROUNDS=10 cargo test --release -p leaparray-redis --test server
/// herd::limiters -- --ignored --nocapture` measures it in ten rounds.
#[test]
#[ignore = "needs redis-server"]
fn limiters_that_wait_take_turns() {
    let Some(server) = Server::start("a thousand limiters that wait") else { return };
    let number = env::var(ROUNDS).map_or(1, |it| it.parse().unwrap());
    let id = server.id().to_string();
    pin(&id, OF_SERVER);
    let is_preferred = prefer(&id);
    println!("the server and the other client have priority: {is_preferred}");
    for limit in [1_000, 10_000] {
        let [mut beside, mut idle] = rounds(&server, limit, number);
        let (Rounds { work, secs, .. }, quiet) = (&beside, idle.work.asks / idle.secs);
        let (asks, uses) = (work.asks / secs, work.uses / secs);
        println!(
            "limit {limit}, {number} rounds: {asks:.0} asks and {uses:.0} uses a second, {quiet:.0} asks \
             without requests; {:.0} µs in the script for an ask, {:.3} of a processor in all",
            work.micros / work.asks,
            work.cpu / secs,
        );
        let [beside, idle] = [&mut beside, &mut idle].map(Rounds::quiet_p99);
        println!(
            "p99 of another client in the quiet tenth of the rounds: {beside:.0} µs beside them, \
             {idle:.0} µs without requests, {:.2} ×",
            beside / idle
        );
        assert!(asks <= 2_000.0, "{asks} asks in a second");
        assert!(uses <= f64::from(limit) * 1.05, "{uses} uses in a second");
    }
}
