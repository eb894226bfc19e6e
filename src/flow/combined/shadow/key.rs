//! A hash of keys that is the same in each process.

use std::hash::{Hash, Hasher};

/// FNV-1a of 64 bits, whose result is mixed: its high bits alone depend too little on the last
/// bytes. The hasher of the standard library may change with its version.
struct Fnv(u64);

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    /// The finalizer of `MurmurHash3`.
    fn finish(&self) -> u64 {
        let mix = |hash: u64, by: u64| (hash ^ (hash >> 33)).wrapping_mul(by);
        let hash = mix(mix(self.0, 0xff51_afd7_ed55_8ccd), 0xc4ce_b9fe_1a85_ec53);
        hash ^ (hash >> 33)
    }
}

/// Returns the hash of a key.
pub(super) fn hash_of<Q: Hash + ?Sized>(key: &Q) -> u64 {
    let mut hasher = Fnv(0xcbf2_9ce4_8422_2325);
    key.hash(&mut hasher);
    hasher.finish()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::flow::shadow::Share;

    /// A change of the hash would enforce a limit for other keys than before.
    #[test]
    fn hash_does_not_change() {
        let mut raw = Fnv(0xcbf2_9ce4_8422_2325);
        raw.write(b"foobar");
        assert_eq!(raw.0, 0x8594_4171_f739_67e8, "the published value of FNV-1a");
        assert_eq!(hash_of("ann"), hash_of(&String::from("ann")));
    }

    #[test]
    fn keys_are_selected_in_the_share() {
        let share = Share::percent(10).unwrap();
        for name in ["client-", "10.0.0.", ""] {
            let selected = |number: &u32| share.contains(hash_of(&format!("{name}{number}")));
            let count = (0..100_000_u32).filter(selected).count();
            assert!((9_600..10_400).contains(&count), "{name}: {count}");
        }
        let count = (0..100_000_u64).filter(|number| share.contains(hash_of(number))).count();
        assert!((9_600..10_400).contains(&count), "{count}");
    }
}
