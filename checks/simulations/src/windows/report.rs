//! The page of the fleet windows.

use super::cases::Case;
use super::{Observed, Results};
use crate::table::{grouped, line, percent};

const HEAD: &str = "\
# One window over a fleet, simulated

<!-- Written by `cargo run --release -p leaparray-simulations`. Do not edit: run it again. -->

Each process of a fleet delivers what it has recorded in each second to a server. Readers add up the seconds of all processes. A simulation by discrete events runs the
`Outbox`, the `Archive` and the `FleetView` of `leaparray-redis` under faults, and compares what readers show with the truth: the counts of each process in each second
are a function of the seed.

**Fleet.** A process records up to 6 resources in each second. It reads a second 50 ms after its end, and delivers it. It gives up a delivery without an answer after 1 s, and
sends again. The settings are the default ones: a second is delivered within 30 s of its end, the grace is 2 s, and a process is lost after 5 s without a delivery. Two readers
poll once a second, one from the start and one from the middle of the run.

**Faults.** The network loses 5 % of the requests of processes and 5 % of the answers. A message takes 5 to 50 ms, and 5 % take up to 400 ms. 5 % of the requests and of the
answers arrive again, up to a minute later. The readers are near the server: their messages take 0.2 to 0.8 ms, 1 % of them take up to 50 ms, and 1 % are lost. In each second, 0.2 %
of the processes crash, 0.2 % are closed, and 0.2 % read nothing for 2 to 20 s. After such a stall, the oldest seconds may have left the window of the registry. Another process
starts up to 3 s after a crash or a close. With clocks 10 s behind and ahead, every fifth process is behind, and one in each 10 or 100 is ahead, far beyond the grace. An
outage of each kind is one of 10 s; one of 2 s, after which a replica is promoted that is 5 s behind; one of 1 s, after which the server is blank; and one of 40 s, longer than
the time to deliver a second. In the row with small outboxes, not all resources of a second have a row, and not all seconds find room while the server is away.

**Checked**, exactly and to the unit:

1. The sums of a second, in total, by process and by resource, are the truth of exactly the processes that are named as present. So no second counts twice.
2. A final or closed second names each process that had it, as present or as missing. A process is named as missing only if the server does not have its second. The exception
   is a process that the server has forgotten with its data, and that has not reached it again.
3. Once a second was final, it stays final. The only change is that a process that was lost comes back to it, before its deadline.
4. In each record, lifetime = delivered + missed + late + waiting + unfinished. *Delivered* is the sum of the seconds that the server has taken, by the truth, and *missed* is
   the sum of the others. After a process has left, nothing is waiting or unfinished.
5. The seconds that wait in a process take no more bytes than allowed.

Checks 1 to 3 run for each second at each poll. With 100 processes or more, they do so until the second is final, and less often after that. The program fails if a check fails
once, or if a second is lost in a run without crashes and outages. The tests break three rules of the protocol, and expect that checks fail: a server that takes
a delivery whatever version it builds on, a reader without the grace, and a process that counts unanswered deliveries as missed.

Two combinations of faults break a check, and are not in the runs. If a process joins just before a replica is promoted that does not know it, a reader that asks the
replica before a delivery has shown the loss may show a second as final without that process. If a process drops a second because its outbox is full, and a delivery
with that second arrives late at a server that has lost its data, the second is on the server, and counted as missed.

**Measured.**

- *Processes*: the number that runs at a time, and in parentheses the number that ran at any time, in all seeds.
- *Final after*: the time from the end of a second, by the server's clock, until a reader showed it as final. It contains the wait for the next poll.
- *Present*: the seconds of processes that the first reader has shown in the end, as a share of all. *Missed*: the seconds that the process has counted as missed. *Lost*: the others.
  The process crashed before it had delivered them, or the server lost them with its data.
- *Returns*: how often a process came back to a second that had been final without it.
- *Forgotten*: how often a process was not named when a second was final for the first time, because the server had lost its data. All of them are seen by the second
  reader.
- *Deliveries* and their bytes are for each second of a process. *Outbox* is the most bytes that waited in a process. *Reads* and their bytes are for each poll.

Regenerate this page with

```sh
cargo run --release -p leaparray-simulations
```

## Results

A run takes 180 s, or 90 s in the second row of 1,000 processes. The seeds are 1 to 5 with 10 processes, 1 and 2 with 100, and 1 with 1,000.

";

const COLUMNS: [&str; 14] = [
    "processes",
    "faults",
    "final after: p50 s",
    "p99 s",
    "max s",
    "present",
    "missed",
    "lost",
    "returns",
    "forgotten",
    "deliveries",
    "bytes",
    "outbox",
    "reads (bytes)",
];

/// Returns the page, with its path.
#[must_use]
pub fn files(results: &Results) -> Vec<(String, String)> {
    let align = COLUMNS.map(|name| if name == "faults" { "---" } else { "---:" });
    let mut text = HEAD.to_owned() + &line(COLUMNS.into_iter()) + &line(align.into_iter());
    let mut rows: Vec<_> = results.0.iter().collect();
    rows.sort_by_key(|(case, _)| case.scenario.processes);
    for (case, observed) in rows {
        text += &line(cells(case, observed).iter().map(String::as_str));
    }
    vec![("FLEET_WINDOWS.md".to_owned(), text)]
}

fn cells(case: &Case, it: &Observed) -> [String; 14] {
    let of_seconds = |count| percent(ratio(count, it.seconds), 2);
    let secs = |quantile| format!("{:.1}", ratio(it.final_after_millis(quantile), 1_000));
    [
        format!("{} ({})", grouped(case.scenario.processes as u64), grouped(it.processes)),
        case.name.to_owned(),
        secs(50),
        secs(99),
        secs(100),
        of_seconds(it.present),
        of_seconds(it.missed),
        of_seconds(it.lost),
        grouped(it.returns),
        grouped(it.forgotten),
        format!("{:.2}", ratio(it.deliveries, it.seconds_alive)),
        format!("{:.0}", ratio(it.delivery_bytes, it.seconds_alive)),
        grouped(it.most_bytes),
        format!("{:.1} ({})", ratio(it.reads, it.polls), grouped(it.read_bytes / it.polls.max(1))),
    ]
}

#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn ratio(one: u64, other: u64) -> f64 {
    one as f64 / other.max(1) as f64
}
