//! A pool of values that only grows, in which each value keeps its index.

use crate::sync::{CHUNK_LEN, RacyOnce};

/// Values by their index, of which `LEN` are made at a time. An index is looked up only after its
/// value has been made.
///
/// A value is never moved, and never freed before the pool, so a thread may dereference an index
/// that it read at any earlier time. The value may have been recycled since, so the thread then
/// validates what the value is used for.
#[derive(Debug)]
pub(crate) struct Pool<T, const LEN: usize = { CHUNK_LEN as usize }> {
    /// Each chunk has the values that are made together.
    chunks: Box<[RacyOnce<[T; LEN]>]>,
    /// A pool of twice as many chunks, for values beyond the capacity, which exist if threads
    /// stall.
    more: RacyOnce<Self>,
}

const MADE: &str = "an index is used only after its chunk was made";

impl<T, const LEN: usize> Pool<T, LEN> {
    /// Creates a pool with room for at least `values` values, none of which is made yet.
    pub(crate) fn with_capacity(values: usize) -> Self {
        Self::of_chunks(values.div_ceil(LEN))
    }

    fn of_chunks(chunks: usize) -> Self {
        Self { chunks: (0..chunks).map(|_| RacyOnce::new()).collect(), more: RacyOnce::new() }
    }

    /// Returns the value with that index, which must have been made.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "part of each publication")]
    pub(crate) fn get(&self, index: u32) -> &T {
        match self.chunks.get(index as usize / LEN) {
            Some(chunk) => &chunk.get().expect(MADE)[index as usize % LEN],
            None => self.more.get().expect(MADE).get_of_more(index - self.len()),
        }
    }

    /// Out of line, so that the small and frequent part of [`get`](Self::get) can be inlined.
    #[cold]
    fn get_of_more(&self, index: u32) -> &T {
        self.get(index)
    }

    /// Returns the value with that index, if it has been made.
    pub(crate) fn find(&self, index: u32) -> Option<&T> {
        match self.chunks.get(index as usize / LEN) {
            Some(chunk) => chunk.get().map(|chunk| &chunk[index as usize % LEN]),
            None => self.more.get()?.find(index - self.len()),
        }
    }

    /// Returns the number of values for which the pool itself has room, without those of `more`.
    pub(crate) const fn capacity(&self) -> usize {
        self.len() as usize
    }

    /// Returns the value with that index. Makes its whole chunk, if that has not been made yet.
    pub(crate) fn make(&self, index: u32, new: impl Fn() -> T) -> &T {
        if let Some(chunk) = self.chunks.get(index as usize / LEN) {
            let chunk = chunk.get_or_init(|| std::array::from_fn(|_| new()));
            return &chunk[index as usize % LEN];
        }
        let more = self.more.get_or_init(|| Self::of_chunks(2 * self.chunks.len()));
        // A trait object: otherwise each recursive call would have another closure type, without
        // end.
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

    /// Returns the number of indices of this pool, without those of `more`.
    #[expect(clippy::cast_possible_truncation, reason = "at most as many as 32-bit indices")]
    const fn len(&self) -> u32 {
        (LEN * self.chunks.len()) as u32
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn values_are_made_in_any_order_and_found_where_they_were_made() {
        let pool: Pool<_> = Pool::with_capacity(1);
        // In reverse: threads that race make values out of order, also in the pools of `more`.
        let made: Vec<_> = (0..100).rev().map(|index| (index, pool.make(index, || 0_u8))).collect();
        let count = pool.fold(0, |count, value| {
            count + usize::from(made.iter().any(|(_, it)| std::ptr::eq(*it, value)))
        });
        assert_eq!(count, made.len(), "each value has a place of its own");
        for (index, value) in made {
            assert!(std::ptr::eq(pool.get(index), value), "{index}");
        }
    }
}
