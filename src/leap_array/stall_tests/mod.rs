//! A thread that stops anywhere, for however long, stops nobody else, and its own add is not lost.

mod ledger;
mod stage;
mod stopped;
mod subject;
mod threads;
mod world;

use self::stage::{Scene, Stage};
use self::stopped::Act;
use self::subject::{Subject, Sum};
use self::world::Meanwhile;
use super::LeapArray;
use crate::bucket::Bucket;
use crate::clock::ManualClock;
use crate::retired::Retired;
use crate::ring::Ring;
use crate::sync::stall::Point;
use crate::window::SlidingWindow;

type Window = SlidingWindow<ManualClock>;
type Array = LeapArray<Sum>;

/// How many wraps the array has.
fn made<B: Bucket>(array: &LeapArray<B>) -> u64 {
    array.ring.get().map_or(0, Ring::len).into()
}

/// How many of them are in a part of the retired list.
fn list<B: Bucket>(array: &LeapArray<B>, len: impl Fn(&Retired<B>) -> usize) -> u64 {
    array.retired.load().get().map_or(0, len) as u64
}

#[test]
fn who_stops_at_any_point_of_a_window_stops_nobody() {
    stopped_everywhere::<Window>();
}

#[test]
fn who_stops_at_any_point_of_an_array_stops_nobody() {
    stopped_everywhere::<Array>();
}

#[test]
fn two_who_stop_at_any_two_points_of_a_window_stop_nobody() {
    two_stopped_everywhere::<Window>();
}

#[test]
fn two_who_stop_at_any_two_points_of_an_array_stop_nobody() {
    two_stopped_everywhere::<Array>();
}

/// One is stopped at each point, and then again at each further one.
fn stopped_everywhere<S: Subject>() {
    let mut points = Vec::new();
    for samples in [1, 2] {
        for scene in Scene::ALL {
            stopped_once::<S>(scene, samples, &mut points);
            stopped_twice::<S>(scene, samples, &mut points);
        }
    }
    for point in Point::ALL {
        let is_expected = !S::NOT_PASSED.contains(point);
        assert_eq!(points.contains(point), is_expected, "whether anybody stopped at {point:?}");
    }
}

fn stopped_once<S: Subject>(scene: Scene, samples: u64, points: &mut Vec<Point>) {
    for meanwhile in [Meanwhile::Same, Meanwhile::Laps] {
        for passed in 0.. {
            let mut stage = Stage::<S>::new(scene, samples);
            if !stage.lead(passed) {
                assert!(passed > 0, "nobody was stopped");
                break;
            }
            stage.meanwhile(meanwhile);
            stage.end();
            points.append(&mut stage.points);
        }
    }
}

/// What it comes to next is what others have made of it meanwhile.
fn stopped_twice<S: Subject>(scene: Scene, samples: u64, points: &mut Vec<Point>) {
    for passed in 0.. {
        for passed_then in 0.. {
            let mut stage = Stage::<S>::new(scene, samples);
            if !stage.lead(passed) {
                assert!(passed > 0, "nobody was stopped");
                return;
            }
            stage.meanwhile(Meanwhile::LapsAlone);
            if !stage.lead(passed_then) {
                break;
            }
            stage.meanwhile(Meanwhile::LapsAlone);
            stage.end();
            points.append(&mut stage.points);
        }
    }
}

fn two_stopped_everywhere<S: Subject>() {
    for samples in [1, 2] {
        for scene in Scene::OF_TWO {
            // Two who read have nothing to do with each other.
            for act in Act::ALL.into_iter().filter(|act| act.adds() || scene.act().adds()) {
                // In the same second, or in the same slot a lap later.
                for later in [0, samples] {
                    two_stopped::<S>(scene, act, samples, later, Stage::end);
                    two_stopped::<S>(scene, act, samples, later, Stage::end_in_turn);
                }
            }
        }
    }
}

/// One is stopped in that scene, and one more who begins with `act` so many seconds later.
fn two_stopped<S: Subject>(
    scene: Scene,
    act: Act,
    samples: u64,
    later: u64,
    end: impl Fn(&mut Stage<S>),
) {
    for passed in 0.. {
        for passed_by_other in 0.. {
            let mut stage = Stage::<S>::new(scene, samples);
            if !stage.lead(passed) {
                assert!(passed > 0, "nobody was stopped");
                return;
            }
            (0..later).for_each(|_| stage.world.ledger.advance());
            stage.begin(act, 0);
            if !stage.lead(passed_by_other) {
                break;
            }
            stage.meanwhile(Meanwhile::LapsAlone);
            end(&mut stage);
        }
    }
}
