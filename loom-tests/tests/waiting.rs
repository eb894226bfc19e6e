//! Waiting in turn: no request waits while a permit is free and it is its turn, and no permit is
//! lost with a request.
#![cfg(loom)]

use std::future::{Pending, pending};
use std::pin::{Pin, pin};
use std::sync::Arc as Invisible;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use leaparray::flow::{
    Account, Ask, ConcurrencyLimiter, ConcurrencyPermit, Decision, Limiter, QueuePermit, Reason,
    Refusal, Retry, WaitQueue,
};
use leaparray_loom_tests::explore;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::sync::{Arc, Mutex, Notify};
use loom::thread;

type Limits = Invisible<ConcurrencyLimiter>;
type Queue = WaitQueue<Limits>;
type Permit = QueuePermit<ConcurrencyPermit<Limits>>;
type Result = std::result::Result<Permit, Refusal>;
type Request<'a> = Pin<Box<dyn Future<Output = Result> + 'a>>;

fn queue(limit: u64) -> Queue {
    WaitQueue::new(Invisible::new(ConcurrencyLimiter::new(limit)))
}

/// A request for one permit, without a timeout.
fn acquire(queue: &Queue) -> Request<'_> {
    Box::pin(queue.acquire_with(1, Duration::MAX, |_| -> Pending<()> { pending() }))
}

/// Wakes a thread of the model.
struct Unpark(Notify);

impl Wake for Unpark {
    fn wake(self: Invisible<Self>) {
        self.0.notify();
    }
}

/// Polls a future until it ends. If it is never woken, loom reports a deadlock.
fn block_on<F: Future>(future: F) -> F::Output {
    let (unpark, mut future) = (Invisible::new(Unpark(Notify::new())), pin!(future));
    let waker = Waker::from(Invisible::clone(&unpark));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        unpark.0.wait();
    }
}

