//! Times as text: seconds with up to nine decimals.

use std::fmt;

const NANOS_PER_SEC: u128 = 1_000_000_000;
const MAX_DECIMALS: usize = 9;

/// A number of nanoseconds, formatted as seconds with nine decimals: `1540629334.619000000`.
pub(super) struct DecimalSeconds(pub(super) u128);

impl fmt::Display for DecimalSeconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}", self.0 / NANOS_PER_SEC, self.0 % NANOS_PER_SEC)
    }
}

/// The reason for which a text is not a number of seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Malformed {
    /// Not digits, or digits, a point and digits.
    NotSeconds,
    TooManyDecimals,
    /// Above `u128::MAX` nanoseconds.
    TooLarge,
}

/// Returns the nanoseconds of seconds with at most nine decimals, exactly.
pub(super) fn parse(text: &str) -> Result<u128, Malformed> {
    let (secs, decimals) = match text.split_once('.') {
        Some((secs, decimals)) => (secs, Some(decimals)),
        None => (text, None),
    };
    // `u128::from_str` would also accept a sign.
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    if !is_digits(secs) || !decimals.is_none_or(is_digits) {
        return Err(Malformed::NotSeconds);
    }
    let decimals = decimals.unwrap_or_default();
    if decimals.len() > MAX_DECIMALS {
        return Err(Malformed::TooManyDecimals);
    }
    let digit = |nanos: u128, byte: u8| nanos.checked_mul(10)?.checked_add((byte - b'0').into());
    let padding = std::iter::repeat_n(b'0', MAX_DECIMALS - decimals.len());
    let mut digits = secs.bytes().chain(decimals.bytes()).chain(padding);
    digits.try_fold(0, digit).ok_or(Malformed::TooLarge)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_any_number_is_read_back() {
        for nanos in [0, 1, 999_999_999, 1_000_000_000, u64::MAX.into(), u128::MAX] {
            assert_eq!(parse(&DecimalSeconds(nanos).to_string()), Ok(nanos));
        }
    }

    #[test]
    fn number_above_the_largest_is_refused() {
        let largest = DecimalSeconds(u128::MAX).to_string();
        assert_eq!(largest, "340282366920938463463374607431.768211455");
        for text in ["340282366920938463463374607431.768211456", &"9".repeat(40)] {
            assert_eq!(parse(text), Err(Malformed::TooLarge), "{text}");
        }
    }
}
