//! The geometry of a case, and the steps by which time moves.

use std::time::Duration;

use leaparray::WindowConfig;

/// The geometry of a window, and of a view over it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Geometry {
    pub(super) samples: u64,
    pub(super) bucket_nanos: u64,
    pub(super) view_samples: u64,
    /// The number of buckets of the window that make up one bucket of the view.
    pub(super) buckets_per_sample: u64,
}

impl Geometry {
    const MAX_SAMPLES: u64 = 12;

    /// Makes a valid geometry from any numbers.
    pub(super) fn new(samples: u8, view: u8, view_bucket: u8, bucket_nanos: u64) -> Self {
        let samples = 1 + u64::from(samples) % Self::MAX_SAMPLES;
        let view = divisor(samples, view);
        let buckets_per_sample = divisor(view, view_bucket);
        Self {
            samples,
            bucket_nanos: bucket_nanos.clamp(2, u64::MAX / samples),
            view_samples: view / buckets_per_sample,
            buckets_per_sample,
        }
    }

    pub(super) fn window(self) -> WindowConfig {
        config(self.samples, self.bucket_nanos)
    }

    pub(super) fn view(self) -> WindowConfig {
        config(self.view_samples, self.bucket_nanos * self.buckets_per_sample)
    }

    pub(super) fn bucket(self, now: u64) -> u64 {
        now / self.bucket_nanos
    }

    pub(super) fn after(self, now: u64, step: Step) -> u64 {
        let bucket = self.bucket_nanos;
        let lap = self.samples * bucket;
        match step {
            Step::Stand => now,
            Step::Nanos(nanos) => now.saturating_add(nanos),
            Step::PartOfBucket(parts) => now.saturating_add(part(bucket, parts)),
            Step::Buckets(buckets) => now.saturating_add(bucket.saturating_mul(buckets)),
            Step::Laps(laps) => now.saturating_add(lap.saturating_mul(laps)),
            Step::BackNanos(nanos) => now.saturating_sub(nanos),
            Step::BackBuckets(buckets) => now.saturating_sub(bucket.saturating_mul(buckets)),
            Step::BackLaps(laps) => now.saturating_sub(lap.saturating_mul(laps)),
            Step::ToTheEdge => (now - now % bucket).saturating_add(bucket - 1),
            Step::ToTheBeginning(nanos) => nanos,
            Step::ToTheEnd(nanos) => u64::MAX - nanos,
        }
    }
}

fn config(samples: u64, bucket_nanos: u64) -> WindowConfig {
    let interval = Duration::from_nanos(samples * bucket_nanos);
    let samples = usize::try_from(samples).expect("a small number");
    WindowConfig::new(samples, interval).expect("a valid geometry")
}

/// The divisor of `number` with the index `which`, modulo the number of divisors.
fn divisor(number: u64, which: u8) -> u64 {
    let divisors: Vec<_> = (1..=number).filter(|it| number.is_multiple_of(*it)).collect();
    divisors[usize::from(which) % divisors.len()]
}

/// `parts` 256ths of `nanos`.
fn part(nanos: u64, parts: u64) -> u64 {
    nanos / 256 * parts + nanos % 256 * parts / 256
}

/// How time moves before an operation: often by lengths of a bucket or of a lap, at which readings
/// change.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Stand,
    Nanos(u64),
    /// Forward, by 256ths of a bucket.
    PartOfBucket(u64),
    Buckets(u64),
    Laps(u64),
    BackNanos(u64),
    BackBuckets(u64),
    BackLaps(u64),
    /// To the last nanosecond of the bucket.
    ToTheEdge,
    ToTheBeginning(u64),
    ToTheEnd(u64),
}
