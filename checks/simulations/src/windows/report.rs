//! The section of the page on one window over a fleet.

use super::cases::Case;
use super::{Observed, Results};
use crate::table::{grouped, line, percent};

const HEAD: &str = "
## One window over a fleet

Each process of a fleet delivers each of its seconds to a server, and readers add them up. The
simulation runs the `Outbox`, the `Archive` and the `FleetView` of `leaparray-redis`, and compares
what readers show with the truth. The network loses and repeats 5 % of the messages, and some come
up to a minute late. In each second, 0.2 % of the processes crash, as many are closed, and as many
read nothing for 2 to 20 s. An outage of each kind is one of 10 s, one with the promotion of a
replica that is 5 s behind, one with a blank restart, and one of 40 s, longer than the time to
deliver a second.

*Final after* is the time from the end of a second until a reader shows it as final. *Present* are
the seconds of processes that a reader has shown in the end, *missed* those that their process
counts as missed, and *lost* the others, by a crash or by a loss of data. *Bytes* are those of the
deliveries, for each second of a process.

";

const CHECKS: &str = "
The program checks, to the unit:

1. The sums of a second, in total, by process and by resource, are those of exactly the processes
   that are named as present.
2. A final second names each process that had it, as present or as missing, unless the server has
   forgotten the process with its data and the process has not reached it again. A process is named
   as missing only if the server does not have its second. This is not checked for a process that
   was lost before, nor once the server has lost data.
3. A final second stays final. It changes only if a process comes back to it: one that was lost,
   before the deadline of the second, or one that the server had forgotten.
4. In each record, lifetime = delivered + missed + late + waiting + unfinished.
5. The seconds that wait in a process take no more bytes than allowed.

Checks 1 to 3 run for each second at each poll. With 100 processes or more, they do so until the
second is final, and then at one of 2 to 14 polls, less often the older the second is. Checks 4 and
5 run when a process reads seconds, and check 4 also when it delivers and when it gets an answer.

The program fails if a check fails once, in any of these runs or of more with 10 processes, or if a
second is lost without a crash or an outage. The tests break three rules of the protocol, and each
time a check fails.

Two combinations of faults are not in the runs. If a process joins just before a replica is promoted
that does not know it, a reader that asks the replica before a delivery has shown the loss may show
a second as final without that process. Check 2 allows that once another process has reached the
replica. If a process drops a second because its outbox is full, and a delivery with that second
arrives late at a server that has lost its data, the second is on the server, and counted as missed.
These are the gaps 2 and 3 of the [promise of a fleet window](CORRECTNESS.md#fleet-window).
";

const COLUMNS: [&str; 9] = [
    "processes",
    "faults",
    "final after: p50 s",
    "p99 s",
    "max s",
    "present",
    "missed",
    "lost",
    "bytes",
];

/// Returns the section of the page.
#[must_use]
pub fn section(results: &Results) -> String {
    let align = COLUMNS.map(|name| if name == "faults" { "---" } else { "---:" });
    let mut text = HEAD.to_owned() + &line(COLUMNS.into_iter()) + &line(align.into_iter());
    let mut rows: Vec<_> =
        results.0.iter().filter(|(case, _)| case.scenario.processes >= 100).collect();
    rows.sort_by_key(|(case, _)| case.scenario.processes);
    for (case, observed) in rows {
        text += &line(cells(case, observed).iter().map(String::as_str));
    }
    text + CHECKS
}

fn cells(case: &Case, it: &Observed) -> [String; 9] {
    let of_seconds = |count| percent(ratio(count, it.seconds), 2);
    let secs = |quantile| format!("{:.1}", ratio(it.final_after_millis(quantile), 1_000));
    [
        grouped(case.scenario.processes as u64),
        case.name.to_owned(),
        secs(50),
        secs(99),
        secs(100),
        of_seconds(it.present),
        of_seconds(it.missed),
        of_seconds(it.lost),
        format!("{:.0}", ratio(it.delivery_bytes, it.seconds_alive)),
    ]
}

#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn ratio(one: u64, other: u64) -> f64 {
    one as f64 / other.max(1) as f64
}
