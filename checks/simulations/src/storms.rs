//! Clients that come again: a storm of retries, and a herd that was refused together.

use std::time::Duration;

use fastrand::Rng;
use leaparray::flow::budget::{LiveBudget, LiveRequest, RetryBudget, RetryPermit};
use leaparray::flow::{LimiterExt, Rate, TokenBucket};
use leaparray::{ManualClock, Timestamp, WindowConfig};

use crate::queue::Queue;
use crate::table::{bars, chart, grouped, line, percent, short};

const SECOND: u64 = 1_000_000_000;
/// Requests in a second.
const LOAD: u64 = 700;
const WORKERS: u32 = 100;
/// The time of a call in a worker, so the backend can serve 1,000 calls in a second.
const CALL: u64 = SECOND / 10;
/// The most calls that wait for a worker. They wait for two seconds, longer than their callers.
const WAITING: usize = 2_000;
const TIMEOUT: u64 = SECOND;
const ATTEMPTS: u32 = 3;
/// The seconds in which the backend begins no call, and the length of the run.
const OUTAGE: std::ops::Range<usize> = 20..30;
const SECS: usize = 60;

/// The bound of the retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// There are none.
    NoRetries,
    /// Up to three attempts.
    Attempts,
    /// Three attempts, and a fifth of the requests of a second.
    Window,
    /// Three attempts, and a fifth of the other requests in flight.
    Live,
}

/// The counts of each second of a run.
#[derive(Clone, Debug, Default)]
pub struct Storm {
    /// Requests that began.
    pub requests: Vec<u64>,
    /// Attempts that were sent.
    pub attempts: Vec<u64>,
    /// Requests that began in the second and succeeded.
    pub served: Vec<u64>,
}

impl Storm {
    /// The most attempts for each request of a second.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts of a simulation")]
    pub fn factor(&self) -> f64 {
        let of = |(attempts, requests): (&u64, &u64)| *attempts as f64 / *requests as f64;
        self.attempts.iter().zip(&self.requests).map(of).fold(0.0, f64::max)
    }

    /// The seconds after the outage from which on all requests are served; `None` if that is not
    /// before the end.
    #[must_use]
    pub fn recovery(&self) -> Option<usize> {
        let all = |second: &usize| self.served[*second] == self.requests[*second];
        let since = SECS - (0..SECS - 1).rev().take_while(all).count() - 1;
        (since < SECS - 5).then(|| since.saturating_sub(OUTAGE.end))
    }
}

#[derive(Clone, Copy)]
enum Event {
    /// A request begins.
    Begin,
    /// A worker has done the call of an attempt.
    Done(usize),
    /// The caller of an attempt gives up.
    Timeout(usize),
    /// The outage is over.
    Healthy,
}

struct Request<'a> {
    second: usize,
    attempts: u32,
    /// Counts the request until its end.
    live: Option<LiveRequest<&'a LiveBudget>>,
}

/// An attempt: the number of its request, whether its caller waits, and its permit.
struct Attempt<'a> {
    request: usize,
    waits: bool,
    permit: Option<RetryPermit<&'a LiveBudget>>,
}

struct Run<'a> {
    bound: Bound,
    window: &'a RetryBudget<ManualClock>,
    live: &'a LiveBudget,
    clock: &'a ManualClock,
    events: Queue<Event>,
    requests: Vec<Request<'a>>,
    attempts: Vec<Attempt<'a>>,
    waiting: std::collections::VecDeque<usize>,
    busy: u32,
    now: u64,
    storm: Storm,
}

/// Simulates an outage of the backend.
///
/// # Panics
///
/// If a budget cannot be made.
#[must_use]
pub fn storm(bound: Bound) -> Storm {
    let clock = ManualClock::new(Timestamp::from_nanos(0));
    let geometry = WindowConfig::new(10, Duration::from_nanos(SECOND)).expect("it divides");
    let window = RetryBudget::with_clock(geometry, 0.2, 0, clock.clone()).expect("a fifth");
    let live = LiveBudget::new(0.2, 3).expect("a fifth");
    let none = vec![0; SECS];
    let mut run = Run {
        bound,
        window: &window,
        live: &live,
        clock: &clock,
        events: Queue::new(),
        requests: Vec::new(),
        attempts: Vec::new(),
        waiting: std::collections::VecDeque::new(),
        busy: 0,
        now: 0,
        storm: Storm { requests: none.clone(), attempts: none.clone(), served: none },
    };
    run.events.add(OUTAGE.end as u64 * SECOND, Event::Healthy);
    for number in 0..LOAD * SECS as u64 {
        run.events.add(number * SECOND / LOAD, Event::Begin);
    }
    while let Some((time, event)) = run.events.next() {
        run.step(time, event);
    }
    run.storm
}

impl<'a> Run<'a> {
    fn second(&self) -> usize {
        usize::try_from(self.now / SECOND).expect("a run is short")
    }

