//! Those who are stopped, and what must come of what they did.

use std::sync::Arc;

use super::ledger::{MARK, split};
use super::subject::Subject;
use super::threads::Led;
use super::world::{AFTER, Meanwhile, World};
use crate::account::Account;
use crate::sync::stall::Point;

/// What somebody does who is stopped in the middle of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Add,
    /// With the bucket in hand already, where there are hands.
    AddAgain,
    Sum,
    Values,
    Account,
}

impl Act {
    pub(super) const ALL: [Self; 5] =
        [Self::Add, Self::AddAgain, Self::Sum, Self::Values, Self::Account];

    pub(super) const fn adds(self) -> bool {
        matches!(self, Self::Add | Self::AddAgain)
    }

    fn on(self, subject: &impl Subject, second: u64) -> Outcome {
        match self {
            Self::Add | Self::AddAgain => {
                subject.add(second, MARK);
                Outcome::Added
            }
            Self::Sum => Outcome::Window(subject.sum(second)),
            Self::Values => Outcome::Window(subject.values(second)),
            Self::Account => Outcome::Books(subject.account(second)),
        }
    }
}

enum Outcome {
    Added,
    Window(u64),
    Books(Account<u64>),
}

pub(super) struct Stopped {
    thread: Led<Outcome>,
    /// Whether it had its bucket in hand when it began.
    in_hand: bool,
    /// What others had recorded, and what of it was in the window, when it began.
    recorded: u64,
    in_window: u64,
    /// What others have added meanwhile to that second, or before it.
    beside: u64,
    /// Where an add belongs, as soon as that is settled: until then, in the window.
    place: Option<Place>,
}

/// Where a count is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    InWindow,
    Expired,
    Late,
}

impl Stopped {
    /// Begins with `act` at that second, and is to be led.
    pub(super) fn begin<S: Subject>(world: &World<S>, act: Act, second: u64) -> Self {
        let subject = Arc::clone(&world.subject);
        let thread = Led::start(move |leash| {
            if act == Act::AddAgain {
                subject.add(second, 0);
            }
            leash.put_on();
            act.on(&*subject, second)
        });
        let (recorded, in_window) = (world.ledger.recorded, world.ledger.in_window());
        let place = (second + world.ledger.samples <= world.ledger.now).then_some(Place::Late);
        let in_hand = S::HAS_HANDS && act == Act::AddAgain;
        Self { thread, in_hand, recorded, in_window, beside: 0, place }
    }

    /// Leads it past so many points; `false` if it came to its end before.
    pub(super) fn lead(&mut self, points: usize) -> bool {
        self.thread.lead(points)
    }

    pub(super) fn lead_to(&mut self, point: Point) {
        self.thread.lead_to(point);
    }

    /// Where it is.
    pub(super) fn point(&self) -> Option<Point> {
        self.thread.trace.last().copied()
    }

    pub(super) fn others_went_on(&mut self, meanwhile: Meanwhile) {
        self.beside += meanwhile.beside();
        if meanwhile != Meanwhile::Same && self.place.is_none() {
            // What has its bucket adds to that, where it is by now. Who looks for it finds a newer one.
            let found = self.in_hand || self.thread.trace.contains(&Point::BucketFound);
            self.place = Some(if found { Place::Expired } else { Place::Late });
        }
    }

    /// Lets it go to its end, and looks at what it has found; the place of what it has added.
    pub(super) fn let_go(self, recorded_by_now: u64) -> Option<Place> {
        // No more than was ever in that window, whatever its buckets are used for by now.
        let in_window = 0..=self.in_window + self.beside;
        // All of what was there before it began, and once. What came in later seconds can be there.
        let before = self.recorded..=self.recorded + self.beside;
        match self.thread.let_go() {
            Outcome::Added => return Some(self.place.unwrap_or(Place::InWindow)),
            Outcome::Window(found) => assert!(in_window.contains(&split(found).1), "{found}"),
            Outcome::Books(account) => {
                assert!(in_window.contains(&split(account.in_window).1), "{account}");
                let recorded = split(account.recorded()).1;
                assert!(before.contains(&(recorded % AFTER)), "{before:?}, but {account}");
                assert!(recorded <= recorded_by_now, "{account}");
            }
        }
        None
    }
}
