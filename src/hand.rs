//! The bucket in hand: what a thread recorded in last, so that it need not look for it again.

use std::cell::{Cell, OnceCell};

use crate::leap_array::LeapArray;
use crate::metric_bucket::{MetricBucket, Place};
use crate::metric_cell::CellWriter;
use crate::sync::{Arc, ThreadLease, ThreadToken, thread_local};
use crate::timestamp::Timestamp;
use crate::wrap::{BucketWrap, CurrentBucket};

thread_local! {
    static HANDS: Hands = const { Hands::new() };
}

/// Records in the bucket of `now`.
///
/// While `now` lies in the span of the wrap in hand, no shared memory is read: a bucket number has
/// one wrap only, so this is it. Should it have been retired meanwhile, the add is expired, as if
/// the thread had stalled between looking the wrap up and adding to it.
#[inline]
pub(crate) fn record(array: &LeapArray<MetricBucket>, now: Timestamp, op: impl Fn(CellWriter<'_>)) {
    let recorded = HANDS.try_with(|hands| {
        let Some(place) = hands.place_of(array.id()) else { return false };
        // Taken out meanwhile, which spares a borrow flag: whoever records in the middle of this,
        // as an allocator might, finds an empty hand.
        let Some(hand) = place.take() else { return false };
        let is_it = hand.is_of(array, now);
        if is_it {
            op(hand.writer());
        }
        place.set(Some(hand));
        is_it
    });
    if !recorded.unwrap_or(false) {
        take_up(array, now, op);
    }
}

/// Looks the bucket up, records in it, and keeps it in hand.
#[cold]
#[inline(never)]
fn take_up(array: &LeapArray<MetricBucket>, now: Timestamp, op: impl Fn(CellWriter<'_>)) {
    let lease = ThreadLease::current();
    let token = lease.as_ref().map_or(ThreadToken::SHARED, ThreadLease::token);
    let bucket = array.current_bucket(now);
    let place = bucket.place(token);
    op(bucket.writer(&place));
    if let (CurrentBucket::InTime(wrap), Some(lease)) = (bucket, lease) {
        let (array, start) = (array.id(), wrap.start());
        let hand = Hand { array, start, wrap: wrap.to_arc(), place, _lease: lease };
        // Given back first, so that the wrap is this hand's and the array's alone.
        drop(wrap);
        // A thread that is ending has no hands any more.
        let _ = HANDS.try_with(|hands| hands.keep(hand));
    }
}

/// A wrap, and this thread's place in it.
#[derive(Debug)]
struct Hand {
    /// The number of the array.
    array: u64,
    /// The wrap's, where nobody writes: beside the wrap's own, another thread counts.
    start: Timestamp,
    wrap: Arc<BucketWrap<MetricBucket>>,
    place: Place,
    /// The place may be this thread's own: so must its token be, for as long.
    _lease: ThreadLease,
}

impl Hand {
    #[inline]
    fn is_of(&self, array: &LeapArray<MetricBucket>, now: Timestamp) -> bool {
        let age = now.as_nanos().wrapping_sub(self.start.as_nanos());
        self.array == array.id() && age < array.config().bucket_nanos()
    }

    #[inline]
    fn writer(&self) -> CellWriter<'_> {
        self.wrap.bucket().writer(&self.place)
    }
}

/// The hands of one thread: a table by the array's number, in which each array has one place.
struct Hands(OnceCell<Box<[HandCell]>>);

type HandCell = Cell<Option<Box<Hand>>>;

impl Hands {
    /// 8 KiB a thread, made when it first records. Of arrays that meet in one place, the last one
    /// is in hand.
    const LEN: usize = 1_024;

    const fn new() -> Self {
        Self(OnceCell::new())
    }

    #[inline]
    fn place_of(&self, array: u64) -> Option<&HandCell> {
        self.0.get().and_then(|table| table.get(Self::index(array)))
    }

    fn keep(&self, hand: Hand) {
        let table = self.0.get_or_init(|| (0..Self::LEN).map(|_| Cell::new(None)).collect());
        let place = &table[Self::index(hand.array)];
        let kept = match place.take() {
            // The same memory, so that a rotation need not allocate.
            Some(mut box_of_hand) => {
                *box_of_hand = hand;
                box_of_hand
            }
            None => Box::new(hand),
        };
        place.set(Some(kept));
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the remainder is below the length")]
    const fn index(array: u64) -> usize {
        (array % Self::LEN as u64) as usize
    }
}