    fn step(&mut self, time: u64, event: Event) {
        self.now = time;
        self.clock.set(Timestamp::from_nanos(time));
        match event {
            Event::Begin => {
                let live = (self.bound == Bound::Live).then(|| LiveRequest::of(self.live));
                self.window.deposit();
                let second = self.second();
                self.storm.requests[second] += 1;
                let request = Request { second, attempts: 0, live };
                self.requests.push(request);
                self.send(self.requests.len() - 1, None);
            }
            Event::Done(attempt) => {
                self.busy -= 1;
                if std::mem::take(&mut self.attempts[attempt].waits) {
                    let request = self.attempts[attempt].request;
                    self.storm.served[self.requests[request].second] += 1;
                    self.end(attempt);
                }
                self.begin_calls();
            }
            Event::Timeout(attempt) => {
                if std::mem::take(&mut self.attempts[attempt].waits) {
                    self.fail(attempt);
                }
            }
            Event::Healthy => self.begin_calls(),
        }
    }

    fn send(&mut self, request: usize, permit: Option<RetryPermit<&'a LiveBudget>>) {
        self.requests[request].attempts += 1;
        let second = self.second();
        if let Some(attempts) = self.storm.attempts.get_mut(second) {
            *attempts += 1;
        }
        let attempt = self.attempts.len();
        self.attempts.push(Attempt { request, waits: true, permit });
        self.events.add(self.now + TIMEOUT, Event::Timeout(attempt));
        if self.waiting.len() < WAITING {
            self.waiting.push_back(attempt);
            self.begin_calls();
        } // or else the backend is silent, as one whose connections are all taken
    }

    fn begin_calls(&mut self) {
        if OUTAGE.contains(&self.second()) {
            return;
        }
        while self.busy < WORKERS
            && let Some(attempt) = self.waiting.pop_front()
        {
            self.busy += 1;
            // Also for a caller that has given up: the backend does not know.
            self.events.add(self.now + CALL, Event::Done(attempt));
        }
    }

    /// Retries the request of an attempt, or gives up.
    fn fail(&mut self, attempt: usize) {
        self.attempts[attempt].permit = None;
        let request = self.attempts[attempt].request;
        let is_left = self.requests[request].attempts < ATTEMPTS;
        let admitted = match self.bound {
            _ if !is_left => None,
            Bound::NoRetries => None,
            Bound::Attempts => Some(None),
            Bound::Window => self.window.try_acquire().is_admitted().then_some(None),
            Bound::Live => self.live.try_acquire().at_once().ok().map(Some),
        };
        match admitted {
            Some(permit) => self.send(request, permit),
            None => self.end(attempt),
        }
    }

    fn end(&mut self, attempt: usize) {
        self.attempts[attempt].permit = None;
        self.requests[self.attempts[attempt].request].live = None;
    }
}

/// The requests of clients that a limit has refused at the same moment.
#[derive(Clone, Debug)]
pub struct Herd {
    /// The requests that the clients send until all are admitted.
    pub requests: u64,
    /// The most requests in a second after the first.
    pub most: u64,
    /// The second in which the last client is admitted.
    pub last: u64,
    /// The requests of each second.
    by_second: Vec<u64>,
}

/// Clients that come at once to a limit of 100 a second, and each time come again after their
/// `Retry-After`, which is later by a random part of `spread` seconds.
///
/// # Panics
///
/// If the rate is invalid.
#[must_use]
pub fn herd(clients: u64, spread: u64) -> Herd {
    let clock = ManualClock::new(Timestamp::from_nanos(0));
    let bucket = TokenBucket::with_clock(Rate::per_second(100).expect("valid"), 100, clock.clone());
    let (mut rng, mut events) = (Rng::with_seed(7), Queue::new());
    for _ in 0..clients {
        events.add(60 * SECOND, ());
    }
    let (mut by_second, mut last) = (vec![0; 600], 0);
    while let Some((time, ())) = events.next() {
        let second = usize::try_from(time / SECOND - 60).expect("a run is short");
        by_second[second] += 1;
        let now = Timestamp::from_nanos(time);
        clock.set(now);
        let Some(refusal) = bucket.try_acquire().refusal() else {
            last = second as u64;
            continue;
        };
        // As the layer's `Spread` does: the header has whole seconds.
        let later = Duration::from_nanos(rng.u64(..=spread * SECOND));
        let after = refusal.postponed(later).retry_after(now).expect("a time is known");
        // Requests take some time, and not all the same.
        let travel = rng.u64(..SECOND / 10);
        events.add(time + after.as_secs() * SECOND + travel, ());
    }
    let most = by_second[1..].iter().copied().max().unwrap_or(0);
    Herd { requests: by_second.iter().sum(), most, last, by_second }
}

