//! The memory of the requests that wait for the store.

use tokio::sync::{Semaphore, SemaphorePermit};

use super::request::{Descriptor, Request};

/// A unit of the bound, in bytes.
const UNIT: usize = 1 << 10;

/// The bytes of a request beside its texts and descriptors: those of the future, the stream of its
/// answer, and the state of the wait.
const OF_REQUEST: usize = 4 << 10;

/// The bytes of a descriptor beside its entries: as it was decoded, and as it is decided.
const OF_DESCRIPTOR: usize = 512;

/// The bound of the memory of the requests that wait.
#[derive(Debug)]
pub(super) struct Waiting {
    units: Semaphore,
}

impl Waiting {
    /// Creates a bound of `most` bytes.
    pub(super) fn new(most: usize) -> Self {
        Self { units: Semaphore::new((most / UNIT).min(Semaphore::MAX_PERMITS)) }
    }

    /// Takes the memory of a request until the result is dropped; `None` if less is left.
    pub(super) fn enter(&self, request: &Request) -> Option<SemaphorePermit<'_>> {
        let units = u32::try_from(memory(request).div_ceil(UNIT)).ok()?;
        self.units.try_acquire_many(units).ok()
    }
}

/// Returns about how many bytes a decoded request takes.
fn memory(request: &Request) -> usize {
    let of_entry = |(key, value): &(String, String)| {
        size_of::<(String, String)>() + key.capacity() + value.capacity()
    };
    let of_descriptor =
        |it: &Descriptor| OF_DESCRIPTOR + it.entries.iter().map(of_entry).sum::<usize>();
    OF_REQUEST + request.descriptors.iter().map(of_descriptor).sum::<usize>()
}
