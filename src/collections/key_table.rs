//! A map with open addressing, for a table behind a lock.

use std::borrow::Borrow;

/// A map from keys to values, with a count and a mark for each key. A small table behind a lock:
/// one of many shards.
///
/// The table is a hash table with linear probing. Each slot has an entry and, in an array of its
/// own, a word:
///
/// ```text
/// { tag: 16, mark: 1, count: 15 }        without a meaning if the slot has no entry
/// ```
///
/// The *tag* is a part of the key's hash. The home slot of a key follows from its tag alone, so the
/// table grows, shrinks and closes gaps without computing a hash. A look-up compares the keys of
/// entries with an equal tag: a tag identifies no key.
///
/// The address of an entry follows from the hash, not from a word, so that a processor loads both
/// at the same time. An entry without a key takes no memory of its own if the value has a bit
/// pattern to spare, as a [`NonZero`](std::num::NonZero) has.
///
/// The table grows by an eighth, so no change takes more than one pass over it. At most 5/6 of the
/// slots are in use, and after the first few keys at least 13/18, unless keys were removed.
///
/// A list has the part of each count that exceeds 15 bits, which few counts do. If the same key is
/// counted several times in a row, the number of times is in the table itself, beside its lock,
/// until it is added to the count. So threads that count the same key contend for one cache line,
/// and not for two.
#[derive(Debug)]
pub(crate) struct KeyTable<K, V> {
    entries: Box<[Option<(K, V)>]>,
    words: Box<[u32]>,
    len: u16,
    /// The slot that [`next_slot`](Self::next_slot) returns next.
    cursor: u16,
    row: KeyRun,
    wraps: Option<Box<Wraps>>,
}

/// How often a key was counted in a row, without the first time.
#[derive(Clone, Copy, Debug, Default)]
struct KeyRun {
    /// The slot that was counted last. Without a meaning if `times` is 0.
    slot: u16,
    times: u16,
}

/// The slots whose counts have wrapped around, and how often.
#[derive(Debug)]
struct Wraps(Vec<(usize, u64)>);

/// A slot with an entry: what the table has for a key.
#[derive(Debug)]
pub(crate) struct KeySlot<'a, V> {
    pub(crate) value: &'a mut V,
    word: &'a mut u32,
}

const TAG_SHIFT: u32 = 16;
const MARK: u32 = 1 << 15;
const COUNT: u32 = MARK - 1;

/// The number of entries by which the smallest table grows.
const LEAST_STEP: usize = 4;

#[inline]
const fn tag_of(word: u32) -> u16 {
    (word >> TAG_SHIFT) as u16
}

/// Returns the slot at which the probe for a tag begins.
#[inline]
const fn home(tag: u16, slots: usize) -> usize {
    (tag as usize * slots) >> TAG_SHIFT
}

impl KeyRun {
    /// The most times: as many as the bits of a count can have.
    const MOST: u16 = (1 << COUNT.count_ones()) - 1;
}

/// Returns the number of a slot in half the bits: a table has fewer than 2¹⁶ slots.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "a table has fewer slots")]
const fn narrow(slot: usize) -> u16 {
    slot as u16
}

/// Returns the slot after a slot.
#[inline]
const fn after(slot: usize, slots: usize) -> usize {
    if slot + 1 == slots { 0 } else { slot + 1 }
}

impl<K, V> KeyTable<K, V> {
    /// The greatest number of entries.
    pub(crate) const MAX_LEN: usize = (1 << 15) - 1;

    #[inline]
    pub(crate) fn len(&self) -> usize {
        usize::from(self.len)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len() == Self::MAX_LEN
    }

    /// Returns the slot of a key, whose hash has that tag.
    #[inline]
    pub(crate) fn find<Q: ?Sized + Eq>(&self, tag: u16, key: &Q) -> Option<usize>
    where
        K: Borrow<Q>,
    {
        let entries = &*self.entries;
        let words = self.words.get(..entries.len())?;
        let mut slot = home(tag, words.len());
        // Ends: the table has a slot without an entry, unless it has no slot.
        while let Some(&word) = words.get(slot)
            && let Some((found, _)) = &entries[slot]
        {
            if tag_of(word) == tag && found.borrow() == key {
                return Some(slot);
            }
            slot = after(slot, words.len());
        }
        None
    }

    /// Returns the value of a slot.
    ///
    /// # Panics
    ///
    /// Panics if the slot has no entry.
    pub(crate) fn value(&self, slot: usize) -> &V {
        &self.entries[slot].as_ref().expect("the slot of a key").1
    }

