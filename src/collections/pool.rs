//! Memory that only grows, in which each value has an index for good.

use crate::sync::{CHUNK_LEN, RacyOnce};

/// Values by their index. An index is looked up when its value has been made.
///
/// A value is never moved, and never freed before the pool, so a thread may look at the value of an
/// index that it read at any earlier time. The value itself tells what it is used for by then.
#[derive(Debug)]
pub(crate) struct Pool<T> {
    chunks: Box<[RacyOnce<Chunk<T>>]>,
    /// Twice as many, for the values that stalled threads hold.
    more: RacyOnce<Self>,
}

/// Values that are made together.
type Chunk<T> = [T; CHUNK_LEN as usize];

const MADE: &str = "an index is handed out when its chunk has been made";

impl<T> Pool<T> {
    /// Room for at least `values` values, none of which is made yet.
    pub(crate) fn with_capacity(values: usize) -> Self {
        Self::of_chunks(values.div_ceil(CHUNK_LEN as usize))
    }

    fn of_chunks(chunks: usize) -> Self {
        Self { chunks: (0..chunks).map(|_| RacyOnce::new()).collect(), more: RacyOnce::new() }
    }

    /// The value of that index, which was made before.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> &T {
        match self.chunks.get((index / CHUNK_LEN) as usize) {
            Some(chunk) => &chunk.get().expect(MADE)[(index % CHUNK_LEN) as usize],
            None => self.more.get().expect(MADE).get_of_more(index - self.len()),
        }
    }

    /// Apart, so that what is small and frequent can be inlined.
    #[cold]
    fn get_of_more(&self, index: u32) -> &T {
        self.get(index)
    }

    /// Makes the value of that index, and those beside it.
    pub(crate) fn make(&self, index: u32, new: impl Fn() -> T) -> &T {
        if let Some(chunk) = self.chunks.get((index / CHUNK_LEN) as usize) {
            let chunk = chunk.get_or_init(|| std::array::from_fn(|_| new()));
            return &chunk[(index % CHUNK_LEN) as usize];
        }
        let more = self.more.get_or_init(|| Self::of_chunks(2 * self.chunks.len()));
        // A trait object: otherwise the closure's type would grow without end.
        let new: &dyn Fn() -> T = &new;
        more.make_dyn(index - self.len(), new)
    }

    fn make_dyn(&self, index: u32, new: &dyn Fn() -> T) -> &T {
        self.make(index, new)
    }

    /// Folds all values that have been made.
    #[inline]
    pub(crate) fn fold<A>(&self, init: A, mut add: impl FnMut(A, &T) -> A) -> A {
        let (mut folded, mut pool) = (init, Some(self));
        while let Some(Self { chunks, more }) = pool {
            for value in chunks.iter().filter_map(RacyOnce::get).flatten() {
                folded = add(folded, value);
            }
            pool = more.get();
        }
        folded
    }

    /// How many indices are its own.
    #[expect(clippy::cast_possible_truncation, reason = "as many as indices of 32 bits, at most")]
    const fn len(&self) -> u32 {
        CHUNK_LEN * self.chunks.len() as u32
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn values_are_made_in_any_order_and_found_where_they_were_made() {
        let pool = Pool::with_capacity(1);
        // Threads that race make them out of order, those of the tables to come included.
        let made: Vec<_> = (0..100).rev().map(|index| (index, pool.make(index, || 0_u8))).collect();
        let count = pool.fold(0, |count, value| {
            count + usize::from(made.iter().any(|(_, it)| std::ptr::eq(*it, value)))
        });
        assert_eq!(count, made.len(), "each has a place of its own");
        for (index, value) in made {
            assert!(std::ptr::eq(pool.get(index), value), "{index}");
        }
    }
}
