//! The sealed counts of one bucket, in five words if they fit.

use super::atomic_counts::AtomicCounts;
use crate::collections::Pool;
use crate::metric::{Counts, MetricEvent};
use crate::metric_array::cells::thread_cell::ThreadCell;
use crate::sync::{AtomicU32, AtomicU64, Ordering, Payload, RacyOnce, payload, seen_payload};

/// The number of rows that are made together.
const CHUNK: usize = if cfg!(loom) { 2 } else { 8 };

/// The number of words of a packed row.
const WORDS: usize = 5;

/// The mark in the header of a row whose counts are in its [`WideRow`].
const WIDE: u64 = 1 << 63;

/// The bits of one number in the words of a packed row.
#[derive(Clone, Copy)]
struct Field {
    word: usize,
    shift: u32,
    bits: u32,
}

/// The fields of a packed row. Word 0 is the header.
///
/// The widths are those of a busy resource in a bucket of a second: 16 million response times, each
/// below 68 seconds, whose sum is below 78 hours. A row with a larger number is wide.
const BUCKET: Field = Field { word: 0, shift: 0, bits: 40 };
const MAX_CONCURRENCY: Field = Field { word: 1, shift: 48, bits: 16 };
const MIN_RT: Field = Field { word: 2, shift: 0, bits: 36 };
const MAX_RT: Field = Field { word: 3, shift: 0, bits: 36 };
const RT_COUNT: Field = Field { word: 4, shift: 0, bits: 24 };

/// The field of each event.
const EVENTS: [Field; MetricEvent::COUNT] = {
    let mut fields = [Field { word: 0, shift: 0, bits: 0 }; MetricEvent::COUNT];
    let mut event = 0;
    while event < fields.len() {
        fields[event] = field_of(MetricEvent::EVENTS[event]);
        event += 1;
    }
    fields
};

#[inline]
const fn field_of(event: MetricEvent) -> Field {
    let (word, shift, bits) = match event {
        MetricEvent::Block => (0, 40, 23),
        MetricEvent::Rt => (1, 0, 48),
        MetricEvent::Pass => (2, 36, 28),
        MetricEvent::Success => (3, 36, 28),
        MetricEvent::Exception => (4, 24, 18),
        MetricEvent::Cancelled => (4, 42, 12),
        MetricEvent::ReservedPass => (4, 54, 10),
    };
    Field { word, shift, bits }
}

impl Field {
    const fn mask(self) -> u64 {
        (1 << self.bits) - 1
    }

    #[inline]
    const fn get(self, words: &[u64; WORDS]) -> u64 {
        words[self.word] >> self.shift & self.mask()
    }

    /// Puts a number into its bits, which are 0, and returns the bits of the number that have no
    /// room.
    #[inline]
    const fn put(self, words: &mut [u64; WORDS], number: u64) -> u64 {
        words[self.word] |= number << self.shift;
        number >> self.bits
    }
}

/// Returns whether most buckets do not have that event. The fields of such events are above
/// [`BUCKET`] and [`RT_COUNT`], and no other field is.
#[inline]
const fn is_seldom(event: MetricEvent) -> bool {
    match event {
        MetricEvent::Block
        | MetricEvent::Exception
        | MetricEvent::ReservedPass
        | MetricEvent::Cancelled => true,
        MetricEvent::Pass | MetricEvent::Success | MetricEvent::Rt => false,
    }
}

/// The counts of a bucket, in the words of a packed row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PackedCounts([u64; WORDS]);

impl PackedCounts {
    pub(crate) const ZERO: Self = Self([0; WORDS]);

    #[inline]
    pub(crate) fn counts(&self) -> Counts {
        unpack(&self.0)
    }

    /// Returns the bucket's number.
    #[inline]
    pub(crate) const fn bucket(&self) -> u64 {
        BUCKET.get(&self.0)
    }

    /// Returns whether an event that is seldom was counted. If not, such events need not be
    /// unpacked.
    #[inline]
    pub(crate) const fn has_seldom(&self) -> bool {
        let [header, .., last] = self.0;
        (header >> BUCKET.bits | last >> RT_COUNT.bits) != 0
    }

    /// Returns the counts, which have no event that is seldom.
    #[inline]
    pub(crate) fn frequent_counts(&self) -> Counts {
        Counts {
            events: MetricEvent::EVENTS.map(|event| self.frequent_event(event)),
            ..self.counts()
        }
    }

