//! A thread that is stopped, and the check of its result.

use std::sync::Arc;

use super::expected::{MARK, Part, split};
use super::subject::Subject;
use super::threads::Led;
use super::world::{AFTER, Progress, World};
use crate::array::Ledger;
use crate::sync::stall::Point;

/// The operation in which a thread is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Add,
    /// An add after the thread has made the same bucket current.
    AddAgain,
    /// An add after the thread has made the bucket before current.
    AddAfterPrevious,
    Sum,
    Values,
    Ledger,
}

impl Act {
    /// The acts of a second thread.
    pub(super) const ALL: [Self; 5] =
        [Self::Add, Self::AddAgain, Self::Sum, Self::Values, Self::Ledger];

    pub(super) const fn adds(self) -> bool {
        matches!(self, Self::Add | Self::AddAgain | Self::AddAfterPrevious)
    }

    fn prepare(self, subject: &impl Subject, second: u64) {
        match self {
            Self::AddAgain => subject.rotate(second),
            Self::AddAfterPrevious => subject.rotate(second - 1),
            Self::Add | Self::Sum | Self::Values | Self::Ledger => {}
        }
    }

    fn on(self, subject: &impl Subject, second: u64) -> Outcome {
        match self {
            Self::Add | Self::AddAgain | Self::AddAfterPrevious => {
                subject.add(second, MARK);
                Outcome::Added
            }
            Self::Sum => Outcome::Window(subject.sum(second)),
            Self::Values => Outcome::Window(subject.values(second)),
            Self::Ledger => Outcome::Ledger(subject.ledger(second)),
        }
    }
}

enum Outcome {
    Added,
    Window(u64),
    Ledger(Ledger<u64>),
}

pub(super) struct Stopped {
    thread: Led<Outcome>,
    /// The sum of the adds of the others when the thread began, and the part of it that was in the
    /// window.
    recorded: u64,
    in_window: u64,
    /// The sum of the adds of the others since then, to the thread's second or before it.
    beside: u64,
    /// Whether the thread's second had left the window before the thread began.
    is_late: bool,
    /// The number of points that the thread had reached when the others left its second behind.
    left_behind: Option<usize>,
}

impl Stopped {
    /// Starts a thread with `act` at that second. It waits until it is led.
    pub(super) fn begin<S: Subject>(world: &World<S>, act: Act, second: u64) -> Self {
        let subject = Arc::clone(&world.subject);
        let thread = Led::start(move |leash| {
            act.prepare(&*subject, second);
            leash.put_on();
            act.on(&*subject, second)
        });
        Self {
            thread,
            recorded: world.expected.recorded,
            in_window: world.expected.in_window(),
            beside: 0,
            is_late: second + world.expected.samples <= world.expected.now,
            left_behind: None,
        }
    }

    /// Leads the thread past that number of points. Returns `false` if the thread ended before.
    pub(super) fn lead(&mut self, points: usize) -> bool {
        self.thread.lead(points)
    }

    pub(super) fn lead_to(&mut self, point: Point) {
        self.thread.lead_to(point);
    }

    /// Returns the point at which the thread is.
    pub(super) fn point(&self) -> Option<Point> {
        self.thread.trace.last().copied()
    }

    pub(super) fn others_went_on(&mut self, progress: Progress) {
        self.beside += progress.beside();
        if progress != Progress::Same {
            self.left_behind.get_or_insert(self.thread.trace.len());
        }
    }

    /// Lets the thread end, checks its reading, and returns the place of its add. `before` is the
    /// place of the add of the stopped thread that ended last before this one.
    pub(super) fn finish<S: Subject>(
        self,
        recorded_by_now: u64,
        before: Option<Part>,
    ) -> Option<Part> {
        // At most the counts that were ever in that window, even if its buckets were recycled.
        let in_window = 0..=self.in_window + self.beside;
        // All adds from before the thread began, each of them once. Adds in later seconds may be
        // counted.
        let recorded_before = self.recorded..=self.recorded + self.beside;
        let (outcome, trace) = self.thread.finish();
        match outcome {
            Outcome::Added if self.is_late => return Some(Part::Late),
            Outcome::Added => {
                let Some(left_behind) = self.left_behind else { return Some(Part::InWindow) };
                let came_after =
                    |point| trace.iter().position(|&it| it == point).map(|at| at >= left_behind);
                return Some(match came_after(S::PLACED) {
                    Some(true) => Part::Late,
                    // The thread has adopted a cell that is bound to the bucket. By then, only the
                    // other stopped thread can have bound it.
                    None if came_after(Point::CellTaken) == Some(true) => before.unwrap(),
                    // The thread had a cell that was bound to the bucket.
                    Some(false) | None => Part::Expired,
                });
            }
            Outcome::Window(found) => assert!(in_window.contains(&split(found).1), "{found}"),
            Outcome::Ledger(ledger) => {
                assert!(in_window.contains(&split(ledger.in_window).1), "{ledger}");
                let recorded = split(ledger.recorded()).1;
                let found_before = recorded % AFTER;
                assert!(recorded_before.contains(&found_before), "{recorded_before:?}: {ledger}");
                assert!(recorded <= recorded_by_now, "{ledger}");
            }
        }
        None
    }
}
