//! A reading as a table.

use std::fmt::Write as _;

use leaparray::MetricEvent::{Block, Cancelled, Exception, Pass, Success};
use leaparray::registry::WatchedLimiter;

use crate::reading::{Reading, Row};
use crate::state::Text;

const HEADING: &str = concat!(
    "                                                            ------------ response time ------------   in flight\n",
    "route        pass   block   exception   cancelled   success      mean       p50       p99       max   now   max\n",
);

/// The reading as a table: a row for each route, and a row for their total. The requests are sums
/// over the last ten buckets of 100 ms, as the limit of `/limited` is. A rate would be higher,
/// since the last of these buckets is not over.
pub(crate) fn table(reading: &Reading) -> String {
    let mut table =
        format!("\nlast ten buckets of 100 ms, after {:.1?}\n{HEADING}", reading.since_start);
    for row in reading.rows() {
        let max_in_flight = or_dash(row.snapshot.short.totals.max_concurrency());
        write_row(&mut table, row, &max_in_flight);
    }
    // It is not known whether the routes had their maxima at the same time, so the total has no
    // maximum.
    write_row(&mut table, Row::of_total(&reading.total()), "");
    for WatchedLimiter { name, state, .. } in &reading.limiters {
        let _ = writeln!(table, "{name:16} {}", Text(state));
    }
    table
}

fn write_row(table: &mut String, Row { name, snapshot }: Row<'_>, max_in_flight: &str) {
    let totals = &snapshot.short.totals;
    let [pass, block, exception, cancelled, success] =
        [Pass, Block, Exception, Cancelled, Success].map(|event| totals.sum(event));
    let (p50, p99) = snapshot.short.quantiles.map(|it| (it.p50, it.p99)).unzip();
    let [mean, p50, p99, max] = [totals.avg_rt(), p50, p99, totals.max_rt()]
        .map(|rt| or_dash(rt.map(|rt| format!("{rt:.2?}"))));
    let in_flight = snapshot.concurrency;
    let row = format!(
        "{name:9} {pass:>7} {block:>7} {exception:>11} {cancelled:>11} {success:>9} \
         {mean:>9} {p50:>9} {p99:>9} {max:>9} {in_flight:>5} {max_in_flight:>5}"
    );
    let _ = writeln!(table, "{}", row.trim_end());
}

fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}