    /// Returns the count of `event`, as 0 if the event is seldom.
    #[inline]
    pub(crate) const fn frequent_event(&self, event: MetricEvent) -> u64 {
        if is_seldom(event) { 0 } else { self.event(event) }
    }

    /// Returns the count of `event`. That of response times is their sum.
    #[inline]
    pub(crate) const fn event(&self, event: MetricEvent) -> u64 {
        field_of(event).get(&self.0)
    }
}

/// Counts to seal.
#[derive(Debug)]
pub(crate) enum SealedCounts {
    Packed(PackedCounts),
    /// Counts with a number that has no room in a packed row.
    Wide(Counts),
}

impl SealedCounts {
    /// Packs the counts of a bucket.
    pub(crate) fn of(bucket: u64, counts: &Counts) -> Self {
        pack(bucket, counts).map_or(Self::Wide(*counts), |words| Self::Packed(PackedCounts(words)))
    }

    /// Packs the counts of a cell, as its owner: from the cell itself, since a copy would be
    /// written to the stack.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "otherwise the counts are copied")]
    pub(crate) fn of_cell(bucket: u64, cell: &ThreadCell) -> Self {
        match pack(bucket, &cell.owned_counts()) {
            Some(words) => Self::Packed(PackedCounts(words)),
            None => Self::wide(cell),
        }
    }

    #[cold]
    #[inline(never)]
    fn wide(cell: &ThreadCell) -> Self {
        Self::Wide(cell.counts())
    }

    pub(crate) fn counts(&self) -> Counts {
        match self {
            Self::Packed(packed) => packed.counts(),
            Self::Wide(counts) => *counts,
        }
    }
}

/// Packs the counts of a bucket; returns `None` if a number has no room.
#[inline(always)]
#[expect(clippy::inline_always, reason = "otherwise the counts are copied")]
fn pack(bucket: u64, counts: &Counts) -> Option<[u64; WORDS]> {
    let mut words = [0; WORDS];
    let mut excess = BUCKET.put(&mut words, bucket) | counts.rt_nanos_high;
    // Without a loop, whose fields the compiler would look up.
    let mut put = |event| excess |= field_of(event).put(&mut words, counts.events[event as usize]);
    put(MetricEvent::Pass);
    put(MetricEvent::Success);
    put(MetricEvent::Rt);
    let [block, exception, reserved, cancelled] = [
        MetricEvent::Block,
        MetricEvent::Exception,
        MetricEvent::ReservedPass,
        MetricEvent::Cancelled,
    ];
    let count = |event| counts.events[event as usize];
    if count(block) | count(exception) | count(reserved) | count(cancelled) != 0 {
        put(block);
        put(exception);
        put(reserved);
        put(cancelled);
    }
    excess |= RT_COUNT.put(&mut words, counts.rt_count);
    excess |= MAX_RT.put(&mut words, counts.max_rt);
    excess |= MAX_CONCURRENCY.put(&mut words, counts.max_concurrency);
    // The low bits of `NO_MINIMUM`, which are all set, stand for no minimum, so a minimum must be
    // below them. The number after `NO_MINIMUM` has one bit, which is shifted out.
    words[MIN_RT.word] |= (counts.min_rt & MIN_RT.mask()) << MIN_RT.shift;
    excess |= (counts.min_rt.wrapping_add(1) << 1) >> (MIN_RT.bits + 1);
    (excess == 0).then_some(words)
}

#[inline]
fn unpack_events(words: &[u64; WORDS]) -> [u64; MetricEvent::COUNT] {
    let get = |event| field_of(event).get(words);
    [
        get(MetricEvent::Pass),
        get(MetricEvent::Block),
        get(MetricEvent::Exception),
        get(MetricEvent::Success),
        get(MetricEvent::Rt),
        get(MetricEvent::ReservedPass),
        get(MetricEvent::Cancelled),
    ]
}

#[inline]
fn unpack(words: &[u64; WORDS]) -> Counts {
    let minimum = MIN_RT.get(words);
    Counts {
        events: unpack_events(words),
        rt_nanos_high: 0,
        rt_count: RT_COUNT.get(words),
        min_rt: if minimum == MIN_RT.mask() { Counts::NO_MINIMUM } else { minimum },
        max_rt: MAX_RT.get(words),
        max_concurrency: MAX_CONCURRENCY.get(words),
    }
}

