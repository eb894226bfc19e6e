//! Counts of a sliding window.

/// The counts of the last n buckets.
#[derive(Clone, Debug)]
pub(super) struct Window {
    newest: u64,
    counts: Vec<u64>,
    sum: u64,
}

impl Window {
    pub(super) fn new(buckets: u32) -> Self {
        Self { newest: 0, counts: vec![0; buckets as usize], sum: 0 }
    }

    /// Returns a window of as many buckets, without counts.
    pub(super) fn blank(&self) -> Self {
        Self { newest: 0, counts: vec![0; self.counts.len()], sum: 0 }
    }

    /// Returns the sum of the window that ends with `bucket`, or with a later one that was seen
    /// before.
    pub(super) fn sum_at(&mut self, bucket: u64) -> u64 {
        self.advance(bucket);
        self.sum
    }

    /// Adds to a bucket, unless it has left the window.
    pub(super) fn add(&mut self, bucket: u64, count: u64) {
        self.advance(bucket);
        if bucket + self.len() > self.newest {
            let at = self.index(bucket);
            self.counts[at] += count;
            self.sum += count;
        }
    }

    /// Returns the buckets of the window with their counts.
    pub(super) fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        let first = (self.newest + 1).saturating_sub(self.len());
        (first..=self.newest).map(|bucket| (bucket, self.counts[self.index(bucket)]))
    }

    /// Returns the count of a bucket, 0 if it is not in the window.
    pub(super) fn count(&self, bucket: u64) -> u64 {
        let is_in = bucket <= self.newest && bucket + self.len() > self.newest;
        if is_in { self.counts[self.index(bucket)] } else { 0 }
    }

    fn advance(&mut self, bucket: u64) {
        for passed in 1..=bucket.saturating_sub(self.newest).min(self.len()) {
            let at = self.index(self.newest + passed);
            self.sum -= std::mem::take(&mut self.counts[at]);
        }
        self.newest = self.newest.max(bucket);
    }

    fn len(&self) -> u64 {
        self.counts.len() as u64
    }

    fn index(&self, bucket: u64) -> usize {
        usize::try_from(bucket % self.len()).expect("below the number of buckets")
    }
}
