//! A map with entries that lie without gaps, for a table behind a lock.

use std::borrow::Borrow;

/// A map from keys to values, with a count and a mark for each key. A small table behind a lock: one of many shards.
///
/// The entries lie in one array without gaps, in no order. The index is a hash table with linear probing, of one word for
/// each slot:
///
/// ```text
/// { tag: 16, mark: 1, entry + 1: 15 }        0: the slot is empty
/// ```
///
/// The *tag* is a part of the key's hash. The home slot of a key follows from its tag alone, so the index grows, shrinks
/// and closes gaps without computing a hash. A look-up compares the keys of entries with an equal tag: a tag identifies
/// no key.
///
/// Both arrays grow by an eighth. So no change takes more than one pass over the table, and between an eighth and none of the
/// memory of the entries is unused. The index has a slot more than 5/4 of the entries that fit.
///
/// The counts are of 32 bits, and lie behind the index in one allocation. What exceeds 32 bits is kept in a list, which no key
/// needs before 4 billion counts.
#[derive(Debug)]
pub(crate) struct KeyTable<K, V> {
    entries: Vec<(K, V)>,
    /// The index, and then a count for each entry that fits.
    words: Box<[u32]>,
    /// The number of slots of the index.
    slots: u32,
    /// The entry that [`next_entry`](Self::next_entry) returns next.
    cursor: u32,
    wraps: Option<Box<Wraps>>,
}

/// The number of times that the counts of entries have wrapped around.
#[derive(Debug)]
struct Wraps(Vec<(usize, u64)>);

/// The place of a key: its slot in the index, and its entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    slot: usize,
    pub(crate) entry: usize,
}

const EMPTY: u32 = 0;
const TAG_SHIFT: u32 = 16;
const MARK: u32 = 1 << 15;
const ENTRY: u32 = MARK - 1;

/// The number of entries by which the smallest table grows.
const LEAST_STEP: usize = 4;

const fn tag_of(word: u32) -> u16 {
    (word >> TAG_SHIFT) as u16
}

/// Returns the entry of a word that is not empty.
const fn entry_of(word: u32) -> usize {
    (word & ENTRY) as usize - 1
}

/// Returns the word of an entry without a mark.
#[expect(clippy::cast_possible_truncation, reason = "a table has at most `MAX_LEN` entries")]
const fn word(tag: u16, entry: usize) -> u32 {
    (tag as u32) << TAG_SHIFT | (entry as u32 + 1)
}

/// Returns the slot at which the probe for a tag begins.
#[inline]
const fn home(tag: u16, slots: usize) -> usize {
    (tag as usize * slots) >> TAG_SHIFT
}

/// Returns the slot after a slot.
#[inline]
const fn after(slot: usize, slots: usize) -> usize {
    if slot + 1 == slots { 0 } else { slot + 1 }
}

/// Puts a word into the first empty slot from its home.
fn place(index: &mut [u32], word: u32) {
    let mut slot = home(tag_of(word), index.len());
    while index[slot] != EMPTY {
        slot = after(slot, index.len());
    }
    index[slot] = word;
}

impl<K, V> KeyTable<K, V> {
    /// The greatest number of entries.
    pub(crate) const MAX_LEN: usize = ENTRY as usize;

