//! The bucket in hand: what a thread recorded in last, so that it need not look for it again.

use std::cell::{Cell, OnceCell};

use crate::cell_list::Place;
use crate::gauge::{Gauge, GaugeHand};
use crate::hold::{CurrentBucket, HeldWrap};
use crate::leap_array::LeapArray;
use crate::metric_bucket::MetricBucket;
use crate::metric_cell::{CellWriter, MetricCell};
use crate::sync::stall::{self, Point};
use crate::sync::{ThreadLease, ThreadToken, thread_local};
use crate::timestamp::Timestamp;

thread_local! {
    static HANDS: Hands = const { Hands::new() };
}

/// Records in the bucket of `now`.
///
/// While `now` lies in the span of the wrap in hand, no shared memory is read: a bucket number has
/// one wrap only, so this is it. Should it have been retired meanwhile, the add is expired, as if
/// the thread had stalled between looking the wrap up and adding to it.
#[inline(always)]
#[expect(clippy::inline_always, reason = "out of line it asks at each add which event it is")]
pub(crate) fn record(array: &LeapArray<MetricBucket>, now: Timestamp, op: impl Fn(CellWriter<'_>)) {
    let Some(hand) = pick_up(array, now) else {
        return take_up(array, now, None, move |cell, _| op(cell));
    };
    match hand.cell() {
        Some(cell) if hand.owned => op(CellWriter { cell, owned: true }),
        cell => record_shared(cell, op),
    }
    put_back(hand);
}

/// The same for a resource, whose gauge goes with its array.
#[inline(always)]
#[expect(clippy::inline_always, reason = "as for `record`")]
pub(crate) fn record_beside(
    gauge: &Gauge,
    array: &LeapArray<MetricBucket>,
    now: Timestamp,
    op: impl Fn(CellWriter<'_>, &GaugeHand),
) {
    let Some(hand) = pick_up(array, now) else { return take_up_both(gauge, array, now, op) };
    match (hand.cell(), &hand.gauge) {
        (Some(cell), Some(gauge)) if hand.owned => op(CellWriter { cell, owned: true }, gauge),
        (cell, Some(gauge)) => record_shared(cell, |cell| op(cell, gauge)),
        (_, None) => return take_up_both(gauge, array, now, op),
    }
    put_back(hand);
}

#[cold]
fn take_up_both(
    gauge: &Gauge,
    array: &LeapArray<MetricBucket>,
    now: Timestamp,
    op: impl Fn(CellWriter<'_>, &GaugeHand),
) {
    let hand = gauge.hand(ThreadToken::current());
    take_up(array, now, Some(hand), |cell, hand| hand.into_iter().for_each(|hand| op(cell, hand)));
}

/// Records in a cell that others write as well.
#[inline(never)]
fn record_shared(cell: Option<&MetricCell>, op: impl Fn(CellWriter<'_>)) {
    let cell = cell.expect("a hand has a cell");
    op(CellWriter { cell, owned: false });
}

/// Takes the hand of that array, if `now` is in the span of its wrap.
///
/// Taken out of its place meanwhile, which spares a borrow flag: whoever records in the middle of a
/// record finds an empty hand.
#[inline(always)]
#[expect(clippy::inline_always, reason = "part of `record`")]
fn pick_up(array: &LeapArray<MetricBucket>, now: Timestamp) -> Option<Box<Hand>> {
    let taken = HANDS.try_with(|hands| {
        let place = hands.place_of(array.id())?;
        let hand = place.take()?;
        if hand.is_of(array, now) {
            return Some(hand);
        }
        place.set(Some(hand));
        None
    });
    // A thread that is ending has no hands any more.
    taken.ok().flatten()
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "part of `record`")]
fn put_back(hand: Box<Hand>) {
    let _ = HANDS.try_with(|hands| {
        if let Some(place) = hands.place_of(hand.array) {
            place.set(Some(hand));
        }
    });
}

/// Looks the bucket up, records in it, and keeps it in hand.
#[cold]
fn take_up(
    array: &LeapArray<MetricBucket>,
    now: Timestamp,
    gauge: Option<GaugeHand>,
    op: impl Fn(CellWriter<'_>, Option<&GaugeHand>),
) {
    let lease = ThreadLease::current();
    let token = lease.as_ref().map_or(ThreadToken::SHARED, ThreadLease::token);
    let bucket = array.current_bucket(now);
    stall::at(Point::BucketFound);
    let place = bucket.place(token);
    op(bucket.writer(&place), gauge.as_ref());
    stall::at(Point::Added);
    let (CurrentBucket::InTime(wrap), Some(lease)) = (bucket, lease) else { return };
    let hand = Hand {
        array: array.id(),
        start: wrap.start(),
        owned: place.is_owned(),
        wrap: wrap.to_owned(),
        place,
        gauge,
        _lease: lease,
    };
    // Given back first, so that the wrap is this hand's and the array's alone.
    drop(wrap);
    let _ = HANDS.try_with(|hands| {
        if hand.is_whole(array) {
            hands.keep(hand);
        } else {
            // The one before is not the last any more, either.
            hands.place_of(array.id()).map(Cell::take);
        }
    });
}

/// A wrap, and this thread's place in it.
#[derive(Debug)]
struct Hand {
    /// The number of the array.
    array: u64,
    /// The wrap's, where nobody writes: beside the wrap's own, another thread counts.
    start: Timestamp,
    /// Whether the cell is this thread's own.
    owned: bool,
    wrap: HeldWrap<MetricBucket>,
    place: Place<MetricCell>,
    /// And its place in the gauge of the resource, if the array is one's.
    gauge: Option<GaugeHand>,
    /// The places may be this thread's own: so must its token be, for as long.
    _lease: ThreadLease,
}

impl Hand {
    /// Whether the bucket ends before time does. The last one of all is cut short: its start and
    /// length would take in, by wrapping around, the first times that there are.
    fn is_whole(&self, array: &LeapArray<MetricBucket>) -> bool {
        self.start.as_nanos().checked_add(array.config().bucket_nanos() - 1).is_some()
    }

    #[inline]
    fn is_of(&self, array: &LeapArray<MetricBucket>, now: Timestamp) -> bool {
        let age = now.as_nanos().wrapping_sub(self.start.as_nanos());
        self.array == array.id() && age < array.config().bucket_nanos()
    }

    #[inline]
    fn cell(&self) -> Option<&MetricCell> {
        match self.place.further_cell() {
            Some(cell) => Some(cell),
            None => Some(self.wrap.get()?.bucket().first_cell()),
        }
    }
}

/// The hands of one thread: a table by the array's number, in which each array has one place.
struct Hands(OnceCell<Box<[HandCell; HANDS_LEN]>>);

/// 8 KiB a thread, made when it first records. Of arrays that meet in one place, the last one is in
/// hand.
const HANDS_LEN: usize = 1_024;

type HandCell = Cell<Option<Box<Hand>>>;

impl Hands {
    const fn new() -> Self {
        Self(OnceCell::new())
    }

    #[inline]
    fn place_of(&self, array: u64) -> Option<&HandCell> {
        self.0.get().map(|table| &table[Self::index(array)])
    }

    fn keep(&self, hand: Hand) {
        if self.0.get().is_none() {
            // Not `get_or_init`, which panics if it is come to once more from within.
            let _ = self.0.set(Box::new([const { Cell::new(None) }; HANDS_LEN]));
        }
        let Some(table) = self.0.get() else { return };
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
        (array % HANDS_LEN as u64) as usize
    }
}
