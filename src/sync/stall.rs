//! Points at which a test can stop a thread. Outside of the crate's own tests, they compile to nothing.

/// Defines the points, and for the tests a list of all of them.
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
    /// A value that is made once was made, and is not in its place yet.
    Made,
    /// An index was read from a slot, and its wrap is not pinned yet.
    IndexRead,
    /// The wrap is pinned, and the slot is not validated yet.
    Pinned,
    /// The thread is about to replace a stale wrap: with the lock, or after the last yield to its holder.
    Rotating,
    /// The retired list was read, and not edited yet.
    ListRead,
    /// A wrap has left its slot, or has no start any more, and its pin count is not checked yet.
    Unplaced,
    /// The edited list is not swapped in yet.
    ListEdited,
    /// The edited list was swapped in: a wrap that was taken out of it belongs to this thread.
    ListSwapped,
    /// No thread has pinned the wrap that is about to be recycled.
    Unpinned,
    /// It is not live, and not empty yet.
    NotLive,
    /// It is empty, and has no start yet.
    Emptied,
    /// It has its start, and is not live yet.
    Started,
    /// The wrap was not used, and is not back on the list yet.
    RecycleRefused,
    /// A new index was taken, and there is no wrap of it yet.
    IndexTaken,
    /// A fresh wrap is ready, and not in its slot yet.
    Fresh,
    /// The slot was swapped, and the wrap that was replaced is not marked yet.
    Swapped,
    /// Another thread was first, and the fresh wrap is not back on the list yet.
    SwapLost,
    /// A test has found the bucket of an array, and added nothing to it. The test itself stops here.
    #[cfg(all(test, not(loom)))]
    BucketFound,
    /// An owned counter was read, and not written yet.
    CounterRead,
    /// The thread has a cell, which is not in its cache yet.
    CellTaken,
    /// A cell was seen to be abandoned, and is not adopted yet.
    AbandonedSeen,
    /// An abandoned cell was adopted, to be retired.
    Adopted,
    /// The top of the slab's free cells was read, and not taken yet.
    FreeCellSeen,
    /// The thread's cell is sealed, and not bound to a bucket again.
    Unbound,
    /// The cell's counters are zero, and its state does not say that it is bound.
    CellZeroed,
    /// The cell is bound, and nothing was added to it.
    Bound,
    /// A cell was found to be idle, and is not out of the mask yet.
    IdleSeen,
    /// The top of the free descriptors was read, and not taken yet.
    FreeDescriptorSeen,
    /// A complete head was read, and nothing was filled yet.
    HeadRead,
    /// A row and a descriptor are filled, and not published yet.
    Filled,
    /// They are published, and no step is completed.
    Published,
    /// A head was seen whose steps are not completed.
    IncompleteSeen,
    /// The steps of a publication are known, and this thread has done none.
    StepsRead,
    /// The row is in its slot, and the cell not sealed yet.
    SlotChanged,
    /// The cell is sealed, and the head not complete yet.
    CellSealed,
    /// A reader has the head, and has added nothing up.
    MomentTaken,
    /// A reader that goes back in time has visited a slot, and not the next one.
    SlotVisited,
    /// A read without a pin has seen the start that it looks for, and no counter yet.
    StartSeen,
    /// A reader has added up, and has not validated it yet.
    Counted,
    /// The wraps in all slots are pinned, and the retired list is not read yet.
    SlotsPinned,
    /// A pending wrap was found in the list, and is not pinned yet.
    PendingFound,
    /// The pending wrap is pinned, and its start is not compared yet.
    PendingPinned,
    /// Its start is the one in the list, and its counts are not added up yet.
    PendingValidated,
    /// A resource is gone, and its name is still in the map.
    Gone,
    /// A request that ends elsewhere than it entered is noted, and its end is not counted yet.
    EndNoted,
    /// A thread has found that it has to look at the gauge, and has not looked yet.
    GaugeDue,
}

/// Here a thread may be stopped.
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

    /// The thread's end of what leads it from point to point.
    #[derive(Debug)]
    pub(crate) struct Leash {
        /// Where it is.
        reached: Sender<Point>,
        /// How many points it may pass, to stop at the next; or, hung up, all that there are.
        go: Receiver<usize>,
        left: usize,
    }

    impl Leash {
        pub(crate) const fn new(reached: Sender<Point>, go: Receiver<usize>) -> Self {
            Self { reached, go, left: 0 }
        }

        /// The calling thread is led from here on.
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

    /// Stops if that is how far the thread is led.
    pub(crate) fn at(point: Point) {
        // A thread that is ending is not led any more.
        let _ = LEASH.try_with(|leash| {
            let mut leash = leash.borrow_mut();
            *leash = leash.take().and_then(|leash| leash.come_to(point));
        });
    }
}
