//! `AuthorityRule`: which origins may request a resource.

use std::collections::hash_map::Entry;

use super::fields::Fields;
use super::{NOTHING, Reading, Target};
use crate::rule::Traffic;
use crate::text::is_one_line;

pub(super) fn read(reading: &mut Reading<'_>, fields: &Fields<'_>) {
    let Some((resource, _)) = fields.resource("authority") else { return };
    let text = fields.filled("resource").unwrap_or_default();
    let name = format!("authority {text}");
    match reading.authority_lines.entry(text) {
        Entry::Occupied(first) => {
            let line = first.get();
            let wrong =
                format!("the rule of line {line} has this resource, and Sentinel keeps the first");
            fields.report("resource", wrong, "one rule for each resource");
        }
        Entry::Vacant(none) => {
            none.insert(fields.line());
        }
    }
    let origins = fields.filled("limitApp").unwrap_or_default();
    let origins: Vec<Box<str>> = origins.split(',').map(Box::from).collect();
    for origin in &origins {
        if origin.is_empty() || origin.trim() != &**origin || !is_one_line(origin) {
            let right = "origins with commas in between, such as \"shop,crawler\"";
            fields.report("limitApp", format!("{origin:?} is no origin"), right);
        }
    }
    let mut target = Target::new(Traffic::Either, resource);
    let listed = reading.sentinel.is_origin(origins);
    match fields.whole("strategy", 0, "0 or 1") {
        // A request without an origin passes both.
        0 => {
            target.only.push(reading.sentinel.has_origin());
            target.except.push(listed);
        }
        1 => target.only.push(listed),
        _ => return fields.report_not_kept("strategy", "there is no such strategy", "0 or 1"),
    }
    reading.add(fields, "limitApp", &name, target, NOTHING);
}
