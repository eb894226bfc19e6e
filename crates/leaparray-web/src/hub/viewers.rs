//! The viewers, and the messages that they share.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leaparray::Timestamp;
use tokio::sync::{Notify, watch};

use super::HISTORY;
use super::change_log::ChangeLog;
use super::frame::Frame;
use super::viewer::{Target, Viewer, Wish};
use crate::format::{ByeReason, Change, Changes, Totals, UnreadCause};

/// The viewers of a page, and the messages of the last minute.
pub(crate) struct Viewers {
    state: Mutex<State>,
    is_closed: watch::Sender<bool>,
    /// Wakes the task, when a viewer has joined or the page was closed.
    changed: Notify,
}

struct State {
    viewers: Vec<Entry>,
    /// Whether a task reads the registry.
    is_running: bool,
    /// The message with the listed nodes; `None` if they have changed since it was serialized.
    resources: Option<Frame>,
    history: VecDeque<(u64, Frame)>,
    /// The newest messages with the fleet and the rules, if the page has them and a viewer.
    beside: Vec<Frame>,
    /// The changes of the last ten minutes. They stay when the task ends.
    log: ChangeLog,
    /// The totals of the newest second and the id of its event, for light viewers; `None` before
    /// the first second of a task.
    totals: Option<(String, Totals)>,
    /// Whether the task before has failed.
    has_failed: bool,
}

struct Entry {
    viewer: Arc<Viewer>,
    /// Whether the viewer has the listed nodes and the history.
    has_begun: bool,
    /// Whether the viewer has to get the listed nodes again.
    needs_list: bool,
    /// Whether the viewer has the details of the whole history.
    has_detail: bool,
}

/// Why a viewer has not joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotJoined {
    /// There are as many viewers as there may be.
    Full,
    /// The page was closed.
    Closed,
}

/// Whether the caller has to start the task.
pub(super) enum Joined {
    First(Arc<Viewer>),
    Later(Arc<Viewer>),
}

/// The messages of one reading.
#[derive(Default)]
pub(super) struct Update {
    pub(super) now: Timestamp,
    /// The seconds that have become complete.
    pub(super) seconds: Vec<(u64, Frame)>,
    /// The first second of the reading.
    pub(super) first: u64,
    /// The first second that was not read.
    pub(super) end: u64,
    /// Whether the listed nodes have changed.
    pub(super) has_changes: bool,
    /// Whether no second has the changes of the listed nodes.
    pub(super) lists_again: bool,
    /// What has changed in these seconds.
    pub(super) reported: Vec<Change>,
    /// The totals of the newest second and the id of its event; `None` without a second.
    pub(super) totals: Option<(String, Totals)>,
}

/// The details of a node.
pub(super) struct Details {
    pub(super) target: Target,
    /// Those of the whole history, for the viewers that have none yet.
    pub(super) all: Option<Frame>,
    /// Those of the newest second.
    pub(super) newest: Option<Frame>,
}

/// The details that the viewers wait for.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) target: Target,
    /// Whether a viewer has no details yet.
    pub(super) all: bool,
    /// Whether a viewer has the earlier details.
    pub(super) newest: bool,
}

