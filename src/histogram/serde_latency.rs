//! The serialized form of a histogram.

use serde::de::{Deserialize, Deserializer, Error as _};
use serde::ser::{Serialize, Serializer};

use super::latency::LatencyHistogram;
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
        let Form { scale, sum, min, max, buckets } = Form::deserialize(from)?;
        let extremes = match (min, max) {
            (None, None) if buckets.is_empty() && sum.0 == 0 => [0; 2],
            (Some(Nanos(min)), Some(Nanos(max))) if !buckets.is_empty() => [min, max],
            _ => {
                let message = if buckets.is_empty() {
                    "without a bucket, `sum` is 0 and there is no `min` and no `max`"
                } else {
                    "with a bucket, `min` and `max` are needed"
                };
                return Err(D::Error::custom(message));
            }
        };
        Self::from_parts(scale, sum.0, extremes, buckets).map_err(D::Error::custom)
    }
}
