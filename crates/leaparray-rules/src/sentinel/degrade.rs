//! `DegradeRule`: a circuit breaker.

use std::time::Duration;

use super::fields::{self, Fields};
use super::{Reading, Target, percent};
use crate::limit::{Breaker, Counted, Failures, Limit, Percent};
use crate::rule::{KeySource, Traffic};

/// The number of calls from which a breaker opens if a rule says none.
const MIN_CALLS: u32 = 5;

pub(super) fn read(reading: &mut Reading<'_>, fields: &Fields<'_>) {
    let Some((resource, is_pattern)) = fields.resource("degrade") else { return };
    let name = format!("degrade {}", fields.filled("resource").unwrap_or_default());
    let count = fields.limit();
    let milliseconds = "a number of milliseconds from 1 on";
    let right = "a number of requests from 1 on";
    let mut min_calls = fields.positive("minRequestAmount", MIN_CALLS, right).into();
    let interval = fields.positive("statIntervalMs", 1_000, milliseconds);
    let wait = fields.positive("timeWindow", 0, "a number of seconds from 1 on");
    let (mut failures, mut slow, mut by) = (None, None, "");
    match fields.whole("grade", 0, "0, 1 or 2") {
        0 => {
            by = " slow";
            let ratio = fields.not_negative("slowRatioThreshold", 1.0);
            if ratio > 1.0 {
                fields.report("slowRatioThreshold", format!("{ratio} is no share"), "0 to 1");
            }
            slow = Some((slow_share(ratio), Duration::from_millis(fields::floor(count.round()))));
        }
        1 => {
            if count >= 1.0 {
                let wrong = format!("{count} is a share that is never exceeded");
                return fields.report("count", wrong, "a share from 0 to below 1");
            }
            failures = Some(Failures::Share(Percent::Above(percent(count))));
        }
        2 => {
            by = " by number";
            let number = fields::floor(count).saturating_add(1);
            // The breaker opens by the number of exceptions, whatever the number of calls. Both are
            // the same if there are as many calls whenever there are as many exceptions. The
            // default is not meant for a rule by number: it opens up to four calls earlier.
            if min_calls > number.max(MIN_CALLS.into()) {
                fields.report_not_kept(
                    "minRequestAmount",
                    "a number of exceptions counts among any number of calls",
                    "at most 5 or `count` + 1, or the grade 1",
                );
            }
            min_calls = Breaker::default().min_calls;
            failures = Some(Failures::Number(number));
        }
        _ => return fields.report_not_kept("grade", "there is no such grade", "0, 1 or 2"),
    }
    let breaker = Breaker {
        failures,
        slow,
        min_calls,
        counted: Counted::within(Duration::from_millis(interval.into()), 1),
        wait: Duration::from_secs(wait.into()),
        max_wait: None,
        probes: 1,
    };
    let mut target = Target::new(Traffic::Either, resource);
    target.key = is_pattern.then_some(KeySource::Resource);
    reading.add(fields, "count", &format!("{name}{by}"), target, Limit::Breaker(breaker));
}

/// Returns the share of slow calls that opens a breaker: more than the ratio, or all calls if it is
/// 1.
fn slow_share(ratio: f64) -> Percent {
    if ratio >= 1.0 { Percent::AtLeast(100.0) } else { Percent::Above(percent(ratio)) }
}