impl Viewers {
    /// Begins the changes with the second in which the page was made.
    pub(crate) fn new(started: u64) -> Self {
        let state = State {
            viewers: Vec::new(),
            is_running: false,
            resources: None,
            history: VecDeque::new(),
            beside: Vec::new(),
            log: ChangeLog::new(started),
            totals: None,
            has_failed: false,
        };
        Self {
            state: Mutex::new(state),
            is_closed: watch::Sender::new(false),
            changed: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn len(&self) -> usize {
        self.state().viewers.len()
    }

    #[cfg(test)]
    pub(super) fn is_running(&self) -> bool {
        self.state().is_running
    }

    pub(crate) fn is_closed(&self) -> bool {
        *self.is_closed.borrow()
    }

    pub(crate) async fn closed(&self) {
        let _ = self.is_closed.subscribe().wait_for(|is_closed| *is_closed).await;
    }

    /// Ends all streams, and refuses further viewers.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        // Under the lock: a viewer has joined before and ends here, or finds the page closed.
        self.is_closed.send_replace(true);
        state.end_all(ByeReason::Closing);
        drop(state);
        self.changed.notify_one();
    }

    /// Ends all streams after the task has failed. The next viewer starts another one.
    pub(super) fn fail(&self) {
        let mut state = self.state();
        state.end_all(ByeReason::Failed);
        state.stop();
        state.has_failed = true;
    }

    /// Adds a viewer. It gets `hello` at once, and the rest once the registry was read. At most
    /// `max` viewers have full streams, and as many have light ones, so that
    /// hidden tabs take no place of a shown one.
    pub(super) fn join(
        &self,
        wish: Wish,
        now: Timestamp,
        hello: &Frame,
        max: usize,
    ) -> Result<Joined, NotJoined> {
        let mut state = self.state();
        if self.is_closed() {
            return Err(NotJoined::Closed);
        }
        let is_same = |it: &&Entry| it.is_light() == wish.is_light;
        if state.viewers.iter().filter(is_same).count() >= max {
            return Err(NotJoined::Full);
        }
        let viewer = Arc::new(Viewer::new(wish, now));
        viewer.push(now, [hello]);
        let entry = Entry {
            viewer: Arc::clone(&viewer),
            has_begun: false,
            needs_list: false,
            has_detail: false,
        };
        state.viewers.push(entry);
        state.begin(now);
        let is_first = !std::mem::replace(&mut state.is_running, true);
        drop(state);
        self.changed.notify_one();
        Ok(if is_first { Joined::First(viewer) } else { Joined::Later(viewer) })
    }

    /// Removes a viewer whose stream has ended or was dropped.
    pub(crate) fn leave(&self, viewer: &Arc<Viewer>) {
        let mut state = self.state();
        let position = state.viewers.iter().position(|it| Arc::ptr_eq(&it.viewer, viewer));
        let removed = position.map(|it| state.viewers.swap_remove(it));
        // The messages are freed without the lock.
        drop(state);
        drop(removed);
    }

    /// Waits until a viewer has joined, or the page was closed.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Marks the task as ended, unless there are viewers. Returns whether it was marked.
    pub(super) fn stop_if_empty(&self) -> bool {
        let mut state = self.state();
        let is_empty = state.viewers.is_empty();
        if is_empty {
            state.stop();
        }
        is_empty
    }

    /// Sends the messages of a reading to all viewers. Removes the viewers that are slow.
    pub(super) fn publish(&self, update: Update) {
        let Update { now, seconds, first, end, has_changes, lists_again, .. } = update;
        let mut state = self.state();
        if has_changes {
            state.resources = None;
        }
        if let Some(totals) = update.totals {
            let cause = match state.totals {
                // The task has run, and has not read in time.
                Some(_) => UnreadCause::Stalled,
                None if state.has_failed => UnreadCause::Failed,
                None => UnreadCause::NoViewer,
            };
            state.has_failed = false;
            let new = state.log.extend(first, end, cause, update.reported);
            state.send_changes(now, new);
            state.send_totals(now, totals);
        }
        for entry in state.viewers.iter_mut().filter(|it| it.has_begun && !it.is_light()) {
            entry.needs_list |= lists_again;
            entry.viewer.push(now, seconds.iter().map(|(_, frame)| frame));
        }
        state.history.extend(seconds);
        let oldest = end.saturating_sub(HISTORY.into());
        let excess = state.history.iter().take_while(|(second, _)| *second < oldest).count();
        state.history.drain(..excess);
        state.begin(now);
        state.drop_slow(now);
    }

    /// Returns whether a viewer waits for the listed nodes, and for the history if it has just
    /// joined.
    pub(super) fn has_new(&self) -> bool {
        self.state().viewers.iter().any(|it| it.needs_list || (!it.has_begun && !it.is_light()))
    }

    /// Sends the listed nodes to the viewers that wait for them, and the history to those that have
    /// just joined.
    pub(super) fn welcome(&self, now: Timestamp, resources: Frame) {
        let mut state = self.state();
        for entry in state.viewers.iter_mut().filter(|it| it.needs_list) {
            entry.needs_list = false;
            entry.viewer.push(now, [&resources]);
        }
        state.resources = Some(resources);
        state.begin(now);
    }

    /// Returns the details that viewers want.
    pub(super) fn wanted(&self) -> Vec<Wanted> {
        let state = self.state();
        let mut wanted: Vec<Wanted> = Vec::new();
        for entry in state.viewers.iter().filter(|it| it.has_begun) {
            let Some(target) = &entry.viewer.wish().target else { continue };
            let position = wanted.iter().position(|it| it.target == *target);
            let position = position.unwrap_or_else(|| {
                wanted.push(Wanted { target: target.clone(), all: false, newest: false });
                wanted.len() - 1
            });
            wanted[position].all |= !entry.has_detail;
            wanted[position].newest |= entry.has_detail;
        }
        wanted
    }

    /// Sends details to the viewers that want them. A viewer without details gets those of the
    /// whole history.
    pub(super) fn publish_details(&self, now: Timestamp, details: &[Details]) {
        let mut state = self.state();
        for entry in state.viewers.iter_mut().filter(|it| it.has_begun) {
            let wish = entry.viewer.wish();
            let found = details.iter().find(|it| wish.target.as_ref() == Some(&it.target));
            let Some(details) = found else { continue };
            let frame = if entry.has_detail { &details.newest } else { &details.all };
            entry.viewer.push(now, frame);
            entry.has_detail |= details.all.is_some();
        }
    }
}

impl Viewers {
    /// Sends the fleet and the rules to the viewers that have the history, and keeps them for
    /// viewers that join before the next ones.
    pub(super) fn publish_beside(&self, now: Timestamp, frames: Vec<Frame>) {
        let mut state = self.state();
        for entry in state.viewers.iter().filter(|it| it.has_begun && !it.is_light()) {
            entry.viewer.push(now, &frames);
        }
        let before = std::mem::replace(&mut state.beside, frames);
        // The messages are freed without the lock.
        drop(state);
        drop(before);
    }
}

impl Entry {
    fn is_light(&self) -> bool {
        self.viewer.wish().is_light
    }
}

/// Returns the message with changes; `None` if there are none.
fn changes_frame(changes: Vec<Change>) -> Option<Frame> {
    (!changes.is_empty()).then(|| Frame::new(None, &Changes { changes }, 256))
}

/// Returns the message with totals. It has an id, as a second has: a viewer resumes after it.
fn totals_frame((id, totals): &(String, Totals)) -> Frame {
    Frame::new(Some(id), totals, 128)
}

impl State {
    /// Sends the listed nodes, the changes, the history, the fleet and the rules to the viewers
    /// that wait for them, if the message with the nodes is up to date.
    fn begin(&mut self, now: Timestamp) {
        self.begin_light(now);
        let Self { viewers, resources: Some(resources), history, beside, log, .. } = self else {
            return;
        };
        for entry in viewers.iter_mut().filter(|it| !it.has_begun && !it.is_light()) {
            let since = entry.viewer.wish().since;
            let is_new = |second: u64| since.is_none_or(|since| second > since);
            let seconds = history.iter().filter(|(second, _)| is_new(*second));
            let changes = changes_frame(log.after(since));
            let frames = std::iter::once(&*resources).chain(&changes);
            let frames = frames.chain(seconds.map(|(_, frame)| frame)).chain(&*beside);
            entry.viewer.push(now, frames);
            entry.viewer.has_history();
            entry.has_begun = true;
        }
    }

