//! `SystemRule`: limits of all inbound requests together.

use std::time::Duration;

use super::fields::{self, Fields};
use super::{Reading, Target, percent};
use crate::limit::Limit;
use crate::overload::Overload;
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
    if let Some(time) = limit("avgRt") {
        let time = Duration::try_from_secs_f64(time / 1e3).unwrap_or(Duration::MAX);
        let limit = Limit::Refuse(Overload::ResponseTime(time));
        reading.add(fields, "avgRt", "system avgRt", target(), limit);
    }
    if let Some(usage) = limit("highestCpuUsage") {
        if usage > 1.0 {
            fields.report("highestCpuUsage", format!("{usage} is no share"), "0 to 1");
        }
        let limit = Limit::Refuse(Overload::Cpu(percent(usage)));
        reading.add(fields, "highestCpuUsage", "system highestCpuUsage", target(), limit);
    }
    if limit("highestSystemLoad").is_some() {
        let reason = "it limits the requests in flight by an estimate of what the service can do";
        let right = "-1, and a rule with `in_flight = \"adaptive\"` for \"*\"";
        fields.report_not_kept("highestSystemLoad", reason, right);
    }
}
