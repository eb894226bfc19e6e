//! The words around the numbers.

use super::{Measured, tables};
use crate::scenarios::cells;
use crate::scenarios::record::{ARITHMETIC, RAW};
use crate::{goals, machine};

/// The crates whose versions matter.
const CRATES: [&str; 10] = [
    "leaparray",
    "arc-swap",
    "crossbeam-utils",
    "quanta",
    "sentinel-core",
    "prometheus",
    "prometheus-client",
    "metrics",
    "metrics-exporter-prometheus",
    "governor",
];

pub(super) fn document(measured: &Measured) -> String {
    let sections = [
        introduction(measured),
        recording(measured),
        reading(measured),
        rotating(measured),
        deciding(measured),
        peers(measured),
        memory(measured),
        machine(measured),
    ];
    sections.join("\n")
}

fn introduction(measured: &Measured) -> String {
    let (rounds, millis) = (measured.plan.rounds, measured.plan.sample.as_millis());
    let (cores, took) = (measured.cores, measured.took.as_secs());
    let (usual, worst) = tables::spreads(measured);
    let (usual, worst) = (usual * 100.0, worst * 100.0);
    let quiet = quiet(measured);
    format!(
        "\
# Performance

<!-- Written by the program in `perf`, numbers and words. Do not edit: run it again. -->

```sh
cargo run --release --manifest-path perf/Cargo.toml
```

measures all of this in one process and writes this file with its plots; `-- --quick` is a smoke test
that writes nothing.

## How it is measured

Every case is measured once in each of {rounds} rounds, {millis} ms at a time, the cases in turn
forwards and backwards, {took} s in all: what disturbs the machine for a while disturbs them all. A
number is the median over the rounds, in nanoseconds for one operation on one thread while the others
do the same. Threads are new in every sample; each warms up, waits for the others at a barrier, and
times itself from there; the mean of their times counts. Where there are more threads than cores, of
which there are {cores} here, it is the time on a core that counts, not the wait for one.

**Compare ratios, within this run.** The nanoseconds are this machine's and this hour's. *±* is how far
the middle half of a case's rounds reaches from the median, as a share of it: {usual:.0} % for the case in the
middle, {worst:.0} % for the worst. *The bare counter, once more* is one thing measured twice: by how much its
ratio differs from 1 is the least that a difference must be to mean something.

{quiet}

A goal is what was set out for before anything was built, on a machine with 2 cores. A row without one
is there to be seen.
"
    )
}

/// Whether two threads had two cores, and those to themselves.
fn quiet(measured: &Measured) -> String {
    let threads = measured.cores.min(2);
    let on_core = measured.results.get(RAW, threads).map_or(f64::NAN, |cost| cost.on_core);
    let arithmetic = measured.results.get(ARITHMETIC, threads);
    let slower = arithmetic.map_or(f64::NAN, |cost| cost.median / cost.lowest);
    let percent = on_core * 100.0;
    let so = format!(
        "In the median round, {threads} threads that never wait were on a core for {percent:.1} % of the time, and
plain arithmetic took {slower:.2} times as long as in the best"
    );
    if on_core > 0.97 && slower < 1.05 {
        format!("{so}: the machine was quiet.")
    } else {
        format!("{so}: **the machine was at something else, and these numbers are worth little.**")
    }
}

fn recording(measured: &Measured) -> String {
    let recording = tables::ratios(measured, &goals::recording());
    let crowded = tables::ratios(measured, &goals::crowded(measured.cores));
    let flat = tables::ratios(measured, &goals::flat(measured.cores));
    let owned = cells(measured.cores);
    format!(
        "\
## Recording

All threads record in one window of 2 × 500 ms, through the ordinary shared `&self`. The 1,000 windows
share one clock.

{recording}
### More threads than cells

A bucket has {owned} cells here that one thread owns; all further threads share one more.

{crowded}
### More threads

Flat up to as many threads as there are cells of their own; of more, some share one.

{flat}
![Cost of recording one event against the number of threads](performance/threads.svg)
"
    )
}

