//! The serialized form of a histogram.

use serde::de::{Deserialize, Deserializer, Error as _};
use serde::ser::{Serialize, Serializer};

use super::bins::{Bins, COARSEST};
use super::config::HistogramConfig;
use super::counts::Counts;
use super::latency::LatencyHistogram;
use super::layout::MAX_NANOS;
use crate::time::serde_time::Nanos;

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a histogram with `scale`, `sum`, `min`, `max` and `buckets`"
)]
struct Form {
    scale: i8,
    sum: Nanos<u128>,
    min: Option<Nanos<u64>>,
    max: Option<Nanos<u64>>,
    /// The index and the count of each bucket that is not empty, by ascending index.
    buckets: Vec<(i32, u64)>,
}

impl Serialize for LatencyHistogram {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let extreme = |nanos| (!self.is_empty()).then_some(Nanos(nanos));
        let buckets = self.counts.iter().collect();
        let [min, max] = [self.min, self.max].map(extreme);
        Form { scale: self.scale(), sum: Nanos(self.nanos), min, max, buckets }.serialize(to)
    }
}

impl<'de> Deserialize<'de> for LatencyHistogram {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let form = Form::deserialize(from)?;
        let finest = HistogramConfig::MAX_SCALE.cast_signed();
        if !(COARSEST..=finest).contains(&form.scale) {
            let message = format!("scale {} is not between {COARSEST} and {finest}", form.scale);
            return Err(D::Error::custom(message));
        }
        let bins = Bins::at(form.scale);
        let counts = counts(bins, &form.buckets).map_err(D::Error::custom)?;
        let (min, max) = extremes(bins, &counts, &form).map_err(D::Error::custom)?;
        check_sum(form.sum.0, counts.sum(), max).map_err(D::Error::custom)?;
        Ok(Self { bins, counts, nanos: form.sum.0, min, max })
    }
}

/// Checks each bucket: then there are no more of them than the scale has, whatever their indices.
fn counts(bins: Bins, buckets: &[(i32, u64)]) -> Result<Counts, String> {
    let (first, last) = (bins.index(1), bins.index(MAX_NANOS));
    let mut counts = Counts::new();
    for &(index, count) in buckets {
        if !(first..=last).contains(&index) {
            return Err(format!("bucket {index} is not between {first} and {last}"));
        }
        if bins.first(index) > bins.last(index) {
            return Err(format!("bucket {index} contains no whole nanosecond"));
        }
        if count == 0 {
            return Err(format!("bucket {index} is empty, and should be left out"));
        }
        if counts.ends().is_some_and(|(_, before)| index <= before) {
            return Err(format!("bucket {index} is not after the one before it"));
        }
        counts.add(index, count);
    }
    Ok(counts)
}

/// Checks that the mean is not above the longest response time. It may be below the shortest one: a histogram that was read
/// while a thread recorded has a response time that is not in its sum yet.
fn check_sum(sum: u128, count: u64, max: u64) -> Result<(), String> {
    let most = u128::from(count) * u128::from(max);
    // A saturated count is less than the number of response times in the sum.
    if sum <= most || count == u64::MAX {
        return Ok(());
    }
    Err(format!("`sum`, {sum} ns, is more than {count} times `max`, {most} ns"))
}

/// Checks that the shortest and the longest response time are in the first and the last bucket.
fn extremes(bins: Bins, counts: &Counts, form: &Form) -> Result<(u64, u64), String> {
    let [min, max] = [&form.min, &form.max].map(|it| it.as_ref().map(|it| it.0));
    match (counts.ends(), min, max) {
        (None, None, None) if form.sum.0 == 0 => Ok((0, 0)),
        (None, ..) => Err("without a bucket, `sum` is 0 and there is no `min` and no `max`".into()),
        (Some((first, last)), Some(min), Some(max)) => {
            for (name, nanos, index) in [("min", min, first), ("max", max, last)] {
                if nanos > MAX_NANOS || bins.index(nanos) != index {
                    return Err(format!("`{name}`, {nanos} ns, is not in bucket {index}"));
                }
            }
            if min > max {
                return Err(format!("`min`, {min} ns, is above `max`, {max} ns"));
            }
            Ok((min, max))
        }
        (Some(_), ..) => Err("with a bucket, `min` and `max` are needed".into()),
    }
}