/// The results of this page.
#[derive(Clone, Debug)]
pub struct Results {
    storms: Vec<(&'static str, Storm)>,
    herds: Vec<(u64, Herd)>,
}

/// Runs all simulations of clients that come again.
#[must_use]
pub fn run_all() -> Results {
    let bounds = [
        ("no retries", Bound::NoRetries),
        ("three attempts", Bound::Attempts),
        ("three attempts, `RetryBudget` of 20 % in a second", Bound::Window),
        ("three attempts, `LiveBudget` of 20 %", Bound::Live),
    ];
    let storms = bounds.into_iter().map(|(name, bound)| (name, storm(bound))).collect();
    Results { storms, herds: [0, 10].map(|spread| (spread, herd(1_000, spread))).into() }
}

impl Results {
    /// Returns the goals that were missed.
    #[must_use]
    pub fn missed(&self) -> Vec<String> {
        let mut missed = Vec::new();
        for (name, storm) in self.storms.iter().filter(|(name, _)| name.contains("Budget")) {
            let (factor, recovery) = (storm.factor(), storm.recovery());
            if factor > 1.2 || recovery.is_none_or(|it| it > 10) {
                missed.push(format!("{name}: {factor:.3} × the load, recovery {recovery:?}"));
            }
        }
        let [(_, together), (_, apart)] = &self.herds[..] else { return missed };
        if apart.most * 5 > together.most || apart.requests * 2 > together.requests {
            missed.push(format!("a spread herd: {apart:?}"));
        }
        missed
    }
}

const STORM: &str = "
## Clients that come again

**A storm of retries.** A backend of 100 workers can serve 1,000 calls of 100 ms in a second, and
gets 700. For ten seconds, it begins none. Up to 2,000 calls wait, two seconds, and their callers
give up after one. So the backend then serves calls whose callers have given up, and it recovers
only if it gets less than it can serve. *Load* is the highest number of attempts for each request of
a second. The goals of both budgets: a load of at most 1.2, and all requests are served again within
ten seconds.

";

const CHART: &str = "
The attempts that are sent in each second, and the requests of that second that are served. A full
bar is three times the load. The backend begins no call from the 20th second to the 30th:

";

const HERD: &str = "
**A herd.** 1,000 clients come at once to a limit of 100 a second with a burst of 100, and come
again after their `Retry-After`, in whole seconds, which `Spread` makes later by a random part of
its time. *Most* is the highest number of requests in a second after the first. The goals: a fifth
of the most, and half of the requests.

";

const HERD_CHART: &str = "
The requests of each second, from the first one. A full bar is 1,000:

";

/// Returns the section of the page.
#[must_use]
pub fn section(results: &Results) -> String {
    let head = |cells: &[&str]| {
        let align = cells.iter().enumerate().map(|(at, _)| if at == 0 { "---" } else { "---:" });
        line(cells.iter().copied()) + &line(align)
    };
    let mut text = STORM.to_owned();
    text += &head(&["retries", "load", "served in the last 10 s", "recovery"]);
    for (name, storm) in &results.storms {
        let last = SECS - 11..SECS - 1;
        let sum = |counts: &[u64]| counts[last.clone()].iter().sum::<u64>();
        #[expect(clippy::cast_precision_loss, reason = "counts of a simulation")]
        let served = sum(&storm.served) as f64 / sum(&storm.requests) as f64;
        let recovery = storm.recovery().map_or("–".to_owned(), |it| format!("{it} s"));
        let cells =
            [(*name).to_owned(), format!("{:.2} ×", storm.factor()), percent(served, 0), recovery];
        text += &line(cells.iter().map(String::as_str));
    }
    text += CHART;
    #[expect(clippy::cast_precision_loss, reason = "counts of a simulation")]
    let bars_of =
        |counts: &[u64], whole: u64| bars(counts.iter().map(|count| *count as f64), whole as f64);
    let of_load = |counts: &[u64]| bars_of(counts, LOAD * u64::from(ATTEMPTS));
    let rows = results.storms.iter().flat_map(|(name, storm)| {
        let name = short(name.trim_start_matches("three attempts, "));
        [("sent", &storm.attempts), ("served", &storm.served)]
            .map(|(what, counts)| (format!("{name}: {what}"), of_load(counts)))
    });
    text += &chart(&rows.collect::<Vec<_>>());
    text += HERD;
    text += &head(&["spread", "requests", "most", "the last is admitted after"]);
    for (spread, herd) in &results.herds {
        let name = if *spread == 0 { "none".to_owned() } else { format!("{spread} s") };
        let last = format!("{} s", herd.last);
        let cells = [name, grouped(herd.requests), grouped(herd.most), last];
        text += &line(cells.iter().map(String::as_str));
    }
    text += HERD_CHART;
    let rows = results.herds.iter().map(|(spread, herd)| {
        let seconds = &herd.by_second[..12];
        (
            if *spread == 0 { "no spread".to_owned() } else { format!("{spread} s") },
            bars_of(seconds, 1_000),
        )
    });
    text + &chart(&rows.collect::<Vec<_>>())
}