    /// Returns a slot, to be changed.
    ///
    /// # Panics
    ///
    /// Panics if the slot has no entry.
    #[inline]
    pub(crate) fn slot_mut(&mut self, slot: usize) -> KeySlot<'_, V> {
        let (_, value) = self.entries[slot].as_mut().expect("the slot of a key");
        KeySlot { value, word: &mut self.words[slot] }
    }

    pub(crate) fn is_marked(&self, slot: usize) -> bool {
        self.words[slot] & MARK != 0
    }

    /// Returns the count of a key.
    pub(crate) fn count_of(&self, slot: usize) -> u64 {
        let wraps = self.wraps.as_deref().map_or(&[][..], |wraps| &wraps.0);
        let high = wraps.iter().find(|(of, _)| *of == slot).map_or(0, |&(_, times)| times);
        let in_a_row = if usize::from(self.row.slot) == slot { self.row.times } else { 0 };
        (high << COUNT.count_ones() | u64::from(self.words[slot] & COUNT)) + u64::from(in_a_row)
    }

    /// Adds one to the count of the key of a slot.
    #[inline]
    pub(crate) fn count(&mut self, slot: usize) {
        let KeyRun { slot: last, times } = self.row;
        if usize::from(last) == slot && times < KeyRun::MOST {
            self.row.times = times + 1;
        } else {
            self.count_other(slot);
        }
    }

    /// Adds one to the count of a key that was not counted last, or was as often as a row can have.
    #[inline(never)]
    fn count_other(&mut self, slot: usize) {
        self.end_row();
        self.add(slot, 1);
        self.row.slot = narrow(slot);
    }

    /// Adds the times in a row to the count.
    fn end_row(&mut self) {
        let KeyRun { slot, times } = std::mem::take(&mut self.row);
        if times > 0 {
            self.add(usize::from(slot), times);
        }
    }

    /// Adds to the count of a key, at most once around.
    fn add(&mut self, slot: usize, times: u16) {
        let word = &mut self.words[slot];
        let sum = (*word & COUNT) + u32::from(times);
        *word = *word & !COUNT | sum & COUNT;
        if sum > COUNT {
            self.wrap(slot);
        }
    }

    #[cold]
    fn wrap(&mut self, slot: usize) {
        let wraps = &mut self.wraps.get_or_insert_with(|| Box::new(Wraps(Vec::new()))).0;
        match wraps.iter_mut().find(|(of, _)| *of == slot) {
            Some((_, times)) => *times += 1,
            None => wraps.push((slot, 1)),
        }
    }

    /// Returns each key with its count.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (&K, u64)> {
        let entries = self.entries.iter().enumerate();
        entries.filter_map(|(slot, entry)| Some((&entry.as_ref()?.0, self.count_of(slot))))
    }

    /// Returns the number of slots.
    pub(crate) const fn slots(&self) -> usize {
        self.entries.len()
    }

    /// Returns a slot, and the next one at the next call, in turn; `None` if there is none. A slot
    /// whose key is removed is returned once more, because another key may have moved into it.
    pub(crate) fn next_slot(&mut self) -> Option<usize> {
        let cursor = usize::from(self.cursor);
        let slot = if cursor < self.slots() { cursor } else { 0 };
        if self.slots() == 0 {
            return None;
        }
        self.cursor = narrow(slot + 1);
        Some(slot)
    }

    /// Returns the key of a slot and its value, if it has one.
    pub(crate) fn entry_in(&self, slot: usize) -> Option<&(K, V)> {
        self.entries[slot].as_ref()
    }

    /// Returns each key with its value.
    pub(crate) fn entries_mut(&mut self) -> impl Iterator<Item = (&K, &mut V)> {
        self.entries.iter_mut().flatten().map(|(key, value)| (&*key, value))
    }

    /// Inserts a key that the table does not have, with a count of 0 and without a mark. Returns
    /// its slot.
    ///
    /// # Panics
    ///
    /// Panics if the table is [full](Self::is_full).
    pub(crate) fn insert(&mut self, tag: u16, key: K, value: V) -> usize {
        assert!(!self.is_full(), "the caller has checked that there is room");
        if self.len() == Self::fits(self.slots()) {
            self.resize(self.len() + (self.len() / 8).max(LEAST_STEP));
        }
        self.len += 1;
        self.place(u32::from(tag) << TAG_SHIFT, (key, value))
    }

    /// Puts an entry into the first slot without one from its home.
    fn place(&mut self, word: u32, entry: (K, V)) -> usize {
        let mut slot = home(tag_of(word), self.slots());
        while self.entries[slot].is_some() {
            slot = after(slot, self.slots());
        }
        self.words[slot] = word;
        self.entries[slot] = Some(entry);
        slot
    }

    /// Removes the key of a slot, and returns it with its value.
    ///
    /// # Panics
    ///
    /// Panics if the slot has no entry.
    pub(crate) fn remove(&mut self, slot: usize) -> (K, V) {
        let removed = self.entries[slot].take().expect("the slot of a key");
        self.end_row();
        if let Some(wraps) = &mut self.wraps {
            wraps.0.retain(|&(of, _)| of != slot);
        }
        self.len -= 1;
        // Another entry may have moved into the slot that was just returned in turn. For any other
        // slot, the turn goes on: otherwise, removals at the begin would keep it there.
        if usize::from(self.cursor) == slot + 1 {
            self.cursor = narrow(slot);
        }
        self.close_gap(slot);
        if Self::fits(self.slots()) > 2 * (self.len() + LEAST_STEP) {
            self.resize(self.len() + (self.len() / 8).max(LEAST_STEP));
        }
        removed
    }

    /// Moves the entries behind a slot without one so that each probe still finds its entry.
    fn close_gap(&mut self, mut gap: usize) {
        let slots = self.slots();
        let distance =
            |from: usize, to: usize| if to >= from { to - from } else { to + slots - from };
        let mut slot = after(gap, slots);
        while self.entries[slot].is_some() {
            let home = home(tag_of(self.words[slot]), slots);
            if distance(home, slot) >= distance(gap, slot) {
                self.words[gap] = self.words[slot];
                self.entries[gap] = self.entries[slot].take();
                let wraps = self.wraps.as_deref_mut().map_or(&mut [][..], |wraps| &mut wraps.0);
                for (of, _) in wraps.iter_mut().filter(|(of, _)| *of == slot) {
                    *of = gap;
                }
                gap = slot;
            }
            slot = after(slot, slots);
        }
    }

    /// Returns the number of entries that fit into slots, of which at least one stays empty.
    const fn fits(slots: usize) -> usize {
        slots * 5 / 6
    }

    /// Makes room for `len` entries, not fewer than there are, or for as many as a table can have.
    #[cold]
    fn resize(&mut self, len: usize) {
        let slots = (len.min(Self::MAX_LEN) * 6).div_ceil(5);
        self.end_row();
        let resized = Self {
            entries: (0..slots).map(|_| None).collect(),
            words: vec![0; slots].into_boxed_slice(),
            len: self.len,
            // The same part of the table, so that entries stay on their side of the cursor.
            cursor: narrow(usize::from(self.cursor) * slots / self.slots().max(1)),
            row: KeyRun::default(),
            wraps: None,
        };
        let old = std::mem::replace(self, resized);
        let mut wraps = old.wraps;
        let moved = wraps.as_deref().map(|wraps| wraps.0.clone()).unwrap_or_default();
        if let Some(wraps) = &mut wraps {
            wraps.0.clear();
        }
        for (slot, (entry, word)) in old.entries.into_iter().zip(old.words).enumerate() {
            let Some(entry) = entry else { continue };
            let to = self.place(word, entry);
            if let Some(wraps) = &mut wraps {
                let times = moved.iter().filter(|(of, _)| *of == slot);
                wraps.0.extend(times.map(|&(_, times)| (to, times)));
            }
        }
        self.wraps = wraps;
    }
}

