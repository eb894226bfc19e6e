//! The words around the numbers.

use super::{Measured, tables};
use crate::quiet::{self, Ledger};
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
        goals(measured),
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
    let (quiet, processor) = (quietness(measured), &measured.processor);
    format!(
        "\
# Performance on {processor}

<!-- Written by the program in `checks/perf`, numbers and words. Do not edit: run it again. -->

[All processors](../PERFORMANCE.md)

## How it is measured

Every case is measured once in each of {rounds} rounds, {millis} ms at a time, the cases in turn
forwards and backwards, {took} s in all. A
number is the median over the rounds, in nanoseconds for one operation on one thread while the others
do the same. Threads are new in every sample; each warms up, waits for the others at a barrier, and
times itself from there; the mean of their times counts. Where there are more threads than cores, of
which there are {cores} here, it is the time on a core that counts, not the wait for one.

**Compare ratios, within this run.** The nanoseconds are this machine's and this hour's. *±* is how far
the middle half of a case's rounds reaches from the median, as a share of it: {usual:.0} % for the case in the
middle, {worst:.0} % for the worst. *The bare counter, once more* is one thing measured twice: by how much its
ratio differs from 1 is the least that a difference must be to mean something.

{quiet}

A goal was set before the code was written, on machines with 2 cores. A row without a goal is for
information.
"
    )
}

/// Whether the machine was quiet, and how the program knows.
fn quietness(measured: &Measured) -> String {
    let Ledger { quiet, discarded, missing } = measured.samples;
    let samples = quiet + missing;
    let threads = measured.cores.min(2);
    let limit = quiet::LIMIT;
    let verdict = if measured.is_quiet() {
        ""
    } else {
        " **The machine was disturbed, and these numbers are worth little.**"
    };
    format!(
        "Before and after each sample, the program times plain arithmetic on {threads} threads. A sample counts if
the arithmetic took less than {limit} times as long as in the best tenth of the looks before the run, both
times: then each thread had a core, and none of them was shared with another that was busy. Otherwise the sample
is discarded and taken again. Of {samples} samples {missing} are missing, for want of a quiet moment; {discarded} attempts were
discarded.{verdict}
The tails, below, are of all moments."
    )
}

fn goals(measured: &Measured) -> String {
    let goals = tables::goals(measured);
    format!(
        "\
## Goals

*Record*, *idle*, *ended*: the threads that record at the same time, those that recorded only in buckets that the
window has left, and those that have ended after such records.

{goals}"
    )
}

fn recording(measured: &Measured) -> String {
    let id = measured.processor.id();
    let recording = tables::ratios(measured, &goals::recording());
    let crowded = tables::ratios(measured, &goals::crowded(measured.cores));
    let flat = tables::ratios(measured, &goals::flat(measured.cores));
    format!(
        "\
## Recording

All threads record in one window of 2 × 500 ms, through the ordinary shared `&self`. The 1,000 windows
share one clock.

The thread cache has 512 sets of two ways: windows that were made a multiple of 512 apart share
a set, and three of them evict each other.

{recording}
### Many more threads than cores

{crowded}
### More threads

Each thread has a cell of its own, so that the cost does not depend on their number.

{flat}
![Cost of recording one event against the number of threads]({id}/threads.svg)
"
    )
}

fn reading(measured: &Measured) -> String {
    let reading = tables::ratios(measured, &goals::reading(measured.processor.is_zen_5()));
    let crowds = tables::crowds(measured);
    format!(
        "\
## Reading

Exact and fresh, the time given. Where nothing else is said, one thread has recorded in the buckets. A
neighbour writes or reads without a pause, all the time and in the newest bucket: the worst case. The cost
of a writer beside its reader is compared with the same pair on two windows, so that the cost of having both
cores busy is not included.

{reading}
### With more threads

Of the threads that record, each has a cell that is in use, since it recorded in the current bucket and
waits. Those that idle, and those that have ended, recorded 1,000 buckets ago. After that, one thread recorded
in each of the last 400 buckets.

{crowds}"
    )
}

fn rotating(measured: &Measured) -> String {
    let (rotations, first) = (tables::rotations(measured), tables::first(measured));
    let tail = tables::tail(measured);
    format!(
        "\
## Rotating

Every operation is the first in its bucket. A rotation allocates nothing in steady state, which
`tests/allocations.rs` shows with a counting allocator; it is compared with one that would. Each row is
measured in processes of its own, 5 of them: in a fresh one, in one in which 1,024 threads recorded in the
windows, used an unrelated `ArcSwap` and ended, and in one in which 256 such threads idle.

{rotations}
### The first record in a bucket

The time is given and goes on by one bucket of a millisecond with each operation, in a window of 10 of them.
Two threads meet before each operation, and then record in the same new bucket. Each record is timed by two
reads of the counter, one of which is included.

{first}
### The slowest records

Two threads record in one window of 10 × 1 ms, so that each crosses a rotation every millisecond. Each
record is timed by two reads of the counter, one of which is included. The bare clock read is timed in the
same way in the same rounds: its tail is the machine's.

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
taken. Each has the precise clock, but for `ConcurrencyLimiter`, which has none, and whose permit is given
back at once. What they are held against is the `check` of a direct limiter of `governor` with its own
clock, told the same. Every answer is looked at, there as here; a round in which one is another is lost,
and named at the end of the peers.

The windows are so long that nothing comes free while they are measured. At 3 permits a millisecond no
permit takes a whole number of nanoseconds, and the bucket is never full: each due time is rounded, which
takes divisions. A breaker's permit is dropped without an outcome; of one that is failing, those who are to be admitted
draw high and the others low, and who draws takes no time. Who enters a `ResourceNode` by a limiter reads what
has passed the node in its last second, and asks the limiter; if all permits of that are taken, it does not read.

{deciding}"
    )
}

fn peers(measured: &Measured) -> String {
    let id = measured.processor.id();
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
![One event, peers side by side]({id}/peers-event.svg)

![A finished request, peers side by side]({id}/peers-request.svg)

![Reading a rate, peers side by side]({id}/peers-rate.svg)

{lost}"
    )
}

fn memory(measured: &Measured) -> String {
    let id = measured.processor.id();
    let (memory, nodes) = (tables::memory(measured), tables::nodes(measured));
    format!(
        "\
## Memory

Bytes on the heap that one resource takes, with the value itself, counted by an allocator in a process
of its own. What a thread takes once for all windows is left out. The two threads record in each bucket
at the same time, 50,000 times each.

{memory}
Of the cells, which all windows of the process share, the 128 bytes of each that is in use are included.
*Ended*: those threads have ended, and one thread has recorded for another minute.

{nodes}
![Bytes of one resource]({id}/memory.svg)
"
    )
}

fn machine(measured: &Measured) -> String {
    let versions = CRATES.map(|krate| format!("| {krate} | {} |\n", machine::version(krate)));
    let (processor, system) = (&measured.processor, machine::system());
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