fn reading(measured: &Measured) -> String {
    let reading = tables::ratios(measured, &goals::reading());
    format!(
        "\
## Reading

Exact and fresh, the time given. Where nothing else is said, one thread has recorded in the buckets; each
further one has a cell of its own there, which a read adds up. A neighbour writes or reads without a pause, all the time and in the
newest bucket: the worst there can be. What a writer pays for its reader is held against the same pair
on two windows, so that what the machine takes for having both cores busy is not in it.

{reading}"
    )
}

fn rotating(measured: &Measured) -> String {
    let rotating = tables::ratios(measured, &goals::rotating());
    let tail = tables::tail(measured);
    format!(
        "\
## Rotating

Every operation is the first in its bucket. A rotation allocates nothing in steady state, which
`tests/allocations.rs` shows with a counting allocator; it is held against one that would.

{rotating}
### The slowest records

Two threads record in one window of 10 × 1 ms, so that each crosses a rotation every millisecond; each
record is timed by two reads of the counter, of which one is in what is shown. The bare clock read is
timed in the same way in the same rounds: what it has in its tail is the machine's.

{tail}"
    )
}

fn deciding(measured: &Measured) -> String {
    let deciding = tables::ratios(measured, &goals::deciding());
    format!(
        "\
## Deciding

All threads ask one limiter for one permit, and are told the same each time. *Admitted*: a permit comes
each nanosecond, or the window has more than are asked for. *Refused*: there was one permit, and it is
taken. Each has the precise clock, but for `ConcurrencyLimit`, which has none, and whose permit is given
back at once. What they are held against is the `check` of a direct limiter of `governor` with its own
clock, told the same. Every answer is looked at, there as here; a round in which one is another is lost,
and named at the end of the peers.

The windows are so long that nothing comes free while they are measured. At 3 permits a millisecond no
permit takes a whole number of nanoseconds, and the bucket is never full: each due time is rounded, which
takes divisions. A breaker's promise is let go of unkept; of one that is failing, those who are to be admitted
draw high and the others low, and who draws takes no time. Who enters a `ResourceNode` by a limiter reads what
has passed the node in its last second, and asks the limiter; if all permits of that are taken, it does not read.

{deciding}"
    )
}

fn peers(measured: &Measured) -> String {
    let (who, costs) = (tables::who(), tables::peers(measured));
    let (ratios, lost) = (tables::peers_as_ratios(measured), tables::lost(measured));
    format!(
        "\
## Peers

Each by its own ordinary interface and clock; the stand-ins, for what has no crate, read leaparray's
precise clock. *One event* is a pass, an increment, or a check; *a finished request* is a success with
its response time. A dash: there is no such thing.

{who}
Nanoseconds:

{costs}
{ratios}
![One event, peers side by side](performance/peers-event.svg)

![A finished request, peers side by side](performance/peers-request.svg)

![Reading a rate, peers side by side](performance/peers-rate.svg)

{lost}"
    )
}

fn memory(measured: &Measured) -> String {
    let memory = tables::memory(measured);
    format!(
        "\
## Memory

Bytes on the heap that one resource takes, with the value itself, counted by an allocator in a process
of its own. What a thread takes once for all windows is left out. The two threads record in each bucket
at the same time, 50,000 times each.

{memory}
![Bytes of one resource](performance/memory.svg)
"
    )
}

fn machine(measured: &Measured) -> String {
    let versions = CRATES.map(|krate| format!("| {krate} | {} |\n", machine::version(krate)));
    let (processor, system) = (machine::processor(), machine::system());
    let (cores, rustc, versions) = (measured.cores, machine::RUSTC, versions.concat());
    format!(
        "\
## The machine, and the versions

| | |
|---|---|
| processor | {processor} |
| cores | {cores} |
| system | {system} |
| compiler | {rustc} |
{versions}"
    )
}
