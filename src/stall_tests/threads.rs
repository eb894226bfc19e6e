//! Watched threads: a thread that is blocked fails the test, and does not hang it.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::sync::stall::{Leash, Point};

/// Far more than any machine needs for a millisecond's work.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) struct Watched<R> {
    what: &'static str,
    result: Receiver<R>,
    thread: JoinHandle<()>,
}

/// Starts a thread. A test that fails does not wait for it: the thread may be blocked for good.
pub(super) fn watched<R: Send + 'static>(
    what: &'static str,
    act: impl FnOnce() -> R + Send + 'static,
) -> Watched<R> {
    let (sender, result) = channel();
    let thread = thread::spawn(move || {
        // Refused only where the test has failed already.
        let _ = sender.send(act());
    });
    Watched { what, result, thread }
}

impl<R> Watched<R> {
    pub(super) fn result(self) -> R {
        let what = self.what;
        let result = match self.result.recv_timeout(PATIENCE) {
            Ok(result) => result,
            Err(RecvTimeoutError::Timeout) => panic!("{what} is blocked"),
            Err(RecvTimeoutError::Disconnected) => panic!("{what} failed: see above"),
        };
        // The thread abandons its cells after it has sent the result.
        self.thread.join().unwrap();
        result
    }
}

/// A thread that stops at each point, until it is led to the next one or allowed to end.
pub(super) struct Led<R> {
    thread: Watched<R>,
    reached: Receiver<Point>,
    go: Sender<usize>,
    /// The points that the thread has come to.
    pub(super) trace: Vec<Point>,
}

impl<R: Send + 'static> Led<R> {
    /// `act` is led from where it puts the leash on.
    pub(super) fn start(act: impl FnOnce(Leash) -> R + Send + 'static) -> Self {
        let ((reached_sender, reached), (go, go_receiver)) = (channel(), channel());
        let leash = Leash::new(reached_sender, go_receiver);
        let thread = watched("the stopped thread", || act(leash));
        Self { thread, reached, go, trace: Vec::new() }
    }

    /// Leads the thread past so many points, to stop at the next; `false` if it ended before.
    pub(super) fn lead(&mut self, points: usize) -> bool {
        // Refused by a thread that has ended.
        let _ = self.go.send(points);
        (0..=points).all(|_| self.comes_on())
    }

    /// Leads the thread to that point, which it must pass.
    pub(super) fn lead_to(&mut self, point: Point) {
        while self.trace.last() != Some(&point) {
            assert!(self.lead(0), "never came to {point:?}: {:?}", self.trace);
        }
    }

    fn comes_on(&mut self) -> bool {
        match self.reached.recv_timeout(PATIENCE) {
            Ok(point) => self.trace.push(point),
            Err(RecvTimeoutError::Disconnected) => return false,
            Err(RecvTimeoutError::Timeout) => panic!("blocked beyond {:?}", self.trace),
        }
        true
    }

    /// Lets the thread run to its end; returns its result and all points that it came to.
    pub(super) fn finish(mut self) -> (R, Vec<Point>) {
        let _ = self.go.send(usize::MAX);
        while self.comes_on() {}
        (self.thread.result(), self.trace)
    }
}
