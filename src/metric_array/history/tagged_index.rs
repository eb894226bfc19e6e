//! An index and a tag in one word: `{ tag: 40, index: 24 }`.
//!
//! Each change of such a word increments the tag, so a compare-exchange against an earlier word
//! fails even if the index is the same again (ABA).

pub(crate) const INDEX_BITS: u32 = 24;
const INDEX: u32 = (1 << INDEX_BITS) - 1;

/// Returns the index in a word.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the low bits")]
pub(crate) const fn index_of(word: u64) -> u32 {
    word as u32 & INDEX
}

/// Returns the word that follows `word`, with that index.
#[inline]
pub(crate) const fn next_word(word: u64, index: u32) -> u64 {
    ((word >> INDEX_BITS) + 1) << INDEX_BITS | index as u64
}
