//! Histograms of several sources and of several scales.

use super::bins::{Bins, COARSEST};
use super::compact::CompactHistogram;
use super::error::HistogramScaleError;
use super::from_buckets::HistogramBuckets;
use super::latency::LatencyHistogram;

impl LatencyHistogram {
    /// Returns the histogram of the same response times at a coarser scale, or at the same scale.
    ///
    /// Each step to a coarser scale merges pairs of bins. The result is exactly the histogram that
    /// the response times would have at that scale. OpenTelemetry's default of 160 buckets, for
    /// example, covers 10 octaves at scale 4.
    ///
    /// # Errors
    ///
    /// Returns a [`HistogramScaleError`] if `scale` is finer than the present one, because the
    /// response times within a bin are not known, or if it is below −10.
    ///
    /// ```
    /// use leaparray::LatencyHistogram;
    /// use leaparray::histogram::HistogramScaleError;
    /// use std::time::Duration;
    ///
    /// let mut histogram = LatencyHistogram::default();
    /// histogram.record(Duration::from_millis(600));
    /// histogram.record(Duration::from_millis(900));
    /// assert_eq!(histogram.buckets().count(), 2);
    ///
    /// let octaves = histogram.downscaled(0)?;
    /// assert_eq!(octaves.buckets().count(), 1, "both are above 0.5 s, and at most 1 s");
    /// assert_eq!(octaves.max(), histogram.max());
    /// let error = octaves.downscaled(1).unwrap_err();
    /// assert_eq!(error, HistogramScaleError::Finer { scale: 1, present: 0 });
    /// # Ok::<_, HistogramScaleError>(())
    /// ```
    pub fn downscaled(&self, scale: i8) -> Result<Self, HistogramScaleError> {
        if scale > self.scale() {
            return Err(HistogramScaleError::Finer { scale, present: self.scale() });
        }
        if scale < COARSEST {
            return Err(HistogramScaleError::TooCoarse { scale });
        }
        let mut coarser = self.clone();
        coarser.coarsen(scale);
        Ok(coarser)
    }

    /// Changes to a scale that is not finer.
    fn coarsen(&mut self, scale: i8) {
        self.counts.coarsen(self.scale().abs_diff(scale).into());
        self.bins = Bins::at(scale);
    }

    /// Adds the response times of another histogram, for example of another process. The result has
    /// the coarser of the two scales, and is exactly the histogram that all the response times
    /// would have at that scale.
    ///
    /// ```
    /// use leaparray::{HistogramConfig, LatencyHistogram};
    /// use std::time::Duration;
    ///
    /// let [mut fine, mut coarse, mut both] = [5, 4, 4]
    ///     .map(|scale| LatencyHistogram::new(HistogramConfig::with_scale(scale).unwrap()));
    /// fine.record(Duration::from_millis(1));
    /// coarse.record(Duration::from_millis(9));
    /// for millis in [1, 9] {
    ///     both.record(Duration::from_millis(millis));
    /// }
    /// fine.merge(&coarse);
    /// assert_eq!(fine, both);
    /// ```
    pub fn merge(&mut self, other: &Self) {
        self.coarsen(self.scale().min(other.scale()));
        if other.is_empty() {
            return;
        }
        self.widen(other.min, other.max);
        self.nanos = self.nanos.saturating_add(other.nanos);
        self.counts.merge(&other.counts, other.scale().abs_diff(self.scale()).into());
    }

    /// Adds the response times of another histogram, of which there are only the buckets, as
    /// [`merge`](Self::merge) does.
    ///
    /// ```
    /// use leaparray::LatencyHistogram;
    /// use leaparray::histogram::HistogramBuckets;
    /// use std::time::Duration;
    ///
    /// let mut histogram = LatencyHistogram::default();
    /// histogram.record(Duration::from_secs(1));
    /// let [min, max] = [2, 3].map(Duration::from_secs);
    /// histogram.merge_buckets(&HistogramBuckets::new(0, min + max, min, max, &[(0, 1), (1, 1)])?);
    /// assert_eq!((histogram.scale(), histogram.count()), (0, 3));
    /// assert_eq!((histogram.min(), histogram.max()), (Some(Duration::from_secs(1)), Some(max)));
    /// # Ok::<_, leaparray::histogram::HistogramBucketsError>(())
    /// ```
    pub fn merge_buckets(&mut self, other: &HistogramBuckets<'_>) {
        let scale = other.bins.scale();
        self.coarsen(self.scale().min(scale));
        if let [(first, _), ..] = other.buckets
            && let [.., (last, _)] = other.buckets
        {
            self.widen(other.min, other.max);
            self.nanos = self.nanos.saturating_add(other.nanos);
            let steps = scale.abs_diff(self.scale()).into();
            self.counts.merge_within((*first, *last), other.buckets.iter().copied(), steps);
        }
    }

    /// Adds the response times of a histogram in fewer bytes, as [`merge`](Self::merge) does. See
    /// [`CompactHistogram`] for an example.
    pub fn merge_compact(&mut self, other: &CompactHistogram) {
        let scale = other.bins.scale();
        self.coarsen(self.scale().min(scale));
        if let Some(ends) = other.ends() {
            self.widen(other.min, other.max);
            self.nanos = self.nanos.saturating_add(other.nanos);
            let steps = scale.abs_diff(self.scale()).into();
            self.counts.merge_within(ends, other.buckets(), steps);
        }
    }
}
