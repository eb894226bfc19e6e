//! Futures in simulated time.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use leaparray::Timestamp;

/// Timers that tick at the multiples of a grain, as those of an async runtime do.
#[derive(Clone)]
pub(super) struct Timers(Rc<RefCell<Heap>>);

struct Heap {
    now: Timestamp,
    grain: u64,
    added: u64,
    wakers: BTreeMap<(Timestamp, u64), Waker>,
}

/// A future that ends at the first tick at or after its time.
pub(super) struct Timer {
    ends: Timestamp,
    entry: Option<(Timestamp, u64)>,
    timers: Timers,
}

impl Timers {
    pub(super) fn new(grain: Duration) -> Self {
        let grain = u64::try_from(grain.as_nanos()).expect("short").max(1);
        let heap = Heap { now: Timestamp::MIN, grain, added: 0, wakers: BTreeMap::new() };
        Self(Rc::new(RefCell::new(heap)))
    }

    pub(super) fn sleep(&self, time: Duration) -> Timer {
        let heap = self.0.borrow();
        let ends = heap.now.saturating_add(time).as_nanos();
        let ends = Timestamp::from_nanos(ends.div_ceil(heap.grain).saturating_mul(heap.grain));
        Timer { ends, entry: None, timers: self.clone() }
    }

    pub(super) fn next(&self) -> Option<Timestamp> {
        self.0.borrow().wakers.keys().next().map(|&(ends, _)| ends)
    }

    /// Sets the time, and wakes the tasks of the timers that have ended.
    pub(super) fn set(&self, now: Timestamp) {
        let mut heap = self.0.borrow_mut();
        heap.now = now;
        let later = heap.wakers.split_off(&(Timestamp::from_nanos(now.as_nanos() + 1), 0));
        let due = std::mem::replace(&mut heap.wakers, later);
        drop(heap);
        due.into_values().for_each(Waker::wake);
    }
}

impl Future for Timer {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let timers = self.timers.clone();
        let mut heap = timers.0.borrow_mut();
        if heap.now >= self.ends {
            return Poll::Ready(());
        }
        let ends = self.ends;
        let entry = *self.entry.get_or_insert_with(|| {
            heap.added += 1;
            (ends, heap.added)
        });
        heap.wakers.insert(entry, cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        if let Some(entry) = self.entry {
            let waker = self.timers.0.borrow_mut().wakers.remove(&entry);
            drop(waker);
        }
    }
}

/// The tasks that were woken.
#[derive(Clone, Default)]
pub(super) struct Ready(Arc<Mutex<VecDeque<usize>>>);

impl Ready {
    pub(super) fn add(&self, task: usize) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(task);
    }

    pub(super) fn next(&self) -> Option<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    pub(super) fn waker(&self, task: usize) -> Waker {
        Waker::from(Arc::new(Of(self.clone(), task)))
    }
}

struct Of(Ready, usize);

impl Wake for Of {
    fn wake(self: Arc<Self>) {
        self.0.add(self.1);
    }
}
