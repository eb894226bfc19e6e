//! The keys of limits that have a state for each value.

use smallvec::SmallVec;

use super::decision::RuleId;

/// The identity of a limit and the values that have a state of their own. Short ones are not
/// allocated.
#[derive(Debug)]
pub(super) struct Key {
    bytes: SmallVec<[u8; 128]>,
}

impl Key {
    const ID: usize = size_of::<u64>();

    pub(super) fn new() -> Self {
        Self { bytes: SmallVec::from_slice(&[0; Self::ID]) }
    }

    /// Begins anew.
    pub(super) fn clear(&mut self) {
        self.bytes.truncate(Self::ID);
    }

    /// Adds a value. Its length comes before it, so that no two lists of values are the same key.
    #[inline]
    pub(super) fn push(&mut self, value: &str) {
        // A message is shorter than 4 GiB, and a longer value would differ by its bytes.
        #[expect(clippy::cast_possible_truncation, reason = "see above")]
        let len = value.len() as u32;
        self.bytes.extend_from_slice(&len.to_le_bytes());
        self.bytes.extend_from_slice(value.as_bytes());
    }

    /// Returns the values of a key.
    #[cfg(feature = "redis")]
    pub(super) fn values(key: &[u8]) -> &[u8] {
        &key[Self::ID..]
    }

    /// Sets the limit. Returns the key.
    #[inline]
    pub(super) fn of(&mut self, id: RuleId) -> &[u8] {
        self.bytes[..Self::ID].copy_from_slice(&id.0.to_le_bytes());
        &self.bytes
    }
}
