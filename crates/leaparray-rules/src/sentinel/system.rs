//! `SystemRule`: limits of all inbound requests together.

use std::time::Duration;

use super::fields::{self, Fields};
use super::{Reading, Target};
use crate::limit::Limit;
use crate::pattern::Pattern;
use crate::quantity::Per;
use crate::rule::Traffic;

pub(super) fn read(reading: &mut Reading<'_>, fields: &Fields<'_>) {
    fields.name("system");
    let target = || Target::new(Traffic::Inbound, Pattern::new("*"));
    // A negative number, such as -1, is none.
    let limit = |field| Some(fields.number(field, -1.0)).filter(|it| *it >= 0.0);
    if let Some(qps) = limit("qps") {
        let rate = Per { count: fields::floor(qps), interval: Duration::from_secs(1) };
        let limit = Limit::Window { rate, buckets: Some(2) };
        reading.add(fields, "qps", "system qps", target(), limit);
    }
    if let Some(threads) = limit("maxThread") {
        let limit = Limit::InFlight { limit: fields::floor(threads) };
        reading.add(fields, "maxThread", "system maxThread", target(), limit);
    }
    for field in ["avgRt", "highestSystemLoad", "highestCpuUsage"] {
        if limit(field).is_some() {
            let reason = "no rule has such a limit";
            fields.report_not_kept(
                field,
                reason,
                "-1, and an `in_flight = \"adaptive\"` for \"*\"",
            );
        }
    }
}