impl<V> KeySlot<'_, V> {
    #[inline]
    pub(crate) const fn is_marked(&self) -> bool {
        *self.word & MARK != 0
    }

    #[inline]
    pub(crate) const fn mark(&mut self) {
        *self.word |= MARK;
    }
}

impl<K, V> Default for KeyTable<K, V> {
    fn default() -> Self {
        Self {
            entries: Box::default(),
            words: Box::default(),
            len: 0,
            cursor: 0,
            row: KeyRun::default(),
            wraps: None,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::HashMap;
    use std::num::NonZeroU64;

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
        Count(u16, u32),
        Mark(u16),
    }

    fn operation() -> impl Strategy<Value = Operation> {
        let key = 0..200_u16;
        prop_oneof![
            4 => key.clone().prop_map(Operation::Insert),
            3 => key.clone().prop_map(Operation::Remove),
            2 => (key.clone(), prop_oneof![1..3_u32, 30_000..40_000_u32])
                .prop_map(|(key, times)| Operation::Count(key, times)),
            1 => key.prop_map(Operation::Mark),
        ]
    }

    type Model = HashMap<u16, (u64, bool)>;

    fn apply(table: &mut KeyTable<u16, u32>, model: &mut Model, operation: Operation) {
        let found = |table: &KeyTable<u16, u32>, key| table.find(tag(key), &key);
        match operation {
            Operation::Insert(key) if !model.contains_key(&key) => {
                let slot = table.insert(tag(key), key, u32::from(key) * 3);
                assert_eq!(found(table, key), Some(slot));
                model.insert(key, (0, false));
            }
            Operation::Remove(key) if model.remove(&key).is_some() => {
                let slot = found(table, key).unwrap();
                assert_eq!(table.remove(slot), (key, u32::from(key) * 3));
            }
            Operation::Count(key, times) if model.contains_key(&key) => {
                let slot = found(table, key).unwrap();
                (0..times).for_each(|_| table.count(slot));
                model.get_mut(&key).unwrap().0 += u64::from(times);
            }
            Operation::Mark(key) if model.contains_key(&key) => {
                let slot = found(table, key).unwrap();
                table.slot_mut(slot).mark();
                model.get_mut(&key).unwrap().1 = true;
            }
            _ => {}
        }
    }

    proptest! {
        #[test]
        fn table_is_a_map(operations in proptest::collection::vec(operation(), 1..400)) {
            let (mut table, mut model) = (KeyTable::default(), Model::new());
            for operation in operations {
                apply(&mut table, &mut model, operation);
            }
            prop_assert_eq!(table.len(), model.len());
            for key in 0..200 {
                let found = table.find(tag(key), &key).map(|slot| {
                    assert_eq!(*table.value(slot), u32::from(key) * 3);
                    (table.count_of(slot), table.is_marked(slot))
                });
                prop_assert_eq!(found, model.get(&key).copied());
            }
            let mut counts: Vec<_> = table.counts().map(|(&key, count)| (key, count)).collect();
            counts.sort_unstable();
            let mut expected: Vec<_> = model.iter().map(|(&key, &(count, _))| (key, count)).collect();
            expected.sort_unstable();
            prop_assert_eq!(counts, expected);
        }
    }

    #[test]
    fn slots_are_returned_in_turn() {
        let mut table = KeyTable::<u16, ()>::default();
        assert_eq!(table.next_slot(), None);
        let slot = table.insert(0, 7, ());
        table.insert(0, 8, ());
        let slots = table.slots();
        assert!((0..2 * slots).all(|turn| table.next_slot() == Some(turn % slots)));
        for _ in 0..=slot {
            table.next_slot();
        }
        table.remove(slot);
        assert_eq!(table.next_slot(), Some(slot), "again, because key 8 has moved into it");
        assert_eq!(table.find(0, &8), Some(slot));
    }

    #[test]
    fn removal_elsewhere_does_not_turn_back() {
        let mut table = KeyTable::<u16, ()>::default();
        let removed = table.insert(0, 7, ());
        for key in 0..20 {
            table.insert(key * 3_000, key, ());
        }
        let slots = table.slots();
        let ahead = (removed + slots / 2) % slots;
        while table.next_slot() != Some(ahead) {}
        table.remove(removed);
        assert_eq!(table.slots(), slots);
        assert_eq!(table.next_slot(), Some((ahead + 1) % slots));
    }

    #[test]
    fn memory_follows_the_number_of_entries() {
        type Table = KeyTable<u16, NonZeroU64>;
        assert_eq!(size_of::<Option<(u64, NonZeroU64)>>(), 16, "a key and a value, no more");
        let mut table = Table::default();
        for key in 0..1_000 {
            table.insert(key * 65, key, NonZeroU64::MIN);
            let len = usize::from(key) + 1;
            assert!(table.slots() <= (len + len / 8 + LEAST_STEP) * 6 / 5 + 1, "{len}");
            assert!(table.len() < table.slots());
        }
        for key in (0..1_000_u16).rev() {
            table.remove(table.find(key * 65, &key).unwrap());
            let fits = Table::fits(table.slots());
            assert!(fits <= 2 * (usize::from(key) + LEAST_STEP), "{key}");
        }
    }
}