    /// Sends the changes and the newest totals to the light viewers that wait for them, once a
    /// second was read.
    fn begin_light(&mut self, now: Timestamp) {
        let Self { viewers, log, totals: Some(totals), .. } = self else { return };
        let new = viewers.iter_mut().filter(|it| !it.has_begun && it.is_light());
        for Entry { viewer, has_begun, .. } in new {
            let changes = changes_frame(log.after(viewer.wish().since));
            viewer.push(now, changes.iter().chain([&totals_frame(totals)]));
            viewer.has_history();
            *has_begun = true;
        }
    }

    /// Sends the changes of a reading. They go before its seconds and totals: a viewer that has a
    /// second has all changes up to it, so it misses none when it resumes after that second. If
    /// its stream ends in between, it gets them twice.
    fn send_changes(&self, now: Timestamp, changes: Vec<Change>) {
        let mut begun = self.viewers.iter().filter(|it| it.has_begun).peekable();
        let frame = begun.peek().and_then(|_| changes_frame(changes));
        begun.for_each(|entry| entry.viewer.push(now, &frame));
    }

    /// Sends the totals to the light viewers, and keeps them for those that join.
    fn send_totals(&mut self, now: Timestamp, totals: (String, Totals)) {
        let light = self.viewers.iter().filter(|it| it.has_begun && it.is_light());
        let mut frame = None;
        for entry in light {
            entry.viewer.push(now, [&*frame.get_or_insert_with(|| totals_frame(&totals))]);
        }
        self.totals = Some(totals);
    }

    fn drop_slow(&mut self, now: Timestamp) {
        self.viewers.retain(|entry| {
            let is_slow = entry.viewer.is_slow(now);
            if is_slow {
                entry.viewer.end(ByeReason::Slow);
            }
            !is_slow
        });
    }

    fn end_all(&mut self, reason: ByeReason) {
        for entry in self.viewers.drain(..) {
            entry.viewer.end(reason);
        }
    }

    /// Frees everything that a running task needs.
    fn stop(&mut self) {
        self.is_running = false;
        self.resources = None;
        self.history = VecDeque::new();
        self.beside = Vec::new();
        self.totals = None;
    }
}

impl fmt::Debug for Viewers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Viewers")
            .field("len", &self.len())
            .field("is_closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}
