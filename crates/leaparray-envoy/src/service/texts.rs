//! A map from texts, for the levels of the tree.

use std::collections::HashMap;

/// A map from texts, which does not change once it is made.
///
/// Most levels have few keys and few values. Up to [`FEW`](Self::FEW) texts are compared one by
/// one, which takes less than a hash.
#[derive(Debug)]
pub(super) struct Texts<V> {
    entries: Vec<(Box<str>, V)>,
    /// The place of each text.
    places: HashMap<Box<str>, usize, foldhash::fast::FixedState>,
}

impl<V> Texts<V> {
    const FEW: usize = 4;

    pub(super) fn new() -> Self {
        Self { entries: Vec::new(), places: HashMap::default() }
    }

    #[inline]
    pub(super) fn get(&self, text: &str) -> Option<&V> {
        if self.entries.len() <= Self::FEW {
            let mut entries = self.entries.iter();
            return entries.find(|(it, _)| **it == *text).map(|(_, value)| value);
        }
        self.get_of_many(text)
    }

    #[inline(never)]
    fn get_of_many(&self, text: &str) -> Option<&V> {
        self.places.get(text).map(|place| &self.entries[*place].1)
    }

    /// Returns the value of a text, which is made if there is none.
    pub(super) fn get_or_insert(&mut self, text: &str, make: impl FnOnce() -> V) -> &mut V {
        let place = self.places.get(text).copied().unwrap_or_else(|| {
            self.entries.push((text.into(), make()));
            self.places.insert(text.into(), self.entries.len() - 1);
            self.entries.len() - 1
        });
        &mut self.entries[place].1
    }
}
