//! Durations of configurations, as people write them: `500ms`, `1m 30s`. For `#[serde(with = …)]`.

use std::fmt;
use std::time::Duration;

use humantime::{DurationError, format_duration, parse_duration};
use serde::Serializer;
use serde::de::{self, Deserializer, Visitor};

pub(crate) fn serialize<S: Serializer>(span: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&format_duration(*span))
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    from.deserialize_str(DurationVisitor)
}

struct DurationVisitor;

impl Visitor<'_> for DurationVisitor {
    type Value = Duration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration as a string, such as \"500ms\" or \"1m 30s\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Duration, E> {
        parse(text).map_err(|error| {
            E::custom(format_args!(
                "{text:?} is no duration such as \"500ms\" or \"1m 30s\": {error}"
            ))
        })
    }
}

/// Adds up the parts of a duration, such as `1m` and `30s`.
///
/// Each part is parsed alone: of several parts whose sum is too long, `parse_duration` panics in
/// some cases (humantime 2.4).
fn parse(text: &str) -> Result<Duration, DurationError> {
    let mut sum = Duration::ZERO;
    let mut rest = text;
    loop {
        let (part, later) = rest.split_at(end_of_first_part(rest));
        let span = parse_duration(part)?;
        // `parse_duration` accepts a zero without a unit.
        if !part.contains(char::is_alphabetic) {
            let (unit, end) = (String::new(), part.len());
            return Err(DurationError::UnknownUnit { start: 0, end, unit, value: 0 });
        }
        sum = sum.checked_add(span).ok_or(DurationError::NumberOverflow)?;
        if later.is_empty() {
            return Ok(sum);
        }
        rest = later;
    }
}

/// Returns the position of the first digit after a unit.
fn end_of_first_part(text: &str) -> usize {
    let unit = text.find(char::is_alphabetic).unwrap_or(text.len());
    text[unit..].find(|it: char| it.is_ascii_digit()).map_or(text.len(), |digit| unit + digit)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_duration_is_read_back_exactly(secs: u64, nanos in 0..1_000_000_000_u32, shift in 0..64_u32) {
            for span in [Duration::new(secs >> shift, nanos), Duration::from_nanos(secs >> shift)] {
                prop_assert_eq!(parse(&format_duration(span).to_string()), Ok(span));
            }
        }
    }

    #[test]
    fn common_forms_are_read() {
        for (text, millis) in [
            ("500ms", 500),
            ("1m 30s", 90_000),
            ("1m30s", 90_000),
            ("1 min 30 sec", 90_000),
            ("1.5s", 1_500),
            (" 2h ", 7_200_000),
            ("250000µs", 250),
            ("0s", 0),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        let longest = format_duration(Duration::MAX).to_string();
        assert_eq!(parse(&longest), Ok(Duration::MAX));
    }

    #[test]
    fn duration_above_the_longest_is_refused() {
        let twice_ten_to_the_19 = "10000000000000000000s 10000000000000000000s";
        for text in [twice_ten_to_the_19, "99999999999999999999h"] {
            assert_eq!(parse(text), Err(DurationError::NumberOverflow), "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "", " ", "10", "s", "-1s", "+1s", "1,5s", "1s 2", "1s -2s", "1.s", "0.1ns", "1 parsec",
            "1s;", "0", "00", "1s 0", "1s0",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
