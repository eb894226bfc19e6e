//! The limiter of a rule.

use toml::de::DeValue;

use super::fields::{Fields, Value};
use super::fleet;
use crate::limit::{Breaker, Counted, Failures, Limit, Percent};
use crate::limiter;
use crate::overload::Overload;
use crate::problem::Fault;
use crate::quantity::{self, Per, QuantityError, Time, number};

/// The keys of which each rule has one.
const LIMITERS: &[&str] = &["limit", "pace", "in_flight", "breaker", "refuse"];

/// The keys of an adaptive limit of the requests in flight.
pub(super) const IN_FLIGHT_KEYS: &[&str] = &["min", "first", "max"];

/// The keys of a circuit breaker.
pub(super) const CIRCUIT: &[&str] =
    &["failures", "slow", "within", "buckets", "last_calls", "wait", "probes"];

/// The keys of an adaptive breaker.
pub(super) const ADAPTIVE: &[&str] = &["k", "min_requests"];

const RATE: &str = "a rate such as \"1000 per second\" or \"5 per 10s\"";
const LIMIT: &str =
    "a rate such as \"1000 per second\", \"5 per 10s\" or \"50 per minute, bursts of 10\"";
const TIME: &str = "a time such as \"500ms\", \"30s\" or \"1m 30s\"";
const IN_FLIGHT: &str =
    "a number, \"adaptive\", or a table such as { min = 1, first = 20, max = 10000 }";
const BREAKER: &str =
    "\"adaptive\", or a table such as { failures = \"50 % of 20\", wait = \"5s\" }";

/// Reads the limiter of a rule. `None` if it has none, or a wrong one, which is then reported.
pub(super) fn read(fields: &Fields<'_>) -> Option<Limit> {
    let mut found = LIMITERS.iter().copied().filter(|key| fields.has(key));
    let Some(key) = found.next() else {
        fields.report_missing("a limiter", LIMITERS);
        return None;
    };
    for second in found {
        fields.report(second, fields.line_of(second), Fault::Beside { other: key });
    }
    for (needy, other) in [
        ("over", "limit"),
        ("away", "over"),
        ("buckets", "limit"),
        ("starts", "limit"),
        ("warm_up", "limit"),
        ("cold_factor", "warm_up"),
        ("max_wait", "pace"),
    ] {
        if fields.has(needy) && !fields.has(other) {
            fields.report(needy, fields.line_of(needy), Fault::Needs { other });
        }
    }
    let limit = match key {
        "limit" => limit(fields),
        "pace" => pace(fields),
        "in_flight" => in_flight(fields),
        "refuse" => refuse(fields),
        _ => breaker(fields),
    }?;
    if let Err(error) = limiter::check(&limit) {
        fields.report(key, fields.line_of(key), Fault::Limiter { error });
    }
    Some(limit)
}

fn limit(fields: &Fields<'_>) -> Option<Limit> {
    let rate = fields.parsed("limit", LIMIT, |text| match text.split_once(',') {
        // A comma may also be in a number, which the rate then tells.
        Some((rate, burst)) if burst.trim_start().starts_with("burst") => {
            let size =
                ["bursts of ", "burst of "].iter().find_map(|it| burst.trim().strip_prefix(it));
            let size = size.ok_or_else(|| QuantityError::new(burst, "size of bursts"))?;
            Ok((rate.parse()?, Some(number(size)?)))
        }
        _ => text.parse().map(|rate| (rate, None)),
    });
    let is_over_fleet = fleet::is_over_fleet(fields);
    let buckets = buckets(fields);
    let period = fields.parsed("warm_up", TIME, time);
    let cold_factor = fields.float("cold_factor", "a number above 1, such as 3");
    let starts_empty = fields.parsed("starts", "\"empty\" or \"full\"", |text| match text {
        "empty" => Ok(true),
        "full" => Ok(false),
        other => Err(format!("{other:?} has no meaning")),
    });
    let (rate, burst): (Per, _) = rate?;
    if starts_empty.is_some() && burst.is_none() {
        fields.report("starts", fields.line_of("starts"), Fault::Needs { other: "bursts of" });
    }
    if starts_empty == Some(true) && fields.has("key") {
        // An idle key is forgotten once its bucket is full, so a new one has a full bucket.
        fields.report("starts", fields.line_of("starts"), Fault::Beside { other: "key" });
    }
    if let Some(burst) = burst {
        let besides = ["buckets", "warm_up"].into_iter().filter(|key| fields.has(key));
        for key in besides {
            fields.report(key, fields.line_of(key), Fault::Beside { other: "bursts of" });
        }
        if is_over_fleet {
            fleet::refuse(fields, "limit", "a limit with bursts is of one process");
        }
        return Some(Limit::Bucket { rate, burst, starts_empty: starts_empty.unwrap_or(false) });
    }
    if is_over_fleet {
        return fleet::read(fields, rate, buckets);
    }
    let Some(period) = period else { return Some(Limit::Window { rate, buckets }) };
    Some(Limit::WarmUp {
        rate,
        buckets: buckets.unwrap_or(Limit::BUCKETS),
        period,
        cold_factor: cold_factor.unwrap_or(Limit::COLD_FACTOR),
    })
}