/// The sum of the counts of many rows, and of other counts.
///
/// Adding a packed row is cheaper than adding its [`Counts`]: its numbers are so small that their
/// sums do not overflow, but for the sum of the response times.
#[derive(Debug)]
pub(crate) struct CountsSum {
    /// The sum of the packed rows, with [`MIN_RT`]'s mask for no minimum.
    packed: Counts,
    others: Counts,
}

impl CountsSum {
    pub(crate) const ZERO: Self =
        Self { packed: Counts { min_rt: MIN_RT.mask(), ..Counts::ZERO }, others: Counts::ZERO };

    #[inline]
    pub(crate) fn add(&mut self, counts: &Counts) {
        self.others.add(counts);
    }

    #[inline]
    pub(crate) fn add_row(&mut self, row: Row<'_>) {
        const RT: usize = MetricEvent::Rt as usize;
        if let Some(wide) = row.wide {
            return self.add(&wide.counts.load());
        }
        let (words, sum) = (row.words(), &mut self.packed);
        // Fewer than 2²⁴ rows of at most 28 bits. Without a loop, as in `pack`.
        let mut add = |event| sum.events[event as usize] += field_of(event).get(&words);
        add(MetricEvent::Pass);
        add(MetricEvent::Block);
        add(MetricEvent::Exception);
        add(MetricEvent::Success);
        add(MetricEvent::ReservedPass);
        add(MetricEvent::Cancelled);
        let (low, carry) = sum.events[RT].overflowing_add(EVENTS[RT].get(&words));
        sum.events[RT] = low;
        sum.rt_nanos_high += u64::from(carry);
        sum.rt_count += RT_COUNT.get(&words);
        sum.min_rt = sum.min_rt.min(MIN_RT.get(&words));
        sum.max_rt = sum.max_rt.max(MAX_RT.get(&words));
        sum.max_concurrency = sum.max_concurrency.max(MAX_CONCURRENCY.get(&words));
    }

    pub(crate) fn counts(&self) -> Counts {
        let mut counts = self.packed;
        if counts.min_rt == MIN_RT.mask() {
            counts.min_rt = Counts::NO_MINIMUM;
        }
        counts.add(&self.others);
        counts
    }
}

/// The words of a row: a header, with the bucket's number and the mark [`WIDE`], and the others.
//
// Loom models the header and the word with the passes: the other words are written and read
// together with them.
#[derive(Debug)]
struct PackedRow {
    header: AtomicU64,
    words: [Payload; WORDS - 1],
}

/// The counts of a bucket that has a number with more bits than a packed row has room for.
#[derive(Debug)]
struct WideRow {
    bucket: Payload,
    counts: AtomicCounts,
}

/// The rows of a history, by their indices. Each row belongs to one bucket at a time.
///
/// # Wide rows
///
/// A row that once needed more room has a wide row, which belongs to it from then on. The header
/// tells whether the counts are in the words of the row or in the wide row. A wide row is filled
/// and read as the words of its row: by one thread, after a release fence and before a publication;
/// and by readers, which validate the head of the history after an acquire fence. A reader that
/// sees the mark of a row that is being filled may find no wide row yet. What it then reads has no
/// meaning, and since it has seen the mark, it finds that the head has moved on.
#[derive(Debug)]
pub(super) struct Rows {
    packed: Pool<PackedRow, CHUNK>,
    made: AtomicU32,
    wide: RacyOnce<Pool<WideRow>>,
}

impl Rows {
    /// The bytes of a row, with its wide row.
    pub(super) const BYTES: usize = size_of::<PackedRow>() + size_of::<WideRow>();

    /// Creates no rows, with room for pointers to at least `rows` rows.
    pub(super) fn with_capacity(rows: usize) -> Self {
        Self { packed: Pool::with_capacity(rows), made: AtomicU32::new(0), wide: RacyOnce::new() }
    }

    /// Makes a row, and returns its index.
    pub(super) fn make(&self) -> u32 {
        let index = self.made.fetch_add(1, Ordering::Relaxed);
        self.packed.make(index, PackedRow::new);
        index
    }

    /// Returns the number of rows that were made.
    #[cfg(all(test, not(loom)))]
    pub(super) fn made(&self) -> u32 {
        self.made.load(Ordering::Relaxed)
    }

