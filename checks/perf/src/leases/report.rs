//! The report of leases, for one processor. The text is in `report.md` and `server.md`.

use super::script::OnServer;
use super::{Measured, decisions, script};
use crate::report::method::{method, versions};
use crate::report::{Run, format_grouped, tables};

/// The crates whose versions the report lists.
const CRATES: &str = "leaparray leaparray-redis quanta redis tokio";

pub(super) fn document(measured: &Measured) -> String {
    let run = &measured.run;
    let costs = |rows: &[_]| tables::costs(&run.results, rows);
    let skipped = || "Skipped: `redis-server` is not installed.\n".to_owned();
    format!(
        include_str!("report.md"),
        processor = run.processor,
        method = method(run),
        given = costs(&decisions::given()),
        clocks = costs(&decisions::clocks()),
        refusals = costs(&decisions::refusals()),
        server = measured.on_server.as_ref().map_or_else(skipped, |it| server(run, it)),
        lost = tables::lost(&run.results),
        versions = versions(run, CRATES),
    )
}

fn server(run: &Run, on_server: &OnServer) -> String {
    let rows = on_server.memory.iter().map(|&(buckets, bytes)| {
        let bytes = bytes.into_iter().chain([bytes.into_iter().sum()]).map(format_grouped);
        format!("{buckets} | {}", bytes.collect::<Vec<_>>().join(" | "))
    });
    format!(
        include_str!("server.md"),
        version = on_server.version,
        script = tables::costs(&run.results, &script::rows()),
        round_trips = tables::costs(&run.results, &script::round_trips()),
        memory = tables::table("buckets | mark | charges | last ask of a node | sum", rows),
    )
}
