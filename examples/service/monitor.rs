//! The monitor: once a second a table of what the windows show.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::time::Duration;

use leaparray::{Clock, MetricEvent, Timestamp};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::metrics::{Metrics, RouteMetrics};
use crate::route::Route;

const PERIOD: Duration = Duration::from_secs(1);

const HEADING: &str = concat!(
    "                                                -------- response time ------   in flight\n",
    "route      pass/s block/s exception/s success/s      mean       min       max   now   max\n",
);

/// Prints a table every second, until printing fails.
pub(crate) async fn print_tables(metrics: &Metrics) -> io::Error {
    let start = metrics.clock.now();
    let mut ticks = interval_at(Instant::now() + PERIOD, PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        // One `now` for the whole table: every row shows the same second.
        let now = metrics.clock.now();
        let table = table(metrics, now, now.saturating_since(start));
        if let Err(error) = io::stdout().write_all(table.as_bytes()) {
            return error;
        }
    }
}

fn table(metrics: &Metrics, now: Timestamp, since_start: Duration) -> String {
    let mut table = format!("\nlast second, after {since_start:.1?}\n{HEADING}");
    for route in Route::ALL {
        write_row(&mut table, route, metrics.of(route), now);
    }
    table
}

fn write_row(table: &mut String, route: Route, metrics: &RouteMetrics, now: Timestamp) {
    let window = &metrics.window;
    let [pass, block, exception, success] =
        [MetricEvent::Pass, MetricEvent::Block, MetricEvent::Exception, MetricEvent::Success]
            .map(|event| window.qps_at(now, event));
    let [mean, min, max] = [window.avg_rt_at(now), window.min_rt_at(now), window.max_rt_at(now)]
        .map(|rt| or_dash(rt.map(|rt| format!("{rt:.2?}"))));
    let in_flight = metrics.in_flight();
    let max_in_flight = or_dash(window.max_concurrency_at(now));
    let _ = writeln!(
        table,
        "{route:9} {pass:>7.0} {block:>7.0} {exception:>11.0} {success:>9.0} \
         {mean:>9} {min:>9} {max:>9} {in_flight:>5} {max_in_flight:>5}"
    );
}

fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}
