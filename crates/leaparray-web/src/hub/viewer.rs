//! The queue of one viewer.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use leaparray::Timestamp;

use super::frame::{Encoding, Frame};
use crate::format::{Bye, ByeReason};

/// The age of a message at which a viewer that has not taken it is slow.
const MAX_AGE: Duration = Duration::from_secs(10);

/// The most messages in a queue: the history, and some more.
const MAX_QUEUED: usize = 160;

/// The request of a viewer.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    pub(crate) encoding: Encoding,
    /// The newest second that the viewer has.
    pub(crate) since: Option<u64>,
    /// The node whose details the viewer wants.
    pub(crate) target: Option<Target>,
    /// Whether the viewer wants no more than the totals and the changes.
    pub(crate) is_light: bool,
}

/// The names of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Target {
    pub(crate) resource: Box<str>,
    pub(crate) context: Option<Box<str>>,
}

/// A viewer: the messages that its stream has yet to send.
#[derive(Debug)]
pub(crate) struct Viewer {
    wish: Wish,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    /// The messages, and when each was made.
    frames: VecDeque<(Timestamp, Bytes)>,
    /// Why the stream ends. The queue is empty then.
    end: Option<ByeReason>,
    waker: Option<Waker>,
    /// Whether the viewer has taken a message since the last check.
    has_taken: bool,
    /// Whether the history was queued.
    has_history: bool,
    /// Whether the viewer has once taken all messages, the history included.
    has_caught_up: bool,
    /// The last check at which the viewer had taken a message, or there was none to take.
    progress: Timestamp,
}

impl Viewer {
    pub(super) fn new(wish: Wish, now: Timestamp) -> Self {
        let queue = Queue { progress: now, ..Queue::default() };
        Self { wish, queue: Mutex::new(queue) }
    }

    pub(crate) const fn encoding(&self) -> Encoding {
        self.wish.encoding
    }

    pub(super) const fn wish(&self) -> &Wish {
        &self.wish
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends messages that were made at `now`.
    pub(super) fn push<'a>(&self, now: Timestamp, frames: impl IntoIterator<Item = &'a Frame>) {
        let mut queue = self.queue();
        if queue.end.is_some() {
            return;
        }
        for frame in frames {
            queue.frames.push_back((now, frame.encoded(self.wish.encoding)));
        }
        queue.wake();
    }

    /// Marks the history as queued.
    pub(super) fn has_history(&self) {
        self.queue().has_history = true;
    }

    /// Ends the stream, and frees the messages that it has not sent. The first reason stays.
    pub(crate) fn end(&self, reason: ByeReason) {
        let mut queue = self.queue();
        if queue.end.is_none() {
            queue.end = Some(reason);
            queue.frames = VecDeque::new();
        }
        queue.wake();
    }

    /// Returns whether the viewer does not take its messages in time, at `now`.
    pub(super) fn is_slow(&self, now: Timestamp) -> bool {
        let mut queue = self.queue();
        if queue.has_taken || queue.frames.is_empty() {
            queue.has_taken = false;
            queue.progress = now;
            queue.has_caught_up |= queue.has_history && queue.frames.is_empty();
        }
        let oldest = queue.frames.front().map_or(now, |(made, _)| *made);
        // The history takes a while, over a slow connection.
        let waits_since = if queue.has_caught_up { oldest } else { queue.progress };
        now.saturating_since(waits_since) > MAX_AGE || queue.frames.len() > MAX_QUEUED
    }

    /// Returns the next message, or `Err` with the last one.
    pub(crate) fn poll_next(&self, context: &mut Context<'_>) -> Poll<Result<Bytes, Bytes>> {
        let mut queue = self.queue();
        if let Some((_, bytes)) = queue.frames.pop_front() {
            queue.has_taken = true;
            return Poll::Ready(Ok(bytes));
        }
        if let Some(reason) = queue.end {
            let bye = Frame::new(None, &Bye { reason }, 64);
            return Poll::Ready(Err(bye.encoded(self.wish.encoding)));
        }
        queue.has_caught_up |= queue.has_history;
        queue.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Queue {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}
