//! Waiting on a thread.

use std::cell::Cell;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// Wakes a thread that parks.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

thread_local! {
    /// The waker of this thread.
    static WAKER: Waker = Waker::from(Arc::new(Unpark(thread::current())));
}

/// Returns the waker of this thread: a new one only in the destructors of its thread-locals.
fn waker() -> Waker {
    let new = |_| Waker::from(Arc::new(Unpark(thread::current())));
    WAKER.try_with(Waker::clone).unwrap_or_else(new)
}

/// The timers of a thread that waits.
#[derive(Debug, Default)]
pub(super) struct Timers {
    /// The earliest end of the timers that were polled.
    earliest: Cell<Option<Instant>>,
}

/// A future that ends at a time. It wakes no task: its thread parks until then.
#[derive(Debug)]
pub(super) struct Timer<'a> {
    /// `None` if that is later than an [`Instant`] can be.
    ends: Option<Instant>,
    timers: &'a Timers,
}

impl Timers {
    pub(super) fn sleep(&self, wait: Duration) -> Timer<'_> {
        Timer { ends: Instant::now().checked_add(wait), timers: self }
    }

    /// Polls the future until it ends, and parks this thread in between.
    pub(super) fn block_on<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        let waker = waker();
        loop {
            self.earliest.set(None);
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return output;
            }
            // May return early, and if other code has unparked this thread. The future is then
            // polled once more.
            match self.earliest.get() {
                Some(ends) => thread::park_timeout(ends.saturating_duration_since(Instant::now())),
                None => thread::park(),
            }
        }
    }
}

impl Future for Timer<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<()> {
        let Some(ends) = self.ends else { return Poll::Pending };
        if ends <= Instant::now() {
            return Poll::Ready(());
        }
        let earliest = self.timers.earliest.get();
        self.timers.earliest.set(Some(earliest.map_or(ends, |earliest| earliest.min(ends))));
        Poll::Pending
    }
}
