//! The headers about limits: `Retry-After`, and the fields of the IETF's draft
//! `draft-ietf-httpapi-ratelimit-headers-11`, as structured fields (RFC 9651).
//!
//! The working group discusses other names. All names are here.

use std::borrow::Cow;
use std::fmt::Write;
use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderName, HeaderValue};
use leaparray::Timestamp;
use leaparray::flow::{Quota, QuotaUnit};

/// The field with an item for each limit, and what the limit is.
const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
/// The field with an item for each limit, and what remains of it.
const STATE: HeaderName = HeaderName::from_static("ratelimit");

/// The parameter of the limit, in [`POLICY`].
const LIMIT: &str = "q";
/// The parameter of the limit's unit, in [`POLICY`]. Without it, requests are counted.
const UNIT: &str = "qu";
/// The parameter of the window in seconds, in [`POLICY`].
const WINDOW: &str = "w";
/// The parameter of the permits that remain, in [`STATE`].
const REMAINING: &str = "r";
/// The parameter of the effective window in seconds, in [`STATE`].
const EFFECTIVE_WINDOW: &str = "t";

/// The unit of limits of the requests in flight.
const CONCURRENT_REQUESTS: &str = "concurrent-requests";
/// A unit of the service. The draft registers none for it.
const COST: &str = "cost";
/// The name of a limit that was given none.
const DEFAULT_NAME: &str = "default";

/// The greatest integer of a structured field (RFC 9651, section 3.3.1).
const GREATEST: u64 = 999_999_999_999_999;

/// Adds `Retry-After`, unless the present one is later.
pub(super) fn add_retry_after(headers: &mut HeaderMap, retry_after: Option<Duration>) {
    if let Some(after) = retry_after.map(|after| after.as_secs())
        && is_later(after, headers.get(RETRY_AFTER))
    {
        headers.insert(RETRY_AFTER, after.into());
    }
}

/// Adds the state at `now` of the limits to the present headers.
pub(crate) fn add_quotas(
    headers: &mut HeaderMap,
    quotas: &[Quota],
    now: Timestamp,
    retry_after: Option<Duration>,
) {
    if quotas.is_empty() {
        return;
    }
    let (mut policies, mut states) = (String::with_capacity(64), String::with_capacity(64));
    for (index, quota) in quotas.iter().enumerate() {
        for field in [&mut policies, &mut states] {
            if index > 0 {
                field.push_str(", ");
            }
            write_string(field, &item_name(quotas, index));
        }
        write_policy(&mut policies, quota);
        write_state(&mut states, quota, effective_window(quota, now, retry_after));
    }
    // Beside those of another layer: a list may be split over several fields (RFC 9651, section
    // 3.1).
    headers.append(POLICY, value(policies));
    headers.append(STATE, value(states));
}

/// Returns whether a delay in seconds is later than the one that a response has, if it has one. A
/// date is kept.
fn is_later(after: u64, present: Option<&HeaderValue>) -> bool {
    let Some(present) = present else { return true };
    let seconds = present.to_str().ok().and_then(|seconds| seconds.parse::<u64>().ok());
    seconds.is_some_and(|seconds| seconds < after)
}

/// Returns the name of the item of a quota, a string (RFC 9651, section 3.3.3). If an earlier quota
/// has the same name, a number is appended that no other item has.
pub(super) fn item_name(quotas: &[Quota], index: usize) -> Cow<'static, str> {
    let name = name_of(&quotas[index]);
    match quotas[..index].iter().filter(|quota| name_of(quota) == name).count() {
        0 => name,
        before => format!("{name}-{}", free_number(quotas, &name, before)).into(),
    }
}

/// Returns the number of the item of a quota that comes after `before` others with its name: it
/// leaves out the numbers with which the name is the one of another quota.
#[cold]
fn free_number(quotas: &[Quota], name: &str, before: usize) -> usize {
    let is_free = |number: &usize| {
        let numbered = format!("{name}-{number}");
        quotas.iter().all(|quota| name_of(quota) != numbered)
    };
    (2..).filter(is_free).nth(before - 1).expect("there are fewer quotas than numbers")
}

/// Returns the name of a quota, in which `_` stands for all that is not printable ASCII.
fn name_of(quota: &Quota) -> Cow<'static, str> {
    let name = quota.name.unwrap_or(DEFAULT_NAME);
    let is_printable = |character| matches!(character, ' '..='~');
    if name.chars().all(is_printable) {
        return name.into();
    }
    let printable = |character| if is_printable(character) { character } else { '_' };
    name.chars().map(printable).collect::<String>().into()
}

/// Writes a string.
fn write_string(field: &mut String, text: &str) {
    field.push('"');
    for character in text.chars() {
        if matches!(character, '"' | '\\') {
            field.push('\\');
        }
        field.push(character);
    }
    field.push('"');
}

fn write_policy(field: &mut String, quota: &Quota) {
    write_integer(field, LIMIT, quota.limit);
    let unit = match quota.unit {
        QuotaUnit::InFlight => Some(CONCURRENT_REQUESTS),
        QuotaUnit::Cost => Some(COST),
        _ => None,
    };
    if let Some(unit) = unit {
        write(field, format_args!(";{UNIT}=\"{unit}\""));
    }
    // A window has at least one second in this field. A shorter one cannot be said.
    if let Some(window) = quota.window.filter(|window| window.as_secs() > 0) {
        write_integer(field, WINDOW, seconds(window));
    }
}

fn write_state(field: &mut String, quota: &Quota, effective_window: Option<Duration>) {
    write_integer(field, REMAINING, quota.remaining);
    if let Some(window) = effective_window {
        write_integer(field, EFFECTIVE_WINDOW, seconds(window));
    }
}

/// Returns the time in which a client gets no more than the permits that remain; `None` if it is
/// not known. It does not end after `Retry-After`: a client that waits until then has waited for
/// each limit.
fn effective_window(
    quota: &Quota,
    now: Timestamp,
    retry_after: Option<Duration>,
) -> Option<Duration> {
    match (quota.reset_after(now), retry_after) {
        // The whole limit remains.
        (Some(Duration::ZERO), _) => None,
        (Some(reset), Some(retry)) => Some(reset.min(retry)),
        (Some(reset), None) => Some(reset),
        // The permits come back at a time that only the refusal knows.
        (None, retry) => {
            retry.filter(|_| quota.remaining == 0 && quota.unit != QuotaUnit::InFlight)
        }
    }
}

/// Returns a time in seconds, rounded up.
fn seconds(time: Duration) -> u64 {
    time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0))
}

fn write_integer(field: &mut String, parameter: &str, integer: u64) {
    field.push(';');
    field.push_str(parameter);
    write(field, format_args!("={}", integer.min(GREATEST)));
}

fn write(field: &mut String, text: std::fmt::Arguments<'_>) {
    field.write_fmt(text).expect("a string takes all text");
}

fn value(field: String) -> HeaderValue {
    HeaderValue::try_from(field).expect("printable ASCII")
}
