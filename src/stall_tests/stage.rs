//! The situation in which a thread is stopped.

use std::thread;

use super::scene::Scene;
use super::stopped::{Act, Stopped};
use super::subject::Subject;
use super::world::{Progress, World};
use crate::sync::stall::Point;

impl Scene {
    pub(super) const fn act(self) -> Act {
        match self {
            Self::First | Self::Rotate | Self::Orphan | Self::Refused | Self::Join | Self::Late => {
                Act::Add
            }
            Self::Next | Self::IncompleteAdd => Act::AddAfterPrevious,
            Self::Again => Act::AddAgain,
            Self::Sum => Act::Sum,
            Self::Values => Act::Values,
            Self::Ledger | Self::Incomplete => Act::Ledger,
        }
    }
}

/// A world and its stopped threads. If the test fails, this prints the points at which the threads
/// were stopped.
pub(super) struct Stage<S> {
    scene: Scene,
    pub(super) world: World<S>,
    /// The stopped threads, of which the last one is led.
    stopped: Vec<Stopped>,
    /// The points at which threads were stopped while others went on.
    pub(super) points: Vec<Point>,
}

impl<S: Subject> Stage<S> {
    pub(super) fn new(scene: Scene, samples: u64) -> Self {
        let world =
            if scene == Scene::First { World::empty(samples) } else { World::filled(samples) };
        let mut stage = Self { scene, world, stopped: Vec::new(), points: Vec::new() };
        match scene {
            Scene::Rotate | Scene::Next => stage.world.expected.advance(),
            Scene::Orphan => {
                stage.world.abandon_two_cells();
                stage.world.expected.advance();
            }
            Scene::Refused => return stage.refused(),
            Scene::Incomplete | Scene::IncompleteAdd => stage.leave_incomplete(),
            _ => {}
        }
        let behind = if scene == Scene::Late { samples } else { 0 };
        stage.begin(scene.act(), behind);
        stage
    }

    /// Stops a reader and a rotator. The reader finds a retired wrap in the list. The rotator
    /// reclaims the wrap and takes it, to recycle it for another bucket. Then the reader pins the
    /// wrap, and is about to add it up.
    fn refused(mut self) -> Self {
        self.begin(Act::Ledger, 0);
        self.stopped[0].lead_to(Point::PendingFound);
        self.world.expected.advance();
        self.begin(Act::Add, 0);
        self.stopped[1].lead_to(Point::ListSwapped);
        self.stopped[0].lead_to(Point::PendingValidated);
        self
    }

    /// Starts a thread that seals its cell, and stops it before it completes the first step of the
    /// publication.
    fn leave_incomplete(&mut self) {
        self.world.expected.advance();
        self.begin(Act::Add, 0);
        self.stopped[0].lead_to(Point::Published);
    }

    /// Starts another thread, at the second that is `behind` seconds before the newest one.
    pub(super) fn begin(&mut self, act: Act, behind: u64) {
        let second = self.world.expected.now - behind;
        self.stopped.push(Stopped::begin(&self.world, act, second));
    }

    /// Leads the last thread past that number of points. Returns `false` if the thread ended
    /// before.
    pub(super) fn lead(&mut self, points: usize) -> bool {
        self.stopped.last_mut().is_some_and(|last| last.lead(points))
    }

    /// Lets other threads record and read while these are stopped.
    pub(super) fn others_go_on(&mut self, progress: Progress) {
        self.points.extend(self.stopped.iter().filter_map(Stopped::point));
        self.world.go_on(progress);
        for stopped in &mut self.stopped {
            stopped.others_went_on(progress);
        }
    }

    /// Lets all stopped threads end, the first one first.
    pub(super) fn end_in_turn(&mut self) {
        self.stopped.reverse();
        self.end();
    }

    /// Lets all stopped threads end, the last one first, and checks where their adds are.
    pub(super) fn end(&mut self) {
        let recorded = self.world.expected.recorded;
        let mut adds = Vec::new();
        for stopped in self.stopped.drain(..).rev() {
            adds.extend(stopped.finish::<S>(recorded, adds.last().copied()));
        }
        self.world.end(adds);
    }
}

impl<S> Drop for Stage<S> {
    fn drop(&mut self) {
        if thread::panicking() {
            let (scene, samples) = (self.scene, self.world.expected.samples);
            eprintln!("in {scene:?} of {samples} slots, stopped at {:?}", self.points);
        }
    }
}
