//! The rows of the tables that compare this crate with others.

mod rules;

use crate::Set;
use crate::format;
pub(crate) use rules::RULES;

/// A row: the cost of an operation here, as a multiple of the cost elsewhere.
pub(crate) struct Row {
    /// The operation, and the number of threads.
    pub(crate) what: &'static str,
    /// The other side.
    pub(crate) compared_with: &'static str,
    /// The program that measures both.
    pub(crate) program: &'static str,
    threads: usize,
    unit: &'static str,
    /// The cases of both sides.
    ours: &'static str,
    other: &'static str,
    /// A case whose cost both sides include, which is subtracted.
    without: Option<&'static str>,
}

/// Creates a row of costs in nanoseconds.
const fn row(
    program: &'static str,
    threads: usize,
    [what, ours]: [&'static str; 2],
    [compared_with, other]: [&'static str; 2],
) -> Row {
    Row { what, compared_with, program, threads, unit: "ns", ours, other, without: None }
}

impl Row {
    const fn bytes(self) -> Self {
        Self { unit: "bytes", ..self }
    }

    /// A layer: the cost of axum alone is subtracted.
    const fn layer(self) -> Self {
        Self { without: Some("a request: axum alone"), ..self }
    }

    /// Returns the ratio, and the cost here in parentheses. `None` if the set lacks a side.
    pub(crate) fn cell(&self, set: &Set) -> Option<String> {
        let cost = |case| set.value(case, self.threads, self.unit);
        let (ours, other) = (cost(self.ours)?, cost(self.other)?);
        let without = match self.without {
            Some(case) => cost(case)?,
            None => 0.0,
        };
        let exact = set.value(self.ours, self.threads, &format!("× {}", self.other));
        let ratio = exact.unwrap_or((ours - without) / (other - without));
        Some(format!("{ratio:.2} ({} {})", format::cost(ours - without), self.unit))
    }
}

const PRECISE: &str = "record one event, precise clock";
const COUNTER: [&str; 2] = ["a read of the time-stamp counter", "a raw counter read (`quanta`)"];
const REQUEST: &str = "leaparray, precise clock: a finished request";
const GOVERNOR: [&str; 2] = ["`governor`", "`governor`'s `check`, admitted"];
const SLIDING: &str = "`SlidingWindowLimiter`, admitted";
const LAYER: &str = "a request: leaparray-tower";
const HISTOGRAM: &str = "record with leaparray, scale 4: three decades";
const HDR: [&str; 2] = ["`hdrhistogram`, mutex", "record with hdrhistogram, mutex: three decades"];

pub(crate) const RECORDING: &[Row] = &[
    row("", 1, ["record one event, 1 thread", PRECISE], COUNTER),
    row(
        "",
        1,
        ["record one event, 1 thread", PRECISE],
        [
            "the least that counts by bucket",
            "read `quanta`'s clock, and add to a plain cell of the thread and the bucket",
        ],
    ),
    row(
        "",
        1,
        [
            "record a success and its response time, 1 thread",
            "record a success and its response time, precise clock",
        ],
        COUNTER,
    ),
    row(
        "",
        1,
        [
            "enter a `ResourceNode` and succeed, 1 thread",
            "enter a `ResourceNode` and succeed, precise clock",
        ],
        COUNTER,
    ),
    row(
        "",
        1,
        ["record a finished request, 1 thread", REQUEST],
        ["`prometheus`, counter and histogram", "prometheus: a finished request"],
    ),
    row(
        "",
        2,
        ["record a finished request, 2 threads", REQUEST],
        ["`prometheus`, counter and histogram", "prometheus: a finished request"],
    ),
    row(
        "",
        2,
        ["record a finished request, 2 threads", REQUEST],
        ["`sentinel-core`", "sentinel-core: a finished request"],
    ),
    row(
        "",
        1,
        [
            "read the rate of a second while a thread records",
            "leaparray, precise clock: rate, concurrent writer",
        ],
        ["`sentinel-core`", "sentinel-core: rate, concurrent writer"],
    ),
    row(
        "",
        1,
        [
            "bytes of a busy resource with a second and a minute",
            "bytes of leaparray, 120 × 500 ms (second and minute), a minute, two threads",
        ],
        [
            "`sentinel-core`, ten seconds and no minute",
            "bytes of sentinel-core node, 20 × 500 ms (no minute), a minute, two threads",
        ],
    )
    .bytes(),
];

pub(crate) const LIMITS: &[Row] = &[
    row("limiters", 1, ["`SlidingWindowLimiter` admits, 1 thread", SLIDING], GOVERNOR),
    row("limiters", 2, ["`SlidingWindowLimiter` admits, 2 threads", SLIDING], GOVERNOR),
    row("limiters", 16, ["`SlidingWindowLimiter` admits, 16 threads", SLIDING], GOVERNOR),
    row(
        "limiters",
        1,
        ["`SlidingWindowLimiter` refuses, 1 thread", "`SlidingWindowLimiter`, refused"],
        ["`governor`", "`governor`'s `check`, refused"],
    ),
    row("limiters", 1, ["`TokenBucket` admits, 1 thread", "`TokenBucket`, admitted"], GOVERNOR),
    row("limiters", 2, ["`TokenBucket` admits, 2 threads", "`TokenBucket`, admitted"], GOVERNOR),
    row(
        "limiters",
        1,
        [
            "`SlidingWindowLimiter` admits, and a `ResourceNode` counts, 1 thread",
            "a request of a `ResourceNode` by a `SlidingWindowLimiter`",
        ],
        [
            "`governor`, then a `ResourceNode`",
            "`governor`'s `check`, then a request of a `ResourceNode`",
        ],
    ),
    row("feedback", 1, ["`CircuitBreaker` admits, 1 thread", "`CircuitBreaker`, closed"], GOVERNOR),
    row(
        "feedback",
        1,
        ["a call through `CircuitBreaker`, 1 thread", "a call through `CircuitBreaker`"],
        ["a success without it", "record a success"],
    ),
    row(
        "feedback",
        1,
        [
            "`AdaptiveLimiter` admits and ends a call, 1 thread",
            "`AdaptiveLimiter`, admitted, with its end",
        ],
        GOVERNOR,
    ),
    row(
        "feedback",
        2,
        [
            "`AdaptiveLimiter` admits and ends a call, 2 threads",
            "`AdaptiveLimiter`, admitted, with its end",
        ],
        GOVERNOR,
    ),
    row(
        "leases",
        1,
        [
            "`LeasedLimiter` of a fleet admits, 1 thread",
            "`LeasedLimiter`, admitted, `BootClock`, 10 buckets in a second",
        ],
        [
            "`SlidingWindowLimiter`",
            "`SlidingWindowLimiter`, admitted, `BootClock`, 10 buckets in a second",
        ],
    ),
];

pub(crate) const KEYED: &[Row] = &[
    row(
        "keyed",
        1,
        ["bytes of a key, `String`", "`Keyed`, `String`, bytes of a key"],
        ["`governor`", "`governor`, `String`, bytes of a key"],
    )
    .bytes(),
    row(
        "keyed",
        1,
        ["`Keyed` admits, Zipf's law, 1 thread", "`Keyed`, `String`, zipf, admitted"],
        ["`governor`", "`governor`, `String`, zipf, admitted"],
    ),
    row(
        "keyed",
        2,
        ["`Keyed` admits, Zipf's law, 2 threads", "`Keyed`, `String`, zipf, admitted"],
        ["`governor`", "`governor`, `String`, zipf, admitted"],
    ),
];

pub(crate) const MIDDLEWARE: &[Row] = &[
    row(
        "middleware",
        1,
        ["`leaparray-tower` adds to a request", LAYER],
        ["`TraceLayer`", "a request: TraceLayer"],
    )
    .layer(),
    row(
        "middleware",
        2,
        ["`leaparray-tower` adds to a request, 2 threads", LAYER],
        ["`TraceLayer`", "a request: TraceLayer"],
    )
    .layer(),
    row(
        "middleware",
        1,
        ["`leaparray-tower` adds to a request", LAYER],
        ["`axum-prometheus`", "a request: axum-prometheus"],
    )
    .layer(),
    row(
        "middleware",
        1,
        ["`leaparray-tower` with a limiter adds", "a request: leaparray-tower, token bucket"],
        ["`tower_governor`, which counts nothing", "a request: tower_governor"],
    )
    .layer(),
];

pub(crate) const HISTOGRAMS: &[Row] = &[
    row("histograms", 1, ["record in a histogram of a minute, 1 thread", HISTOGRAM], HDR),
    row("histograms", 2, ["record in a histogram of a minute, 2 threads", HISTOGRAM], HDR),
    row(
        "histograms",
        1,
        ["record in a histogram of a minute, 1 thread", HISTOGRAM],
        [
            "the least that counts a response time by bucket",
            "read `quanta`'s clock, and add to a plain count, sum and bin of the thread",
        ],
    ),
    row(
        "histograms",
        1,
        ["read four quantiles of a minute", "read four quantiles of leaparray, scale 4"],
        ["`hdrhistogram`, which has no window", "read four quantiles of hdrhistogram, mutex"],
    ),
];
