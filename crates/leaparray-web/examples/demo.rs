//! A simulated service with a live page: some resources are healthy, one fails behind a circuit
//! breaker, one refuses at its limit, one becomes slow behind an adaptive limiter, and one fails
//! behind an adaptive breaker.
//!
//! ```sh
//! cargo run -p leaparray-web --example demo -- --resources 40 --port 7171 --seed 1
//! ```

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use leaparray::flow::adaptive::Headroom;
use leaparray::flow::breaker::AdaptiveBreakerConfig;
use leaparray::flow::{
    AdaptiveBreaker, AdaptiveLimiter, BoxLimiter, BoxPermit, CircuitBreaker, CircuitConfig,
    LimiterExt, SlidingWindowLimiter,
};
use leaparray::registry::ResourceConfig;
use leaparray::{
    Clock, Entry, HistogramConfig, MonotonicClock, NodeConfig, Outcome, Registry, RegistryConfig,
    Resource, Timestamp, TrafficType,
};
use leaparray_web::{Access, Page, Token};
use tokio::net::TcpListener;

/// The time that is simulated at once.
const TICK: Duration = Duration::from_millis(50);

/// The arguments of the program.
struct Args {
    resources: usize,
    port: u16,
    seed: u64,
    /// The mean number of requests per second of a resource.
    rate: f64,
}

/// The behaviour of a resource.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Healthy,
    /// Fails for 20 s of each minute, behind a circuit breaker.
    Failing,
    /// Gets more requests than its limit.
    Refusing,
    /// Its response times grow for 30 s of each minute, behind an adaptive limiter.
    Slow,
    /// Half of its requests fail, behind an adaptive breaker.
    Dropping,
    /// Has no requests for most of the time.
    Idle,
}

struct Simulated {
    resource: Resource,
    limiter: Option<BoxLimiter>,
    kind: Kind,
    rate: f64,
    /// The median response time in seconds.
    median: f64,
}

/// A request in flight.
enum Request {
    Plain(Entry<Resource>),
    Limited(Entry<Resource, MonotonicClock, BoxPermit>),
}

/// The requests in flight by the time at which they end, and a number that tells them apart.
type InFlight = BTreeMap<(Timestamp, u64), (Request, Outcome)>;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let args = arguments()?;
    let node = NodeConfig::default().with_histogram(HistogramConfig::default());
    let config = RegistryConfig::default().node(node).max_resources(args.resources.max(10) + 10);
    let registry = Arc::new(Registry::with_config(config));
    let mut random = Rng::with_seed(args.seed);
    let token = Token::random();
    let page =
        Page::new(Arc::clone(&registry), Access::token(&token)).name("orders-api (simulated)");
    let simulated = simulate(&args, &registry, &mut random)?;

    let listener = TcpListener::bind(("127.0.0.1", args.port)).await?;
    println!("{}", token.url(format_args!("http://{}/", listener.local_addr()?)));
    let closer = page.closer();
    let load = tokio::spawn(run(registry.clock().clone(), simulated, random));
    let stop = tokio::spawn(async move {
        let _ = tokio::signal::ctrl_c().await;
        closer.close();
    });
    page.serve(listener).await?;
    load.abort();
    stop.abort();
    Ok(())
}

fn arguments() -> Result<Args, Box<dyn Error>> {
    let mut args = Args { resources: 40, port: 7171, seed: 1, rate: 12.0 };
    let mut given = std::env::args().skip(1);
    while let Some(name) = given.next() {
        let value = given.next().ok_or_else(|| format!("{name} needs a value"))?;
        match name.as_str() {
            "--resources" => args.resources = value.parse()?,
            "--port" => args.port = value.parse()?,
            "--seed" => args.seed = value.parse()?,
            "--rate" => args.rate = value.parse()?,
            _ => {
                return Err(format!("{name} is none of --resources, --port, --seed, --rate").into());
            }
        }
    }
    Ok(args)
}

