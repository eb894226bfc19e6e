//! Parsing of lines.

use std::ops::RangeInclusive;
use std::str::{FromStr, Split};

use super::{MAX_CONCURRENCY, MAX_COUNT, MetricLine, MetricLineError};
use crate::metric::{MetricEvent, SecondMetrics};
use crate::time::Timestamp;

impl FromStr for MetricLine {
    type Err = MetricLineError;

    /// Parses the fat form, with or without a line break at its end.
    ///
    /// Like Sentinel, it ignores which date it is. The field must be empty or have the form of a
    /// date: a line of the [thin form](Self::from_thin) is refused, since its fields would be read
    /// as other numbers. The last fields, from `occupiedPass` on, may be missing, since older
    /// versions did not write them. They are then 0.
    ///
    /// # Errors
    ///
    /// Returns a [`MetricLineError`] if a field is missing, is not a whole number or a date, or is
    /// out of range, if there are too many fields, or if there is more than one line.
    fn from_str(line: &str) -> Result<Self, MetricLineError> {
        let mut fields = Fields::new(line)?;
        let second = fields.second()?;
        let date = fields.text("date")?;
        if !date.is_empty() && !is_date(date) {
            return Err(MetricLineError::NoDate { text: date.to_owned() });
        }
        fields.resource_and_numbers(second)
    }
}

impl MetricLine {
    /// Parses the thin form, with or without a line break at its end, and with the same fields
    /// optional as in [`FromStr`].
    ///
    /// # Errors
    ///
    /// Returns a [`MetricLineError`] if a field is missing, is not a whole number, or is out of
    /// range, if there are too many fields, or if there is more than one line.
    ///
    /// ```
    /// use leaparray::{MetricEvent, Timestamp};
    /// use leaparray::metric::MetricLine;
    ///
    /// let line = MetricLine::from_thin("60000|/foo/*|5|0|0|0|0|0|0|1")?;
    /// assert_eq!((line.resource(), line.classification()), ("/foo/*", 1));
    /// assert_eq!(line.metrics().second, Timestamp::from_secs(60));
    /// let metrics = line.metrics();
    /// assert_eq!((metrics.counts[MetricEvent::Pass], metrics.avg_rt()), (5, None));
    ///
    /// let error = MetricLine::from_thin("60000|/foo/*|five|0|0|0|0").unwrap_err();
    /// assert!(error.to_string().starts_with(r#"pass is "five""#));
    /// # Ok::<_, leaparray::metric::MetricLineError>(())
    /// ```
    pub fn from_thin(line: &str) -> Result<Self, MetricLineError> {
        let mut fields = Fields::new(line)?;
        let second = fields.second()?;
        fields.resource_and_numbers(second)
    }
}

/// Returns whether a text has the form of a date and a time of day, `2019-07-29 06:36:58`. A year
/// has four digits or more.
fn is_date(text: &str) -> bool {
    const REST: &[u8] = b"-00-00 00:00:00";
    let Some(year) = text.len().checked_sub(REST.len()).filter(|&digits| digits >= 4) else {
        return false;
    };
    let (year, rest) = text.as_bytes().split_at(year);
    let has_form =
        |(&of, &form): (&u8, &u8)| if form == b'0' { of.is_ascii_digit() } else { of == form };
    year.iter().all(u8::is_ascii_digit) && rest.iter().zip(REST).all(has_form)
}

/// The fields that are not parsed yet.
struct Fields<'a>(Split<'a, char>);

impl<'a> Fields<'a> {
    fn new(line: &'a str) -> Result<Self, MetricLineError> {
        let line = line.strip_suffix('\n').unwrap_or(line);
        let line = line.strip_suffix('\r').unwrap_or(line);
        match line.find(['\n', '\r']) {
            Some(position) => Err(MetricLineError::LineBreak { position }),
            None => Ok(Self(line.split('|'))),
        }
    }

    fn second(&mut self) -> Result<Timestamp, MetricLineError> {
        Ok(Timestamp::from_millis(self.count("timestamp", Timestamp::MAX.as_millis())?))
    }

    /// Parses the fields that both forms have after the time.
    fn resource_and_numbers(mut self, second: Timestamp) -> Result<MetricLine, MetricLineError> {
        let resource = self.text("resource")?;
        // In the order of the line.
        let mut metrics = SecondMetrics::new(second);
        metrics.counts[MetricEvent::Pass] = self.count("pass", MAX_COUNT)?;
        metrics.counts[MetricEvent::Block] = self.count("block", MAX_COUNT)?;
        let completed = self.count("success", MAX_COUNT)?;
        metrics.counts[MetricEvent::Exception] = self.count("exception", MAX_COUNT)?;
        let millis = self.count("rt", MAX_COUNT)?;
        metrics.counts[MetricEvent::ReservedPass] = self.later_count("occupiedPass", MAX_COUNT)?;
        metrics.concurrency = self.later_count("concurrency", MAX_CONCURRENCY)?;
        let classification = self.classification()?;
        match self.0.next() {
            Some(text) => Err(MetricLineError::TooMany { text: text.to_owned() }),
            None => {
                Ok(MetricLine::of_fields(resource, classification, completed, millis, &metrics))
            }
        }
    }

    fn text(&mut self, field: &'static str) -> Result<&'a str, MetricLineError> {
        self.0.next().ok_or(MetricLineError::Missing { field })
    }

    fn count(&mut self, field: &'static str, max: u64) -> Result<u64, MetricLineError> {
        count(field, self.text(field)?, max)
    }

    /// Parses a count that older versions did not write.
    fn later_count(&mut self, field: &'static str, max: u64) -> Result<u64, MetricLineError> {
        self.0.next().map_or(Ok(0), |text| count(field, text, max))
    }

    fn classification(&mut self) -> Result<i32, MetricLineError> {
        let Some(text) = self.0.next() else { return Ok(0) };
        let range = i32::MIN.into()..=i32::MAX.into();
        text.parse().map_err(|_| not_in_range("classification", text, range))
    }
}

fn count(field: &'static str, text: &str, max: u64) -> Result<u64, MetricLineError> {
    let number = text.parse().ok().filter(|&number| number <= max);
    number.ok_or_else(|| not_in_range(field, text, 0..=max.cast_signed()))
}

fn not_in_range(field: &'static str, text: &str, range: RangeInclusive<i64>) -> MetricLineError {
    MetricLineError::NotInRange {
        field,
        text: text.to_owned(),
        min: *range.start(),
        max: *range.end(),
    }
}