/// Polls a future once, with a waker that wakes nothing.
fn poll(request: &mut Request<'_>) -> Poll<Result> {
    request.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

fn take(queue: &Queue) -> Permit {
    block_on(acquire(queue)).expect("there is no timeout")
}

/// One thread gives the only permit back while another begins to wait for it.
#[test]
fn release_beside_an_announcement_wakes_the_head() {
    explore(None, || {
        let queue = Arc::new(queue(1));
        let held = take(&queue);
        let waits = {
            let queue = queue.clone();
            thread::spawn(move || drop(take(&queue)))
        };
        drop(held);
        waits.join().unwrap();
        assert_eq!((queue.limiter().in_use(), queue.waiting()), (0, 0));
    });
}

/// Two threads wait for one permit, which each gives back.
#[test]
fn two_requests_get_one_permit_one_after_the_other() {
    explore(Some(2), || {
        let queue = Arc::new(queue(1));
        let held = take(&queue);
        let waits = [(); 2].map(|()| {
            let queue = queue.clone();
            thread::spawn(move || drop(take(&queue)))
        });
        drop(held);
        for waits in waits {
            waits.join().unwrap();
        }
        assert_eq!((queue.limiter().in_use(), queue.waiting()), (0, 0));
    });
}

/// The head is dropped while another thread gives the permit back, and a third waits behind it. The
/// third gets the permit.
#[test]
fn cancellation_beside_a_release_passes_the_turn_on() {
    explore(Some(2), || {
        let queue = Arc::new(queue(1));
        let held = take(&queue);
        let mut first = acquire(&queue);
        assert!(poll(&mut first).is_pending());
        let waits = {
            let queue = queue.clone();
            thread::spawn(move || drop(take(&queue)))
        };
        let releases = thread::spawn(move || drop(held));
        drop(first);
        waits.join().unwrap();
        releases.join().unwrap();
        assert_eq!((queue.limiter().in_use(), queue.waiting()), (0, 0));
    });
}

/// As above, but the head is polled once more before it is dropped: it may have the permit, which
/// it then gives back.
#[test]
fn cancellation_beside_a_grant_loses_no_permit() {
    explore(Some(2), || {
        let queue = Arc::new(queue(1));
        let held = take(&queue);
        let mut first = acquire(&queue);
        assert!(poll(&mut first).is_pending());
        let waits = {
            let queue = queue.clone();
            thread::spawn(move || drop(take(&queue)))
        };
        drop(held);
        drop(poll(&mut first));
        drop(first);
        waits.join().unwrap();
        assert_eq!((queue.limiter().in_use(), queue.waiting()), (0, 0));
    });
}

/// The only waiting request is displaced by a newer one while another thread gives the permit back.
/// The newer one gets it, or the older one has got it before. Three preemptions are 470,000
/// executions.
#[test]
fn request_that_displaces_the_head_beside_a_release_is_served() {
    explore(Some(2), || {
        let queue = Arc::new(queue(1).with_capacity(1).newest_first());
        let held = take(&queue);
        let older = {
            let queue = queue.clone();
            thread::spawn(move || block_on(acquire(&queue)).map(drop))
        };
        let releases = thread::spawn(move || drop(held));
        let newer = block_on(acquire(&queue)).map(drop);
        let older = older.join().unwrap();
        releases.join().unwrap();
        // The one that began to wait first may be displaced.
        assert!(newer.is_ok() || older.is_ok());
        for result in [newer, older] {
            assert!(
                result.is_ok_and(|()| true)
                    || result.is_err_and(|it| it.reason == Reason::QueueFull)
            );
        }
        assert_eq!((queue.limiter().in_use(), queue.waiting()), (0, 0));
    });
}

/// Two requests leave the queue: the head, which has announced that it waits, and then the next
/// head, which has not. A permit is given back in between, and the look finds no announcement. The
/// announcement of the third request acquires that look.
#[test]
fn announcement_acquires_a_look_before_a_withdrawal() {
    explore(Some(3), || {
        let queue = Arc::new(queue(1));
        let held = take(&queue);
        let mut requests = [(); 2].map(|()| acquire(&queue));
        for request in &mut requests {
            assert!(poll(request).is_pending());
        }
        let releases = thread::spawn(move || drop(held));
        for request in requests {
            drop(request);
        }
        drop(take(&queue));
        releases.join().unwrap();
        assert_eq!((queue.limiter().in_use(), queue.waiting()), (0, 0));
    });
}

/// The limit is raised, and the head is told, while it begins to wait.
#[test]
fn recheck_beside_an_arrival_is_not_missed() {
    explore(None, || {
        let queue = Arc::new(queue(1));
        let held = take(&queue);
        let waits = {
            let queue = queue.clone();
            thread::spawn(move || drop(take(&queue)))
        };
        queue.limiter().reconfigure(2);
        queue.recheck();
        waits.join().unwrap();
        drop(held);
        assert_eq!((queue.limiter().in_use(), queue.waiting()), (0, 0));
    });
}

/// A limiter that has asked a server for permits, and has no answer yet.
#[derive(Default)]
struct Asking {
    permits: AtomicU64,
    wakers: Mutex<Vec<Waker>>,
}

impl Asking {
    /// Takes an answer, which brings a permit.
    fn answer(&self) {
        // Relaxed: what the answer brings is published by the lock of the wakers alone, or by the
        // announcement.
        self.permits.fetch_add(1, Ordering::Relaxed);
        let wakers = std::mem::take(&mut *self.wakers.lock().unwrap());
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Limiter for &Asking {
    type Permit = ();

    fn decide(&self, _ask: &Ask<'_>) -> Decision {
        match self.permits.swap(0, Ordering::Relaxed) {
            0 => Decision::Refused(Refusal::new(Reason::LimitReached, Retry::OnAnswer)),
            _ => Decision::Admitted(()),
        }
    }

    fn account(&self) -> &dyn Account {
        self
    }
}

impl Account for &Asking {
    fn wake_on_answer(&self, waker: &Waker) -> bool {
        let mut wakers = self.wakers.lock().unwrap();
        let is_asking = self.permits.load(Ordering::Relaxed) == 0;
        if is_asking {
            wakers.push(waker.clone());
        }
        is_asking
    }
}

/// An answer arrives while a request begins to wait for it. The request is admitted: otherwise it
/// would wait for ever, and loom reports a deadlock.
#[test]
fn answer_beside_an_announcement_wakes_the_head() {
    explore(None, || {
        let limiter = Arc::new(Asking::default());
        let answers = {
            let limiter = limiter.clone();
            thread::spawn(move || limiter.answer())
        };
        let queue = WaitQueue::new(&*limiter);
        let admitted = block_on(queue.acquire_with(1, Duration::MAX, |_| pending::<()>()));
        assert!(admitted.is_ok() && queue.waiting() == 0);
        answers.join().unwrap();
    });
}

/// As above, while the head is dropped. The request behind it is admitted.
#[test]
fn answer_beside_a_cancellation_wakes_the_next() {
    explore(Some(2), || {
        let limiter = Arc::new(Asking::default());
        let queue = WaitQueue::new(&*limiter);
        let mut first = Box::pin(queue.acquire_with(1, Duration::MAX, |_| pending::<()>()));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(first.as_mut().poll(&mut cx).is_pending());
        let answers = {
            let limiter = limiter.clone();
            thread::spawn(move || limiter.answer())
        };
        let mut second = Box::pin(queue.acquire_with(1, Duration::MAX, |_| pending::<()>()));
        assert!(second.as_mut().poll(&mut cx).is_pending());
        drop(first);
        assert!(block_on(second).is_ok() && queue.waiting() == 0);
        answers.join().unwrap();
    });
}
