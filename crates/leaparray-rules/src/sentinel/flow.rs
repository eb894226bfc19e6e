//! `FlowRule`: a limit of the rate, or of the requests in flight.

use std::collections::HashMap;
use std::time::Duration;

use super::fields::{self, Fields};
use super::{NOTHING, Reading, Target};
use crate::condition::Condition;
use crate::limit::Limit;
use crate::overload::Overload;
use crate::problem::Fault;
use crate::quantity::Per;
use crate::rule::{KeySource, Traffic};

/// The buckets of Sentinel's second.
const BUCKETS: usize = 2;

const DIRECT: u32 = 0;
const THREADS: u32 = 0;

pub(super) fn read(reading: &mut Reading<'_>, fields: &Fields<'_>) {
    let Some((resource, is_pattern)) = fields.resource("flow") else { return };
    let mut name = format!("flow {}", fields.filled("resource").unwrap_or_default());
    let is_over_cluster = fields.is_set("clusterMode");
    #[cfg(not(feature = "fleet"))]
    fields.refuse_cluster();
    let mut target = Target::new(Traffic::Either, resource);
    match fields.label("limitApp").as_deref() {
        None | Some("default") => target.key = is_pattern.then_some(KeySource::Resource),
        Some(app) => {
            if is_pattern {
                let reason = "a rule has one key, and that of a pattern is the resource";
                fields.report_not_kept("limitApp", reason, "\"default\", or a rule for each name");
            }
            name = format!("{name} of {app}");
            if app == "other" {
                target.only.push(reading.sentinel.has_origin());
                let resource = fields.known("resource").unwrap_or_default();
                if let Some(named) = reading.named_origins.get(&resource) {
                    target.except.push(reading.sentinel.is_origin(named.iter().cloned()));
                }
                target.key = Some(reading.sentinel.origin.clone());
            } else {
                target.only.push(reading.sentinel.is_origin([app.into()]));
            }
        }
    }
    if is_over_cluster {
        #[cfg(feature = "fleet")]
        super::cluster::read(reading, fields, &name, target);
        return;
    }
    match fields.whole("strategy", DIRECT, "0, 1 or 2") {
        DIRECT => {}
        1 => return relate(reading, fields, &name, target),
        2 => through_context(fields, &mut name, &mut target),
        _ => fields.report_not_kept("strategy", "there is no such strategy", "0, 1 or 2"),
    }
    let count = fields.limit();
    let limit = match fields.whole("grade", 1, "0 or 1") {
        THREADS => {
            name.push_str(" in flight");
            Limit::InFlight { limit: fields::floor(count) }
        }
        1 => of_rate(fields, count),
        _ => return fields.report_not_kept("grade", "there is no such grade", "0 or 1"),
    };
    reading.add(fields, "count", &name, target, limit);
}

/// Has a rule concern the requests that enter through one context.
fn through_context(fields: &Fields<'_>, name: &mut String, target: &mut Target) {
    if !target.only.is_empty() {
        let reason = "a limit of a context counts the requests of all origins";
        fields.report_not_kept("limitApp", reason, "\"default\"");
    }
    let Some(context) = reference(fields, "the context") else { return };
    *name = format!("{name} in {context}");
    target.only.push(Condition::new(KeySource::Context, [context.into()].into_iter().collect()));
}

/// Returns the name in `refResource`. A rule that lacks it is reported.
fn reference(fields: &Fields<'_>, what: &'static str) -> Option<String> {
    if fields.known("refResource").is_none() {
        fields.report_fault("", Fault::Missing { what, one_of: &["refResource"] });
    }
    fields.label("refResource")
}

/// Reads a rule by which a resource gives way to another one: it refuses requests while the other
/// one is at the limit.
fn relate(reading: &mut Reading<'_>, fields: &Fields<'_>, name: &str, mut target: Target) {
    let Some(resource) = reference(fields, "the related resource") else { return };
    // Of all requests that it concerns, each is compared with the same measure.
    target.key = None;
    let name = format!("{name} beside {resource}");
    let (resource, limit) = (resource.into(), fields::floor(fields.limit()));
    let overload = match fields.whole("grade", 1, "0 or 1") {
        THREADS => Overload::InFlight { resource, limit },
        _ => Overload::Rate { resource, limit },
    };
    if fields.whole("controlBehavior", 0, "0") != 0 {
        let reason = "a limit by another resource refuses at once";
        fields.report_not_kept("controlBehavior", reason, "0");
    }
    reading.add(fields, "count", &name, target, Limit::Refuse(overload));
}

pub(super) fn of_rate(fields: &Fields<'_>, count: f64) -> Limit {
    let second = Duration::from_secs(1);
    let rate = Per { count: fields::floor(count), interval: second };
    match fields.whole("controlBehavior", 0, "0, 1 or 2") {
        0 => Limit::Window { rate, buckets: Some(BUCKETS) },
        1 if rate.count == 0 => NOTHING,
        1 => {
            let period = fields.positive("warmUpPeriodSec", 10, "a number of seconds");
            Limit::WarmUp {
                rate,
                buckets: BUCKETS,
                period: Duration::from_secs(period.into()),
                cold_factor: Limit::COLD_FACTOR,
            }
        }
        2 => {
            let wait = fields.whole("maxQueueingTimeMs", 500, "a number of milliseconds");
            fields::pace(count, second, Duration::from_millis(wait.into()))
        }
        3 => {
            let reason = "requests are not both spaced and warmed up";
            fields.report_not_kept("controlBehavior", reason, "1 or 2");
            NOTHING
        }
        _ => {
            fields.report_not_kept("controlBehavior", "there is no such behaviour", "0, 1 or 2");
            NOTHING
        }
    }
}

/// Returns the origins that rules name, by their resource.
pub(super) fn named_origins(all: &[Fields<'_>]) -> HashMap<String, Vec<Box<str>>> {
    let mut named: HashMap<_, Vec<_>> = HashMap::new();
    for fields in all {
        let app = fields.known("limitApp").filter(|it| !matches!(&**it, "default" | "other"));
        if let (Some(resource), Some(app)) = (fields.known("resource"), app) {
            named.entry(resource).or_default().push(app.into());
        }
    }
    named
}