fn refuse(fields: &Fields<'_>) -> Option<Limit> {
    if fields.has("key") {
        fields.report("key", fields.line_of("key"), Fault::Beside { other: "refuse" });
    }
    fields.parsed("refuse", Overload::RIGHT, str::parse).map(Limit::Refuse)
}

fn buckets(fields: &Fields<'_>) -> Option<usize> {
    let buckets = fields.whole("buckets", "a number of buckets such as 2");
    // A number that does not fit is too many in any case.
    buckets.map(|it| usize::try_from(it).unwrap_or(usize::MAX))
}

fn pace(fields: &Fields<'_>) -> Option<Limit> {
    if !fields.has("max_wait") {
        fields.report_missing("the longest time for which a request waits", &["max_wait"]);
    }
    let rate = fields.parsed("pace", RATE, str::parse);
    let max_wait = fields.parsed("max_wait", TIME, time);
    Some(Limit::Pace { rate: rate?, max_wait: max_wait? })
}

fn in_flight(fields: &Fields<'_>) -> Option<Limit> {
    let (min, first, max) = (1, 20, 10_000);
    let value = fields.get("in_flight")?;
    match value.found {
        DeValue::Integer(_) => {
            fields.whole("in_flight", IN_FLIGHT).map(|limit| Limit::InFlight { limit })
        }
        DeValue::String(text) if text == "adaptive" => {
            Some(Limit::AdaptiveInFlight { min, first, max })
        }
        DeValue::Table(_) => {
            let table = fields.table(&value, "in_flight.", IN_FLIGHT_KEYS)?;
            table.report_unknown();
            let number = |key, default| {
                let given = || table.whole(key, "a number of requests");
                if table.has(key) { given() } else { Some(default) }
            };
            let (max, min) = (number("max", max), number("min", min));
            // A default that is out of the range is moved into it.
            let first = number("first", first.min(max?).max(min?));
            Some(Limit::AdaptiveInFlight { min: min?, first: first?, max: max? })
        }
        _ => wrong(fields, &value, IN_FLIGHT),
    }
}

/// Reports a value that is neither of the types that it can have, nor the text that it can be.
pub(super) fn wrong<T>(fields: &Fields<'_>, value: &Value<'_>, right: &'static str) -> Option<T> {
    match value.found {
        DeValue::String(text) => {
            fields.report_value(value.key, format!("{text:?} has no meaning"), right);
        }
        _ => fields.report_type(value, right),
    }
    None
}

fn breaker(fields: &Fields<'_>) -> Option<Limit> {
    let value = fields.get("breaker")?;
    let (k, min_requests) = (1.5, 5);
    match value.found {
        DeValue::String(text) if text == "adaptive" => {
            Some(Limit::AdaptiveBreaker { k, min_requests })
        }
        DeValue::Table(table) if ADAPTIVE.iter().any(|key| table.contains_key(*key)) => {
            let table = fields.table(&value, "breaker.", ADAPTIVE)?;
            table.report_unknown();
            Some(Limit::AdaptiveBreaker {
                k: table.float("k", "a number of at least 1, such as 1.5").unwrap_or(k),
                min_requests: table
                    .whole("min_requests", "a number of requests, such as 5")
                    .unwrap_or(min_requests),
            })
        }
        DeValue::Table(_) => {
            let table = fields.table(&value, "breaker.", CIRCUIT)?;
            table.report_unknown();
            Some(Limit::Breaker(circuit(&table)))
        }
        _ => wrong(fields, &value, BREAKER),
    }
}