    /// Returns the row with that index, which must have been made.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "otherwise a look-up takes twice the instructions")]
    pub(super) fn get(&self, index: u32) -> Row<'_> {
        let packed = self.packed.get(index);
        let header = packed.header.load(Ordering::Relaxed);
        let wide = if header & WIDE == 0 { None } else { self.find_wide(index) };
        Row { packed, header, wide }
    }

    #[cold]
    #[inline(never)]
    fn find_wide(&self, index: u32) -> Option<&WideRow> {
        self.wide.get()?.find(index)
    }

    /// Returns the counts of the row with that index, which must have been made; `None` if it is
    /// wide.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "part of most publications")]
    pub(super) fn get_packed(&self, index: u32) -> Option<PackedCounts> {
        let packed = self.packed.get(index);
        let header = packed.header.load(Ordering::Relaxed);
        (header & WIDE == 0).then(|| PackedCounts(Row { packed, header, wide: None }.words()))
    }

    /// Fills a row that no other thread writes: with `counts`, and the counts of `other` if there
    /// is one.
    pub(super) fn fill(
        &self,
        index: u32,
        bucket: u64,
        counts: &SealedCounts,
        other: Option<Row<'_>>,
    ) {
        let mut sum = counts.counts();
        if let Some(other) = other {
            sum.add(&other.counts());
        }
        match SealedCounts::of(bucket, &sum) {
            SealedCounts::Packed(packed) => self.fill_packed(index, &packed),
            SealedCounts::Wide(counts) => self.fill_wide(index, bucket, &counts),
        }
    }

    /// Fills a row that no other thread writes with packed counts.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "part of most publications")]
    pub(super) fn fill_packed(
        &self,
        index: u32,
        &PackedCounts([header, words @ ..]): &PackedCounts,
    ) {
        let packed = self.packed.get(index);
        packed.header.store(header, Ordering::Relaxed);
        for (word, value) in packed.words.iter().zip(words) {
            word.store(value, Ordering::Relaxed);
        }
    }

    fn fill_wide(&self, index: u32, bucket: u64, counts: &Counts) {
        let wide = self.wide.get_or_init(|| Pool::with_capacity(self.packed.capacity()));
        let wide = wide.make(index, WideRow::new);
        wide.bucket.store(bucket, Ordering::Relaxed);
        wide.counts.store(counts);
        self.packed.get(index).header.store(WIDE, Ordering::Relaxed);
    }
}

impl PackedRow {
    fn new() -> Self {
        let word = |word| if word == EVENTS[0].word { seen_payload(0) } else { payload(0) };
        Self { header: AtomicU64::new(0), words: std::array::from_fn(|index| word(index + 1)) }
    }
}

impl WideRow {
    fn new() -> Self {
        Self { bucket: seen_payload(0), counts: AtomicCounts::new() }
    }
}

/// The sealed counts of one bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<'a> {
    packed: &'a PackedRow,
    /// The header of the row when it was looked up.
    header: u64,
    /// The wide row, if the counts are there.
    wide: Option<&'a WideRow>,
}

