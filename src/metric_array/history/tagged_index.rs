//! An index and a tag in one word: `{ tag: 40, index: 24 }`.
//!
//! Each change of such a word makes the tag grow, so that a compare-exchange against an earlier word fails
//! also where the index is the same again (ABA).

pub(crate) const INDEX_BITS: u32 = 24;
const INDEX: u32 = (1 << INDEX_BITS) - 1;

/// The index in a word.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the low bits")]
pub(crate) const fn index_of(word: u64) -> u32 {
    word as u32 & INDEX
}

/// The word after `word`, with that index.
#[inline]
pub(crate) const fn next_word(word: u64, index: u32) -> u64 {
    ((word >> INDEX_BITS) + 1) << INDEX_BITS | index as u64
}
