//! Watched threads: a thread that is blocked fails the test instead of hanging it.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::sync::stall::{Leash, Point};

/// The time after which a thread counts as blocked: far more than any machine needs for a
/// millisecond's work.
const BLOCKED_AFTER: Duration = Duration::from_secs(60);

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
        // Fails only if the test has failed already.
        let _ = sender.send(act());
    });
    Watched { what, result, thread }
}

impl<R> Watched<R> {
    pub(super) fn result(self) -> R {
        let what = self.what;
        let result = match self.result.recv_timeout(BLOCKED_AFTER) {
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
    /// The points that the thread has reached.
    pub(super) trace: Vec<Point>,
}

impl<R: Send + 'static> Led<R> {
    /// Starts a thread. It is led from the point at which `act` puts the leash on.
    pub(super) fn start(act: impl FnOnce(Leash) -> R + Send + 'static) -> Self {
        let ((reached_sender, reached), (go, go_receiver)) = (channel(), channel());
        let leash = Leash::new(reached_sender, go_receiver);
        let thread = watched("the stopped thread", || act(leash));
        Self { thread, reached, go, trace: Vec::new() }
    }

    /// Leads the thread past that number of points, to stop at the next point. Returns `false` if
    /// the thread ended before.
    pub(super) fn lead(&mut self, points: usize) -> bool {
        // Fails if the thread has ended.
        let _ = self.go.send(points);
        (0..=points).all(|_| self.reaches_next_point())
    }

    /// Leads the thread to that point. Panics if the thread ends without it.
    pub(super) fn lead_to(&mut self, point: Point) {
        while self.trace.last() != Some(&point) {
            assert!(self.lead(0), "never came to {point:?}: {:?}", self.trace);
        }
    }

    fn reaches_next_point(&mut self) -> bool {
        match self.reached.recv_timeout(BLOCKED_AFTER) {
            Ok(point) => self.trace.push(point),
            Err(RecvTimeoutError::Disconnected) => return false,
            Err(RecvTimeoutError::Timeout) => panic!("blocked after {:?}", self.trace),
        }
        true
    }

    /// Lets the thread run to its end. Returns its result and all points that it has reached.
    pub(super) fn finish(mut self) -> (R, Vec<Point>) {
        let _ = self.go.send(usize::MAX);
        while self.reaches_next_point() {}
        (self.thread.result(), self.trace)
    }
}