impl Row<'_> {
    /// Returns the bucket's number.
    #[inline]
    pub(crate) fn bucket(self) -> u64 {
        match self.wide {
            None => self.header & BUCKET.mask(),
            Some(wide) => wide.bucket.load(Ordering::Relaxed),
        }
    }

    #[inline]
    pub(crate) fn counts(self) -> Counts {
        self.wide.map_or_else(|| unpack(&self.words()), |wide| wide.counts.load())
    }

    /// Returns the counts of all events. That of response times is the low half of their sum.
    #[inline]
    pub(crate) fn events(self) -> [u64; MetricEvent::COUNT] {
        match self.wide {
            None => unpack_events(&self.words()),
            Some(wide) => wide.counts.events().load_all(),
        }
    }

    /// Returns the count of `event`. That of response times is the low half of their sum.
    #[inline]
    pub(crate) fn event(self, event: MetricEvent) -> u64 {
        if let Some(wide) = self.wide {
            return wide.counts.events().load(event);
        }
        let Field { word, shift, bits } = EVENTS[event as usize];
        let word = match word.checked_sub(1) {
            None => self.header,
            Some(word) => self.packed.words[word].load(Ordering::Relaxed),
        };
        word >> shift & ((1 << bits) - 1)
    }

    #[inline]
    fn words(self) -> [u64; WORDS] {
        let [first, second, third, fourth] =
            self.packed.words.each_ref().map(|word| word.load(Ordering::Relaxed));
        [self.header, first, second, third, fourth]
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Returns the counts whose numbers are all the most that a packed row has room for.
    fn most() -> Counts {
        Counts {
            events: EVENTS.map(Field::mask),
            rt_nanos_high: 0,
            rt_count: RT_COUNT.mask(),
            min_rt: MIN_RT.mask() - 1,
            max_rt: MAX_RT.mask(),
            max_concurrency: MAX_CONCURRENCY.mask(),
        }
    }

    fn words_of(counts: &Counts) -> Vec<u64> {
        let Counts { rt_nanos_high, rt_count, min_rt, max_rt, max_concurrency, .. } = *counts;
        let others = [rt_nanos_high, rt_count, min_rt, max_rt, max_concurrency];
        counts.events.into_iter().chain(others).collect()
    }

    /// Fills a row and reads it. Returns whether it is wide.
    #[track_caller]
    fn is_wide(rows: &Rows, bucket: u64, counts: &Counts) -> bool {
        rows.fill(2, bucket, &SealedCounts::of(bucket, counts), None);
        let row = rows.get(2);
        assert_eq!(row.bucket(), bucket);
        assert_eq!(words_of(&row.counts()), words_of(counts));
        assert_eq!(row.events(), counts.events);
        for event in MetricEvent::EVENTS {
            assert_eq!(row.event(event), counts.events[event as usize], "{event:?}");
        }
        row.wide.is_some()
    }

    fn rows() -> Rows {
        let rows = Rows::with_capacity(1);
        (0..3).for_each(|index| assert_eq!(rows.make(), index));
        rows
    }

    #[test]
    fn fields_share_no_bit() {
        let others = [BUCKET, MAX_CONCURRENCY, MIN_RT, MAX_RT, RT_COUNT];
        let mut taken = [WIDE, 0, 0, 0, 0];
        for field in others.into_iter().chain(EVENTS) {
            assert!(field.shift + field.bits <= 64);
            let bits = field.mask() << field.shift;
            assert_eq!(taken[field.word] & bits, 0);
            taken[field.word] |= bits;
        }
        assert_eq!(taken, [u64::MAX; WORDS]);
    }

    #[test]
    fn each_number_is_read_as_it_was_filled_also_one_above_its_bits() {
        let rows = rows();
        let last = BUCKET.mask();
        assert!(!is_wide(&rows, 0, &Counts::ZERO));
        assert!(!is_wide(&rows, last, &most()));
        assert!(is_wide(&rows, last + 1, &Counts::ZERO));
        for (event, field) in MetricEvent::EVENTS.into_iter().zip(EVENTS) {
            for more in [1, 1 << 40, (1 << 62) - field.mask()] {
                let mut counts = most();
                counts.events[event as usize] += more;
                assert!(is_wide(&rows, last, &counts), "{event}");
            }
        }
        let wider: [fn(&mut Counts); 5] = [
            |counts| counts.rt_nanos_high = 1,
            |counts| counts.rt_count += 1,
            |counts| counts.min_rt += 1,
            |counts| counts.max_rt += 1,
            |counts| counts.max_concurrency += 1,
        ];
        for widen in wider {
            let mut counts = most();
            widen(&mut counts);
            assert!(is_wide(&rows, last, &counts), "{counts:?}");
        }
        let none = Counts { min_rt: Counts::NO_MINIMUM, ..most() };
        assert!(!is_wide(&rows, 7, &none), "a wide row becomes a packed one again");
    }

    #[test]
    fn sums_of_packed_rows_may_be_wide() {
        let rows = rows();
        let sealed = SealedCounts::of(5, &most());
        rows.fill(0, 5, &sealed, None);
        rows.fill(1, 5, &sealed, Some(rows.get(0)));
        let mut sum = most();
        sum.add(&most());
        assert_eq!(words_of(&rows.get(1).counts()), words_of(&sum));
        assert!(rows.get(1).wide.is_some() && rows.get(0).wide.is_none());
        rows.fill(2, 5, &sealed, Some(rows.get(1)));
        sum.add(&most());
        assert_eq!(words_of(&rows.get(2).counts()), words_of(&sum));
    }
}