    pub(crate) const fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) const fn is_full(&self) -> bool {
        self.len() == Self::MAX_LEN
    }

    /// Returns the place of a key, whose hash has that tag.
    #[inline]
    pub(crate) fn find<Q: ?Sized + Eq>(&self, tag: u16, key: &Q) -> Option<Place>
    where
        K: Borrow<Q>,
    {
        let index = &self.words[..self.slots as usize];
        let mut slot = home(tag, index.len());
        // Ends: the index has an empty slot, unless it has none at all.
        while let Some(&word) = index.get(slot)
            && word != EMPTY
        {
            if tag_of(word) == tag {
                let entry = entry_of(word);
                if self.entries[entry].0.borrow() == key {
                    return Some(Place { slot, entry });
                }
            }
            slot = after(slot, index.len());
        }
        None
    }

    #[inline]
    pub(crate) fn key(&self, entry: usize) -> &K {
        &self.entries[entry].0
    }

    #[inline]
    pub(crate) fn value(&self, entry: usize) -> &V {
        &self.entries[entry].1
    }

    #[inline]
    pub(crate) fn value_mut(&mut self, entry: usize) -> &mut V {
        &mut self.entries[entry].1
    }

    #[inline]
    pub(crate) fn is_marked(&self, place: Place) -> bool {
        self.words[place.slot] & MARK != 0
    }

    #[inline]
    pub(crate) fn mark(&mut self, place: Place) {
        self.words[place.slot] |= MARK;
    }

    /// Adds one to the count of an entry.
    #[inline]
    pub(crate) fn count(&mut self, entry: usize) {
        let count = &mut self.words[self.slots as usize + entry];
        *count = count.wrapping_add(1);
        if *count == 0 {
            self.wrap(entry);
        }
    }

    #[cold]
    fn wrap(&mut self, entry: usize) {
        let wraps = &mut self.wraps.get_or_insert_with(|| Box::new(Wraps(Vec::new()))).0;
        match wraps.iter_mut().find(|(of, _)| *of == entry) {
            Some((_, times)) => *times += 1,
            None => wraps.push((entry, 1)),
        }
    }

    /// Returns the count of an entry.
    pub(crate) fn count_of(&self, entry: usize) -> u64 {
        let low = self.words[self.slots as usize + entry];
        let wraps = self.wraps.as_deref().map_or(&[][..], |wraps| &wraps.0);
        let high = wraps.iter().find(|(of, _)| *of == entry).map_or(0, |&(_, times)| times);
        high << u32::BITS | u64::from(low)
    }

    /// Returns each key with its count.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (&K, u64)> {
        self.entries.iter().enumerate().map(|(entry, (key, _))| (key, self.count_of(entry)))
    }

    /// Returns an entry, and the next one at the next call, in turn; `None` if there is none. An entry that is removed
    /// before the next call has its place in the turn filled by another one, which that call returns.
    pub(crate) fn next_entry(&mut self) -> Option<usize> {
        let entry = if (self.cursor as usize) < self.len() { self.cursor as usize } else { 0 };
        if self.entries.is_empty() {
            return None;
        }
        self.cursor = u32::try_from(entry + 1).unwrap_or(0);
        Some(entry)
    }

    /// Inserts a key that the table does not have, with a count of 0 and without a mark.
    ///
    /// # Panics
    ///
    /// Panics if the table is [full](Self::is_full).
    pub(crate) fn insert(&mut self, tag: u16, key: K, value: V) {
        let len = self.len();
        assert!(!self.is_full(), "the caller has checked that there is room");
        if len == self.fits() {
            self.resize(len + (len / 8).max(LEAST_STEP));
        }
        place(&mut self.words[..self.slots as usize], word(tag, len));
        self.entries.push((key, value));
    }

    /// Removes an entry, and returns its key and value. `tag` returns the tag of a key's hash. The last entry gets the
    /// place of the removed one.
    pub(crate) fn remove(&mut self, entry: usize, tag: impl Fn(&K) -> u16) -> (K, V) {
        let last = self.len() - 1;
        // Both tags before the first change, because a hash function may panic.
        let tags = [tag(self.key(entry)), tag(self.key(last))];
        let slot = self.slot_of(tags[0], entry);
        self.close_gap(slot);
        self.move_count(last, entry);
        if entry != last {
            let slot = self.slot_of(tags[1], last);
            self.words[slot] = word(tags[1], entry) | self.words[slot] & MARK;
        }
        self.cursor = self.cursor.min(u32::try_from(entry).unwrap_or(0));
        let removed = self.entries.swap_remove(entry);
        if self.fits() > 2 * (last + LEAST_STEP) {
            self.resize(last + (last / 8).max(LEAST_STEP));
        }
        removed
    }

    /// Returns the place of an entry whose key has that tag.
    pub(crate) fn place_of(&self, tag: u16, entry: usize) -> Place {
        Place { slot: self.slot_of(tag, entry), entry }
    }

    fn slot_of(&self, tag: u16, entry: usize) -> usize {
        let (slots, sought) = (self.slots as usize, word(tag, entry));
        let mut slot = home(tag, slots);
        while self.words[slot] & !MARK != sought {
            assert!(self.words[slot] != EMPTY, "equal keys have equal hashes at all times");
            slot = after(slot, slots);
        }
        slot
    }

    /// Empties a slot, and moves the words behind it so that each probe still finds its word.
    fn close_gap(&mut self, mut gap: usize) {
        let index = &mut self.words[..self.slots as usize];
        let slots = index.len();
        let distance = |from: usize, to: usize| (to + slots - from) % slots;
        let mut slot = after(gap, slots);
        while index[slot] != EMPTY {
            let home = home(tag_of(index[slot]), slots);
            if distance(home, slot) >= distance(gap, slot) {
                index[gap] = index[slot];
                gap = slot;
            }
            slot = after(slot, slots);
        }
        index[gap] = EMPTY;
    }

    /// Drops the count of the entry `to`, and gives it the count of the entry `from`.
    fn move_count(&mut self, from: usize, to: usize) {
        let counts = &mut self.words[self.slots as usize..];
        counts[to] = counts[from];
        counts[from] = 0;
        if let Some(wraps) = &mut self.wraps {
            if from != to {
                wraps.0.retain(|&(of, _)| of != to);
            }
            match wraps.0.iter().position(|&(of, _)| of == from) {
                Some(at) if from == to => drop(wraps.0.swap_remove(at)),
                Some(at) => wraps.0[at].0 = to,
                None => {}
            }
        }
    }

    /// Returns the number of entries for which there is memory.
    const fn fits(&self) -> usize {
        self.words.len() - self.slots as usize
    }

    /// Makes room for `len` entries, not fewer than there are, or for as many as a table can have.
    #[cold]
    fn resize(&mut self, len: usize) {
        let fits = len.min(Self::MAX_LEN);
        let slots = fits + fits / 4 + 1;
        let mut words = vec![EMPTY; slots + fits].into_boxed_slice();
        let (index, counts) = words.split_at_mut(slots);
        let (old_index, old_counts) = self.words.split_at(self.slots as usize);
        for &word in old_index.iter().filter(|&&word| word != EMPTY) {
            place(index, word);
        }
        for (count, old) in counts.iter_mut().zip(old_counts) {
            *count = *old;
        }
        self.entries.shrink_to(fits);
        self.entries.reserve_exact(fits - self.entries.len());
        self.words = words;
        self.slots = u32::try_from(slots).expect("at most 5/4 of the greatest length");
    }
}