fn circuit(table: &Fields<'_>) -> Breaker {
    let default = Breaker::default();
    if !table.has("failures") && !table.has("slow") {
        table.report_missing("what opens it", &["failures", "slow"]);
    }
    let (failures, of) = failures(table).unzip();
    let slow = table.parsed("slow", "a share such as \"80 % of 20 above 2s\"", |text| {
        let (share, above) = text.rsplit_once(" above ").ok_or_else(|| no_share(text))?;
        let (share, of) = share_of(share)?;
        Ok::<_, QuantityError>((share, of, time(above)?))
    });
    let of = of.flatten();
    if let Some((.., slow_of, _)) = slow
        && of.is_some_and(|of| of != slow_of)
    {
        table.report_value(
            "slow",
            format!("counts from {slow_of} calls on, and `failures` from {} on", of.unwrap_or(0)),
            "the same number of calls in both",
        );
    }
    if table.has("within") && table.has("last_calls") {
        let line = table.line_of("last_calls");
        table.report("last_calls", line, Fault::Beside { other: "within" });
    }
    if table.has("buckets") && !table.has("within") {
        table.report("buckets", table.line_of("buckets"), Fault::Needs { other: "within" });
    }
    let buckets = buckets(table).unwrap_or(Limit::BUCKETS);
    let within = table.parsed("within", TIME, time).map(|it| Counted::within(it, buckets));
    let last = table.whole("last_calls", "a number of calls such as 100");
    let last = last.map(|calls| Counted::Last(u32::try_from(calls).unwrap_or(u32::MAX)));
    let wait = table.parsed(
        "wait",
        "a time such as \"5s\", or one that grows, such as \"1s, doubling up to 1m\"",
        |text| match text.split_once(',') {
            None => Ok((time(text)?, None)),
            Some((first, max)) => match max.trim().strip_prefix("doubling up to ") {
                Some(max) => Ok((time(first)?, Some(time(max)?))),
                None => Err(QuantityError::new(max, "growth")),
            },
        },
    );
    let probes = table.whole("probes", "a number of requests from 1 to 255");
    let (wait, max_wait) = wait.unwrap_or((default.wait, None));
    Breaker {
        failures,
        slow: slow.map(|(share, _, above)| (share, above)),
        min_calls: of.or(slow.map(|(_, of, _)| of)).unwrap_or(default.min_calls),
        counted: within.or(last).unwrap_or(default.counted),
        wait,
        max_wait,
        probes: probes.map_or(default.probes, |it| u16::try_from(it).unwrap_or(u16::MAX)),
    }
}

/// Reads the failures that open a breaker, and the number of calls from which their share counts.
fn failures(table: &Fields<'_>) -> Option<(Failures, Option<u64>)> {
    let right = "a share such as \"50 % of 20\", a number, or \"5 in a row\"";
    if let DeValue::Integer(_) = table.get("failures")?.found {
        let number = table.whole("failures", right)?;
        if number == 0 {
            table.report_value("failures", "0 is out of range".to_owned(), right);
        }
        return Some((Failures::Number(number), None));
    }
    table.parsed("failures", right, |text| {
        if let Some(row) = text.trim().strip_suffix(" in a row") {
            let row = number(row).ok().filter(|it| *it > 0);
            let row = row.ok_or_else(|| QuantityError::new(text, "number of failures"))?;
            return Ok((Failures::InRow(row), None));
        }
        let (share, of) = share_of(text)?;
        Ok::<_, QuantityError>((Failures::Share(share), Some(of)))
    })
}

/// Reads a share, and the number of calls from which it counts.
fn share_of(text: &str) -> Result<(Percent, u64), QuantityError> {
    let (share, of) = text.split_once(" of ").ok_or_else(|| no_share(text))?;
    let (share, kind): (_, fn(f64) -> Percent) = match share.trim().strip_prefix("above ") {
        Some(share) => (share, Percent::Above),
        None => (share, Percent::AtLeast),
    };
    let quantity::Percent(share) = share.parse()?;
    Ok((kind(share), number(of)?))
}

fn no_share(text: &str) -> QuantityError {
    QuantityError::new(text, "share of calls")
}

fn time(text: &str) -> Result<std::time::Duration, QuantityError> {
    text.parse().map(|Time(time)| time)
}
