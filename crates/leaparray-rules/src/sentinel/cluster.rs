//! A `FlowRule` with `clusterMode`: a limit over the fleet.

use std::time::Duration;

use leaparray_redis::WhenAway;

use super::fields::{self, Fields};
use super::{Reading, Target};
use crate::fleet::FleetLimit;
use crate::limit::Limit;
use crate::quantity::Per;
use crate::rule::KeySource;

/// A limit of all clients together.
const GLOBAL: u32 = 1;

pub(super) fn read(reading: &mut Reading<'_>, fields: &Fields<'_>, name: &str, target: Target) {
    let reason = "a limit over the fleet counts all requests together";
    match target.key {
        None => {}
        Some(KeySource::Resource) => fields.report_not_kept("regex", reason, "a name, without it"),
        Some(_) => fields.report_not_kept("limitApp", reason, "\"default\", or one origin"),
    }
    for (key, only, reason) in [
        ("grade", 1, "requests in flight are counted by each process"),
        ("strategy", 0, "a limit over the fleet counts the requests that it limits"),
        ("controlBehavior", 0, "a limit over the fleet refuses at once"),
    ] {
        if fields.whole(key, only, "0 or 1") != only {
            fields.report_not_kept(key, reason, if only == 0 { "0" } else { "1" });
        }
    }
    let count = fields.limit();
    let Some(config) = fields.nested("clusterConfig", "clusterConfig.") else {
        return fields.report_not_kept("clusterConfig", UNKNOWN, THRESHOLD);
    };
    if config.whole("thresholdType", 0, "0 or 1") != GLOBAL {
        config.report_not_kept("thresholdType", UNKNOWN, "1, and the `count` of all clients");
    }
    if config.whole("strategy", 0, "0") != 0 {
        config.report_not_kept("strategy", "there is no such strategy", "0");
    }
    let buckets = config.positive("sampleCount", 10, "a number of buckets");
    let millis = config.positive("windowIntervalMs", 1_000, "a number of milliseconds");
    // The count is of a second, and is compared with the mean over the window.
    let limit = fields::floor(count * f64::from(millis) / 1_000.0);
    let interval = Duration::from_millis(millis.into());
    let rate = Per { count: limit, interval };
    let buckets = usize::try_from(buckets).unwrap_or(usize::MAX);
    let over_fleet = FleetLimit::new(rate, Some(buckets), WhenAway::Open);
    let target = Target { key: None, ..target };
    reading.add(fields, "count", name, target.clone(), Limit::Fleet(over_fleet));
    let falls_back =
        config.raw("fallbackToLocalWhenFail").is_none() || config.is_set("fallbackToLocalWhenFail");
    if falls_back {
        // A process uses no more than the fleet may, so this one decides while the server is away.
        let local = super::flow::of_rate(fields, count);
        reading.add(fields, "count", &format!("{name} without the fleet"), target, local);
    }
}

const UNKNOWN: &str = "the number of clients is not known, by which `count` is multiplied";
const THRESHOLD: &str = "{\"thresholdType\": 1}, and the `count` of all clients";