impl<K, V> Default for KeyTable<K, V> {
    fn default() -> Self {
        Self { entries: Vec::new(), words: Box::default(), slots: 0, cursor: 0, wraps: None }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    /// Few tags, so that keys collide and probes wrap around.
    fn tag(key: u16) -> u16 {
        [0, 1, 0x8000, 0xFFFE, 0xFFFF][usize::from(key % 5)]
    }

    #[derive(Clone, Copy, Debug)]
    enum Operation {
        Insert(u16),
        Remove(u16),
        Count(u16),
        Mark(u16),
    }

    fn operation() -> impl Strategy<Value = Operation> {
        let key = 0..200_u16;
        prop_oneof![
            4 => key.clone().prop_map(Operation::Insert),
            3 => key.clone().prop_map(Operation::Remove),
            1 => key.clone().prop_map(Operation::Count),
            1 => key.prop_map(Operation::Mark),
        ]
    }

    type Model = HashMap<u16, (u64, bool)>;

    fn apply(table: &mut KeyTable<u16, u32>, model: &mut Model, operation: Operation) {
        let found = |table: &KeyTable<u16, u32>, key| table.find(tag(key), &key);
        match operation {
            Operation::Insert(key) if !model.contains_key(&key) => {
                table.insert(tag(key), key, u32::from(key) * 3);
                model.insert(key, (0, false));
            }
            Operation::Remove(key) if model.remove(&key).is_some() => {
                let entry = found(table, key).unwrap().entry;
                assert_eq!(table.remove(entry, |&key| tag(key)), (key, u32::from(key) * 3));
            }
            Operation::Count(key) if let Some((count, _)) = model.get_mut(&key) => {
                table.count(found(table, key).unwrap().entry);
                *count += 1;
            }
            Operation::Mark(key) if let Some((_, mark)) = model.get_mut(&key) => {
                table.mark(found(table, key).unwrap());
                *mark = true;
            }
            _ => {}
        }
    }

    proptest! {
        #[test]
        fn table_is_a_map(operations in proptest::collection::vec(operation(), 1..600)) {
            let (mut table, mut model) = (KeyTable::default(), Model::new());
            for operation in operations {
                apply(&mut table, &mut model, operation);
            }
            prop_assert_eq!(table.len(), model.len());
            for key in 0..200 {
                let place = table.find(tag(key), &key);
                let found = place.map(|place| {
                    assert_eq!(*table.value(place.entry), u32::from(key) * 3);
                    (table.count_of(place.entry), table.is_marked(place))
                });
                prop_assert_eq!(found, model.get(&key).copied());
            }
        }
    }

    #[test]
    fn counts_have_more_than_32_bits() {
        let mut table = KeyTable::<u16, ()>::default();
        for key in 0..3 {
            table.insert(key, key, ());
        }
        for (entry, times) in [(0, 1), (1, 2), (2, 3)] {
            for _ in 0..times {
                let at = table.slots as usize + entry;
                table.words[at] = u32::MAX;
                table.count(entry);
            }
        }
        let counts = |table: &KeyTable<u16, ()>| {
            table.counts().map(|(&key, count)| (key, count >> 32)).collect::<Vec<_>>()
        };
        assert_eq!(counts(&table), [(0, 1), (1, 2), (2, 3)]);
        table.remove(0, |&key| key);
        assert_eq!(counts(&table), [(2, 3), (1, 2)], "the last entry took the place of the first");
        table.remove(1, |&key| key);
        table.insert(7, 7, ());
        assert_eq!(counts(&table), [(2, 3), (7, 0)]);
    }

    #[test]
    fn entries_are_returned_in_turn() {
        let mut table = KeyTable::<u16, ()>::default();
        assert_eq!(table.next_entry(), None);
        for key in 0..3 {
            table.insert(key, key, ());
        }
        let turn = [(); 4].map(|()| table.next_entry());
        assert_eq!(turn, [Some(0), Some(1), Some(2), Some(0)]);
        table.remove(0, |&key| key);
        assert_eq!(table.next_entry().map(|entry| *table.key(entry)), Some(2), "in its place");
    }

    #[test]
    fn memory_follows_the_number_of_entries() {
        let mut table = KeyTable::<u16, u64>::default();
        for key in 0..1_000 {
            table.insert(key * 65, key, 0);
            let len = usize::from(key) + 1;
            assert!(table.fits() <= len + len / 8 + LEAST_STEP, "{len}");
            assert_eq!(table.entries.capacity(), table.fits());
        }
        for key in (0..1_000_u16).rev() {
            let entry = table.find(key * 65, &key).unwrap().entry;
            table.remove(entry, |&key| key * 65);
            assert!(table.fits() <= 2 * (usize::from(key) + LEAST_STEP), "{key}");
        }
    }

    #[test]
    fn panic_of_a_hash_function_leaves_the_table() {
        let mut table = KeyTable::<u16, u32>::default();
        for key in 0..10 {
            table.insert(key, key, 0);
        }
        let panics = std::panic::AssertUnwindSafe(|| table.remove(3, |_| panic!("no hash")));
        assert!(std::panic::catch_unwind(panics).is_err());
        assert!((0..10).all(|key| table.find(key, &key).is_some()) && table.len() == 10);
    }
}