/// Lists the resources, and watches their limiters.
fn simulate(
    args: &Args,
    registry: &Registry,
    random: &mut Rng,
) -> Result<Vec<Simulated>, Box<dyn Error>> {
    let mut all = Vec::new();
    for index in 0..args.resources.max(5) {
        let (name, kind, direction) = plan(index);
        let config = ResourceConfig::default().traffic_type(direction);
        let mut resource = registry.resource_with(&name, config)?;
        if index % 11 == 7 {
            resource = resource.in_context("batch")?;
        }
        let clock = || registry.clock().clone();
        let limiter = match kind {
            Kind::Failing => {
                let breaker = CircuitBreaker::with_clock(CircuitConfig::default(), clock());
                let breaker = Arc::new(breaker);
                registry.watch(&name, Arc::clone(&breaker))?;
                Some(breaker.boxed())
            }
            Kind::Refusing => {
                let second = Duration::from_secs(1);
                let limiter = SlidingWindowLimiter::with_clock(second, 40, clock())?;
                let limiter = limiter.boxed();
                registry.watch(&name, Arc::clone(&limiter))?;
                all.push(Simulated {
                    resource,
                    limiter: Some(limiter),
                    kind,
                    rate: 60.0,
                    median: 0.004,
                });
                continue;
            }
            Kind::Slow => {
                let limiter = AdaptiveLimiter::with_clock(Headroom::default(), clock());
                let limiter = Arc::new(limiter);
                registry.watch(&name, Arc::clone(&limiter))?;
                Some(limiter.boxed())
            }
            Kind::Dropping => {
                let breaker =
                    AdaptiveBreaker::with_clock(AdaptiveBreakerConfig::default(), clock());
                let breaker = Arc::new(breaker);
                registry.watch(&name, Arc::clone(&breaker))?;
                Some(breaker.boxed())
            }
            Kind::Healthy | Kind::Idle => None,
        };
        let rate = if kind == Kind::Healthy { args.rate * 2.0 * random.f64() } else { 30.0 };
        let median = 0.002 * f64::exp(4.0 * random.f64());
        all.push(Simulated { resource, limiter, kind, rate, median });
    }
    Ok(all)
}
fn plan(index: usize) -> (String, Kind, TrafficType) {
    let inbound = |name: &str, kind| (name.to_owned(), kind, TrafficType::Inbound);
    match index {
        0 => inbound("POST /pay", Kind::Failing),
        1 => inbound("GET /search", Kind::Refusing),
        2 => inbound("GET /report", Kind::Slow),
        3 => inbound("GET /recommendations", Kind::Dropping),
        4 => inbound("DELETE /archive", Kind::Idle),
        index if index % 5 == 0 => {
            (format!("db.query {index}"), Kind::Healthy, TrafficType::Outbound)
        }
        index => inbound(&format!("GET /items/{index}"), Kind::Healthy),
    }
}

/// Begins and ends requests at times of their own, some of which are between two ticks.
async fn run(clock: MonotonicClock, simulated: Vec<Simulated>, mut random: Rng) {
    let mut in_flight = InFlight::new();
    let mut number = 0;
    let mut last = clock.now();
    let mut ticks = tokio::time::interval(TICK);
    loop {
        ticks.tick().await;
        let now = clock.now();
        let elapsed = now.saturating_since(last).min(Duration::from_secs(1));
        for it in &simulated {
            let mut starts = it.starts(last, elapsed, &mut random);
            starts.sort_unstable();
            for start in starts {
                let Some(request) = it.begin(start) else { continue };
                let (outcome, time) = it.end(start, &mut random);
                number += 1;
                in_flight.insert((start.saturating_add(time), number), (request, outcome));
            }
        }
        end_until(now, &mut in_flight);
        last = now;
    }
}

fn end_until(now: Timestamp, in_flight: &mut InFlight) {
    let later = in_flight.split_off(&(now, u64::MAX));
    for ((end, _), (request, outcome)) in std::mem::replace(in_flight, later) {
        match request {
            Request::Plain(entry) => entry.end_at(end, outcome),
            Request::Limited(entry) => entry.end_at(end, outcome),
        }
    }
}

impl Simulated {
    /// Returns the times at which requests arrive.
    fn starts(&self, from: Timestamp, elapsed: Duration, random: &mut Rng) -> Vec<Timestamp> {
        let is_idle = self.kind == Kind::Idle && !from.as_secs().is_multiple_of(40);
        let expected = if is_idle { 0.0 } else { self.rate * elapsed.as_secs_f64() };
        let mut starts = Vec::new();
        let mut sum = -random.f64().max(1e-9).ln();
        while sum < expected {
            let share = sum / expected;
            starts.push(from.saturating_add(elapsed.mul_f64(share)));
            sum -= random.f64().max(1e-9).ln();
        }
        starts
    }

    fn begin(&self, start: Timestamp) -> Option<Request> {
        let Some(limiter) = &self.limiter else {
            return Some(Request::Plain(Entry::enter_at(self.resource.clone(), start)));
        };
        limiter.try_enter_at(self.resource.clone(), start).ok().map(Request::Limited)
    }

    /// Returns the outcome of a request and its response time.
    fn end(&self, start: Timestamp, random: &mut Rng) -> (Outcome, Duration) {
        let second = start.as_secs() % 60;
        let failing = match self.kind {
            Kind::Failing if second < 20 => 0.9,
            Kind::Dropping => 0.7,
            Kind::Idle => 0.0,
            _ => 0.002,
        };
        let slower = if self.kind == Kind::Slow && second >= 30 { 40.0 } else { 1.0 };
        let spread = (random.f64() + random.f64() + random.f64() - 1.5) * 1.6;
        let time = Duration::from_secs_f64(self.median * slower * spread.exp());
        let outcome = match random.f64() {
            it if it < failing => Outcome::Exception,
            it if it < failing + 0.001 => Outcome::Cancelled,
            _ => Outcome::Success,
        };
        (outcome, time)
    }
}
