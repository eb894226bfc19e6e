//! How many bytes a second may take.

/// How many bytes the rows of a second may take, in a process and in the fleet.
///
/// Each live process takes the same share of the fleet's bytes. If its resources need more, the
/// busiest ones have rows, and the busiest of these have histograms. The others are added up, so
/// the totals of the process and of the fleet stay exact, and a
/// [reader](super::ResourceRow::left_out) knows which resources lack a row.
///
/// Beside these bytes, a process has rows for at most the first 16,384 names of resources and
/// contexts that it has ever recorded, also if some of them were evicted since. All further ones
/// are left out, without their names, until the process starts again.
///
/// A resource with one request in the second takes some 11 bytes, and more for each further bucket
/// of its histogram. The histogram of all response times of the process takes up to a quarter of
/// the bytes: it is made coarser if it needs more.
///
/// The server keeps each second for [`delivery`](super::FleetConfig::delivery) +
/// [`history`](super::FleetConfig::history) + 10 s, 100 s by default, and so 100 times these
/// bytes: 3.4 GB for a fleet that uses all of the default budget, and 0.33 GB for 100 processes
/// with 32 KiB each.
///
/// Each reader reads all bytes of the fleet.
///
/// ```
/// use leaparray_redis::fleet::Budget;
///
/// let budget = Budget::default();
/// assert_eq!((budget.process, budget.fleet), (32 << 10, 32 << 20));
/// assert_eq!(budget.share(100), 32 << 10);
/// assert_eq!(budget.share(4_000), 8_388);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the two numbers are all")]
pub struct Budget {
    /// The most bytes of the rows of a process and of the histogram of all its response times. The
    /// sum of the resources without a row comes on top, with less than 256 bytes, and the names,
    /// each of which is sent once.
    pub process: usize,
    /// The most bytes of the rows of all processes together. They are exceeded for a second or two
    /// while many processes join at once, or come back after the server has lost its data.
    pub fleet: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self { process: 32 << 10, fleet: 32 << 20 }
    }
}

impl Budget {
    /// The most bytes of a second beside its rows and the histogram of all response times: those of
    /// the version, of three lengths, and of the sum of the resources without a row.
    pub(crate) const OVERHEAD: usize = 256;

    /// Returns the bytes of one of `processes` processes.
    #[must_use]
    pub fn share(&self, processes: u32) -> usize {
        let share = self.fleet / usize::try_from(processes.max(1)).unwrap_or(usize::MAX);
        self.process.min(share)
    }
}
