//! Points at which a test can stop a thread. Outside of the crate's own tests, they compile to
//! nothing.

/// Defines the points and, for the tests, a list of them all.
macro_rules! points {
    ($($(#[$attribute:meta])* $point:ident,)*) => {
        /// A point in the middle of an operation, whose state other threads can observe.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Point {
            $($(#[$attribute])* $point,)*
        }

        #[cfg(all(test, not(loom)))]
        impl Point {
            pub(crate) const ALL: &[Self] = &[$(Self::$point),*];
        }
    };
}

points! {
    /// The value of a `RacyOnce` is made, and not published yet.
    Made,
    /// The bucket of an abandoned cell with a recorder is sealed, and its lifetime is not published
    /// yet.
    SealedToRetire,
    /// The lifetime of a cell is published, and its recorder is not given back yet.
    RetiredByOwner,
    /// A response time is recorded in its extremes, and not in its bin yet.
    BinFound,
    /// A response time is recorded in its bin, and not in the sum yet.
    BinCounted,
    /// An index was read from a slot, and its wrap is not pinned yet.
    IndexRead,
    /// The wrap is pinned, and the slot is not validated yet.
    Pinned,
    /// The thread is about to replace a stale wrap: with the lock, or after the last yield to its
    /// holder.
    Rotating,
    /// The retired list was read, and not edited yet.
    ListRead,
    /// A wrap has left its slot, or no longer has a start, and its pin count is not checked yet.
    Unplaced,
    /// The edited list is not swapped in yet.
    ListEdited,
    /// The edited list was swapped in: a wrap that was taken out of it belongs to this thread.
    ListSwapped,
    /// No thread has pinned the wrap that is about to be recycled.
    Unpinned,
    /// The wrap is not live, and not empty yet.
    NotLive,
    /// The wrap is empty, and has no start yet.
    Emptied,
    /// The wrap has its start, and is not live yet.
    Started,
    /// A wrap that was taken out of the list is not used, and not back in the list yet.
    RecycleRefused,
    /// A new index was taken, and its wrap is not made yet.
    IndexTaken,
    /// A fresh wrap is ready, and not in its slot yet.
    Fresh,
    /// The slot was swapped, and the wrap that was replaced is not marked yet.
    Swapped,
    /// Another thread has swapped the slot first, and the fresh wrap is not back in the list yet.
    SwapLost,
    /// A test has looked up the bucket of an array, and has not added to it yet. The test itself
    /// comes to this point.
    #[cfg(all(test, not(loom)))]
    BucketFound,
    /// An owned counter was read, and not written yet.
    CounterRead,
    /// The thread owns a cell that is not in its thread cache yet.
    CellTaken,
    /// A cell was seen to be abandoned, and is not adopted yet.
    AbandonedSeen,
    /// An abandoned cell was adopted by a sweep, and is not retired yet.
    Adopted,
    /// The top of the slab's free cells was read, and not taken yet.
    FreeCellSeen,
    /// The thread's cell is sealed or was not bound, and is not bound to the new bucket yet.
    Unbound,
    /// The cell's counters are zero, and its state does not say yet that it is bound.
    CellZeroed,
    /// The cell is bound, and the thread has not added to it yet.
    Bound,
    /// A member of a mask was found idle, and is not removed from the mask yet.
    IdleSeen,
    /// The top of the free descriptors was read, and not taken yet.
    FreeDescriptorSeen,
    /// A complete head was read, and nothing was filled yet.
    HeadRead,
    /// A row and a descriptor are filled, and not published yet.
    Filled,
    /// The row and the descriptor are published, and no step is completed yet.
    Published,
    /// A head was found whose steps are not completed, and the thread has not read the steps yet.
    IncompleteSeen,
    /// The steps of a publication are known, and this thread has not taken any yet.
    StepsRead,
    /// The row is in its slot, and the cell not sealed yet.
    SlotChanged,
    /// The cell is sealed, and the head not complete yet.
    CellSealed,
    /// A reader has read the head, and has not added anything up yet.
    MomentTaken,
    /// A reader that goes back in time has visited a slot, and has not visited the next one yet.
    SlotVisited,
    /// A reader without a pin has found the start that it looks for, and has read no counter yet.
    StartSeen,
    /// A reader has added up the counts, and has not validated the read yet.
    Counted,
    /// The wraps in all slots are pinned, and the retired list is not read yet.
    SlotsPinned,
    /// A pending wrap was found in the list, and is not pinned yet.
    PendingFound,
    /// The pending wrap is pinned, and its start is not compared yet.
    PendingPinned,
    /// The start of the pending wrap is the start in the list, and its counts are not added up yet.
    PendingValidated,
    /// A resource is gone, and its name is not removed from the map yet.
    Gone,
    /// The end of a request that entered in another cell is noted, and not counted yet.
    EndNoted,
    /// A thread has found that it has to look at the gauge, and has not looked at it yet.
    GaugeDue,
    /// The next settings of a limiter are announced, and the word of the current ones is not closed
    /// yet.
    ChangeAnnounced,
    /// The stripes of a window have their permits, and the epoch has not begun yet.
    SharedOut,
    /// A striped word was read, and no stripe yet.
    StripedSeen,
    /// A stripe was read and the word was validated, and no permits are taken yet.
    StripeRead,
    /// A stripe is frozen, and the next one is not frozen yet.
    StripeFrozen,
    /// All stripes are frozen, and the word of the window is striped still.
    StripesFrozen,
    /// The word of a limiter is closed, and its next settings are not published yet.
    WordClosed,
}

/// Does nothing: in this build, no test stops a thread.
#[cfg(not(all(test, not(loom))))]
#[inline(always)]
pub(crate) const fn at(_: Point) {}

#[cfg(all(test, not(loom)))]
pub(crate) use leash::{Leash, at};

#[cfg(all(test, not(loom)))]
mod leash {
    use std::cell::RefCell;
    use std::sync::mpsc::{Receiver, Sender};

    use super::Point;

    thread_local! {
        static LEASH: RefCell<Option<Leash>> = const { RefCell::new(None) };
    }

    /// The thread's ends of the channels by which a test leads it from point to point.
    #[derive(Debug)]
    pub(crate) struct Leash {
        /// Sends each point that the thread comes to.
        reached: Sender<Point>,
        /// Receives the number of points to pass before the next stop. Once the test has dropped
        /// its end, the thread no longer stops.
        go: Receiver<usize>,
        left: usize,
    }

    impl Leash {
        pub(crate) const fn new(reached: Sender<Point>, go: Receiver<usize>) -> Self {
            Self { reached, go, left: 0 }
        }

        /// Puts the calling thread on this leash, and waits for the number of points that it may
        /// pass.
        pub(crate) fn put_on(self) {
            LEASH.set(self.wait());
        }

        fn wait(self) -> Option<Self> {
            let left = self.go.recv().ok()?;
            Some(Self { left, ..self })
        }

        fn come_to(self, point: Point) -> Option<Self> {
            self.reached.send(point).ok()?;
            match self.left.checked_sub(1) {
                Some(left) => Some(Self { left, ..self }),
                None => self.wait(),
            }
        }
    }

    /// Reports the point if the thread is led, and waits if it has no more points to pass.
    pub(crate) fn at(point: Point) {
        // A thread that is ending is no longer led.
        let _ = LEASH.try_with(|leash| {
            let mut leash = leash.borrow_mut();
            *leash = leash.take().and_then(|leash| leash.come_to(point));
        });
    }
}
