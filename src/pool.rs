//! The memory of a ring's wraps: it only grows, and each wrap has an index for good.

use crate::bucket::Bucket;
use crate::sync::{Arc, CHUNK_LEN, Lazy, arc_slice};
use crate::wrap::BucketWrap;

/// Wraps that were made together. Who keeps one of them for longer than the ring keeps all.
pub(crate) type Chunk<B> = [BucketWrap<B>];

/// Where in its chunk the wrap of that index is: the last comes first, so that the lowest index of
/// all can be alone in its chunk.
#[inline]
pub(crate) const fn place_in_chunk(index: u32) -> usize {
    (!index % CHUNK_LEN) as usize
}

/// Wraps by their index. An index is looked up when its wrap has been made.
///
/// Nothing in here is ever moved or freed before the pool is: who has found an index anywhere, be it
/// long ago, can look at the wrap. What it is used for by then, the wrap itself says.
pub(crate) struct Pool<B> {
    chunks: Box<[Lazy<Arc<Chunk<B>>>]>,
    /// Of twice as many: for what threads hold that have stopped in the middle of something.
    more: Lazy<Self>,
}

const MADE: &str = "an index is handed out when its chunk has been made";

impl<B: Bucket> Pool<B> {
    /// The lowest index. It is alone in its chunk: a window that was used once has one wrap.
    pub(crate) const FIRST: u32 = CHUNK_LEN - 1;

    /// Room for so many wraps, none of which is made yet.
    pub(crate) fn with_capacity(wraps: usize) -> Self {
        Self::of_chunks((Self::FIRST as usize + wraps).div_ceil(CHUNK_LEN as usize))
    }

    fn of_chunks(chunks: usize) -> Self {
        Self { chunks: (0..chunks).map(|_| Lazy::new()).collect(), more: Lazy::new() }
    }

    /// The chunk in which the wrap of that index lies.
    #[inline]
    pub(crate) fn chunk(&self, index: u32) -> &Arc<Chunk<B>> {
        match self.chunks.get((index / CHUNK_LEN) as usize) {
            Some(chunk) => chunk.get().expect(MADE),
            None => self.more.get().expect(MADE).chunk_of_more(index - self.len()),
        }
    }

    /// Apart, so that what is small and frequent can be inlined.
    #[cold]
    fn chunk_of_more(&self, index: u32) -> &Arc<Chunk<B>> {
        self.chunk(index)
    }

    /// Makes the wrap of that index, and those beside it.
    pub(crate) fn make(&self, index: u32) -> &BucketWrap<B> {
        let len = if index == Self::FIRST { 1 } else { CHUNK_LEN };
        let make = || arc_slice((0..len).map(|_| BucketWrap::unused()));
        &self.make_chunk(index, make)[place_in_chunk(index)]
    }

    fn make_chunk(&self, index: u32, make: impl FnOnce() -> Arc<Chunk<B>>) -> &Arc<Chunk<B>> {
        if let Some(chunk) = self.chunks.get((index / CHUNK_LEN) as usize) {
            return chunk.get_or_make(make);
        }
        let more = self.more.get_or_make(|| Self::of_chunks(2 * self.chunks.len()));
        more.make_chunk(index - self.len(), make)
    }

    /// Folds all wraps that have been made.
    #[inline]
    pub(crate) fn fold<T>(&self, init: T, mut add: impl FnMut(T, &BucketWrap<B>) -> T) -> T {
        let (mut folded, mut pool) = (init, Some(self));
        while let Some(Self { chunks, more }) = pool {
            for chunk in chunks.iter().filter_map(Lazy::get) {
                // Not `Iterator::fold`, which multiplies to find each wrap.
                for wrap in &**chunk {
                    folded = add(folded, wrap);
                }
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
    use crate::metric_bucket::MetricBucket;

    #[test]
    fn wraps_are_made_in_any_order_and_found_where_they_were_made() {
        let pool = Pool::<MetricBucket>::with_capacity(1);
        let first = Pool::<MetricBucket>::FIRST;
        // Threads that race make them out of order, those of the tables to come included.
        let made: Vec<_> = (first..100).rev().map(|index| (index, pool.make(index))).collect();
        let count = pool.fold(0, |count, wrap| {
            count + usize::from(made.iter().any(|(_, it)| std::ptr::eq(*it, wrap)))
        });
        assert_eq!(count, made.len(), "each has a place of its own");
        for (index, wrap) in made {
            let found = &pool.chunk(index)[place_in_chunk(index)];
            assert!(std::ptr::eq(found, wrap), "{index}");
        }
    }
}
