//! `ParamFlowRule`: a limit for each value of a parameter.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

use serde_json::Value;

use super::fields::{self, Fields};
use super::{NOTHING, Reading, Target};
use crate::condition::{Condition, Values};
use crate::limit::Limit;
use crate::quantity::Per;
use crate::rule::Traffic;
use crate::text::is_one_line;

pub(super) fn read(reading: &mut Reading<'_>, fields: &Fields<'_>) {
    let Some((resource, is_pattern)) = fields.resource("paramFlow") else { return };
    let name = format!("paramFlow {}", fields.filled("resource").unwrap_or_default());
    if is_pattern {
        let reason = "a rule has one key, and that of a pattern is the resource";
        fields.report_not_kept("regex", reason, "false, and a rule for each name");
    }
    fields.refuse_cluster();
    let index = fields.number("paramIdx", f64::NAN);
    if index.is_nan() {
        return fields.report("paramIdx", "is absent", "the index of a parameter, from 0 on");
    }
    if index < 0.0 || index.fract() != 0.0 || index > 255.0 {
        let reason = "parameters have indices from the first one on";
        return fields.report_not_kept("paramIdx", reason, "an index from 0 on");
    }
    let index = usize::try_from(fields::floor(index)).unwrap_or_default();
    let source = reading.sentinel.parameter(index);
    let name = format!("{name} by parameter {index}");
    let items = items(fields);
    let mut target = Target::new(Traffic::Either, resource);
    let count = fields::floor(fields.limit());
    let limit = limit_of(fields, count);
    target.key = Some(source.clone());
    // A request without the parameter passes.
    target.only.push(Condition::new(source.clone(), Values::Any));
    if !items.is_empty() {
        let values = items.iter().map(|(value, _)| value.clone()).collect();
        target.except.push(Condition::new(source.clone(), values));
    }
    let resource = target.resource.clone();
    reading.add(fields, "count", &name, target, limit);
    for (value, count) in items {
        let mut target = Target::new(Traffic::Either, resource.clone());
        let name = format!("{name} = {value}");
        target.only.push(Condition::new(source.clone(), [value].into_iter().collect()));
        reading.add(fields, "paramFlowItemList", &name, target, limit_of(fields, count));
    }
}

/// Returns the limit of a value.
fn limit_of(fields: &Fields<'_>, count: u64) -> Limit {
    let grade = fields.whole("grade", 1, "0 or 1");
    if grade == 0 {
        return Limit::InFlight { limit: count };
    }
    if grade != 1 {
        fields.report_not_kept("grade", "there is no such grade", "0 or 1");
    }
    let interval = fields.positive("durationInSec", 1, "a number of seconds from 1 on");
    let rate = Per { count, interval: Duration::from_secs(interval.into()) };
    if count == 0 {
        return NOTHING;
    }
    match fields.whole("controlBehavior", 0, "0 or 2") {
        0 => {
            let burst = fields.whole("burstCount", 0, "a number of requests");
            Limit::Bucket { rate, burst: count.saturating_add(burst.into()), starts_empty: false }
        }
        2 => {
            let wait = fields.whole("maxQueueingTimeMs", 0, "a number of milliseconds");
            Limit::Pace { rate, max_wait: Duration::from_millis(wait.into()) }
        }
        _ => {
            let reason = "the limit of a parameter does not warm up";
            fields.report_not_kept("controlBehavior", reason, "0 or 2");
            NOTHING
        }
    }
}

/// Returns the values that have a limit of their own, with it.
fn items(fields: &Fields<'_>) -> Vec<(Box<str>, u64)> {
    const LIST: &str = "paramFlowItemList";
    let mut items: Vec<(Box<str>, u64)> = Vec::new();
    let mut places: HashMap<Box<str>, usize> = HashMap::new();
    for (place, item) in fields.objects(LIST).iter().enumerate() {
        let value = match item.get("object") {
            Some(Value::String(text)) => Some(text.clone()),
            Some(other @ (Value::Number(_) | Value::Bool(_))) => Some(other.to_string()),
            _ => None,
        };
        let value = value.filter(|it| !it.is_empty() && is_one_line(it));
        let count = match item.get("count") {
            Some(Value::Number(number)) => number.as_u64(),
            Some(Value::String(text)) => text.trim().parse().ok(),
            _ => None,
        };
        let at = |field: &str| format!("{LIST}[{place}].{field}");
        let shown = |field: &str| item.get(field).unwrap_or(&Value::Null).to_string();
        if value.is_none() {
            let wrong = format!("{} is no value of a parameter", shown("object"));
            fields.report(&at("object"), wrong, "its text, without line breaks");
        }
        if count.is_none() {
            let wrong = format!("{} is no limit", shown("count"));
            fields.report(&at("count"), wrong, "a whole number from 0 on");
        }
        let (Some(value), Some(count)) = (value, count) else { continue };
        let value: Box<str> = value.into();
        // The last one counts, as in the map of Sentinel.
        match places.entry(value.clone()) {
            Entry::Occupied(known) => items[*known.get()].1 = count,
            Entry::Vacant(none) => {
                none.insert(items.len());
                items.push((value, count));
            }
        }
    }
    items
}
