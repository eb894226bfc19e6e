//! What the tests begin with: a world, and who is stopped in it.

use std::thread;

use super::stopped::{Act, Stopped};
use super::subject::Subject;
use super::world::{Meanwhile, World};
use crate::sync::stall::Point;

/// What the first who is stopped does, and what it finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scene {
    /// An add where nothing was recorded before.
    First,
    /// One that takes the place of a stale bucket.
    Rotate,
    /// The same, and somebody still adds up the wrap that it is to use again.
    Refused,
    /// One in a bucket that is there.
    Join,
    /// One in a bucket that is in hand.
    Again,
    /// One that is a lap behind.
    Late,
    Sum,
    Values,
    Account,
}

impl Scene {
    pub(super) const ALL: [Self; 9] = [
        Self::First,
        Self::Rotate,
        Self::Refused,
        Self::Join,
        Self::Again,
        Self::Late,
        Self::Sum,
        Self::Values,
        Self::Account,
    ];

    /// Those that others can join.
    pub(super) const OF_TWO: [Self; 6] =
        [Self::First, Self::Rotate, Self::Again, Self::Sum, Self::Values, Self::Account];

    pub(super) const fn act(self) -> Act {
        match self {
            Self::First | Self::Rotate | Self::Refused | Self::Join | Self::Late => Act::Add,
            Self::Again => Act::AddAgain,
            Self::Sum => Act::Sum,
            Self::Values => Act::Values,
            Self::Account => Act::Account,
        }
    }
}

/// Names the points at which somebody was stopped, should the test fail.
pub(super) struct Stage<S> {
    scene: Scene,
    pub(super) world: World<S>,
    /// The last is the one that is led.
    stopped: Vec<Stopped>,
    /// Where others have found them.
    pub(super) points: Vec<Point>,
}

impl<S: Subject> Stage<S> {
    pub(super) fn new(scene: Scene, samples: u64) -> Self {
        let world =
            if scene == Scene::First { World::empty(samples) } else { World::filled(samples) };
        let mut stage = Self { scene, world, stopped: Vec::new(), points: Vec::new() };
        match scene {
            Scene::Rotate => stage.world.ledger.advance(),
            Scene::Refused => return stage.refused(),
            _ => {}
        }
        let behind = if scene == Scene::Late { samples } else { 0 };
        stage.begin(scene.act(), behind);
        stage
    }

    /// One finds a retired wrap in the list. That is settled, and taken for another use; and now the
    /// first one holds it, and is about to add it up.
    fn refused(mut self) -> Self {
        self.begin(Act::Account, 0);
        self.stopped[0].lead_to(Point::OpenFound);
        self.world.ledger.advance();
        self.begin(Act::Add, 0);
        self.stopped[1].lead_to(Point::ListSwapped);
        self.stopped[0].lead_to(Point::OpenKnown);
        self
    }

    /// One more begins, so many seconds behind.
    pub(super) fn begin(&mut self, act: Act, behind: u64) {
        let second = self.world.ledger.now - behind;
        self.stopped.push(Stopped::begin(&self.world, act, second));
    }

    /// Leads the last one past so many points; `false` if it came to its end before.
    pub(super) fn lead(&mut self, points: usize) -> bool {
        self.stopped.last_mut().is_some_and(|last| last.lead(points))
    }

    /// Others go on while all are stopped where they are.
    pub(super) fn meanwhile(&mut self, meanwhile: Meanwhile) {
        self.points.extend(self.stopped.iter().filter_map(Stopped::point));
        self.world.go_on(meanwhile);
        for stopped in &mut self.stopped {
            stopped.others_went_on(meanwhile);
        }
    }

    /// Lets all of them go, the first one first.
    pub(super) fn end_in_turn(&mut self) {
        self.stopped.reverse();
        self.end();
    }

    /// Lets all of them go, the last one first, and looks where their adds are.
    pub(super) fn end(&mut self) {
        let recorded = self.world.ledger.recorded;
        let stopped = self.stopped.drain(..).rev();
        let adds = stopped.filter_map(|stopped| stopped.let_go(recorded)).collect();
        self.world.end(adds);
    }
}

impl<S> Drop for Stage<S> {
    fn drop(&mut self) {
        if thread::panicking() {
            let (scene, samples) = (self.scene, self.world.ledger.samples);
            eprintln!("in {scene:?} of {samples} slots, stopped at {:?}", self.points);
        }
    }
}
