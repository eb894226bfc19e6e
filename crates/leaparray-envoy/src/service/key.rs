//! The keys of limits that have a state for each value.

use super::decision::RuleId;

/// The identity of a limit and the values that have a state of their own. Short ones are not
/// allocated.
#[derive(Debug)]
pub(super) struct Key {
    /// The first `len` bytes are the key, unless it is long.
    short: [u8; Self::SHORT],
    len: usize,
    /// The key, if it is long. Otherwise, it is empty.
    long: Vec<u8>,
}

impl Key {
    const ID: usize = size_of::<u64>();

    const SHORT: usize = 128;

    #[inline]
    pub(super) const fn new() -> Self {
        Self { short: [0; Self::SHORT], len: Self::ID, long: Vec::new() }
    }

    /// Begins anew.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.len = Self::ID;
        self.long.clear();
    }

    /// Adds a value. Its length comes before it, so that no two lists of values are the same key.
    #[inline]
    pub(super) fn push(&mut self, value: &str) {
        // A message is shorter than 4 GiB, and a longer value would differ by its bytes.
        #[expect(clippy::cast_possible_truncation, reason = "see above")]
        let len = (value.len() as u32).to_le_bytes();
        let end = self.len + len.len();
        if self.long.is_empty()
            && let Some(room) = self.short.get_mut(end..end.saturating_add(value.len()))
        {
            room.copy_from_slice(value.as_bytes());
            self.short[self.len..end].copy_from_slice(&len);
            self.len = end + value.len();
        } else {
            self.push_long(len, value);
        }
    }

    #[cold]
    #[inline(never)]
    fn push_long(&mut self, len: [u8; 4], value: &str) {
        if self.long.is_empty() {
            self.long.extend_from_slice(&self.short[..self.len]);
        }
        self.long.extend_from_slice(&len);
        self.long.extend_from_slice(value.as_bytes());
    }

    /// Returns the values of a key.
    #[cfg(feature = "redis")]
    pub(super) fn values(key: &[u8]) -> &[u8] {
        &key[Self::ID..]
    }

    /// Sets the limit.
    #[inline]
    pub(super) fn set_id(&mut self, id: RuleId) {
        let bytes = if self.long.is_empty() { &mut self.short[..] } else { &mut self.long[..] };
        bytes[..Self::ID].copy_from_slice(&id.0.to_le_bytes());
    }

    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        if self.long.is_empty() { &self.short[..self.len] } else { &self.long }
    }
}
