//! Tests that a thread that is stopped at any point, for any time, blocks no other thread, and that
//! its own add is neither lost nor counted twice.
//!
//! Each test starts a [`Scene`] again and again, and stops a thread one [`Point`] later each time.
//! Other threads then record and read, and every reading is compared with the adds. At the end, the
//! stopped threads go on, and each of their adds must be in exactly one place.
//!
//! There are three subjects: a [`SlidingWindow`], which is based on a `MetricArray`, a window with
//! a [`Histogram`], and a [`LeapArray`].

mod back_in_time;
mod direct;
mod epochs;
mod expected;
mod gauge;
mod histogram;
mod lent_permits;
mod listing;
mod pairs;
mod scene;
mod settings;
mod stage;
mod stopped;
mod subject;
mod threads;
mod world;

use self::histogram::Histogram;
use self::scene::Scene;
use self::stage::Stage;
use self::stopped::Act;
use self::subject::{Subject, Sum};
use self::world::Progress;
use crate::array::LeapArray;
use crate::sync::stall::Point;
use crate::time::ManualClock;
use crate::window::SlidingWindow;

type Window = SlidingWindow<ManualClock>;
type Array = LeapArray<Sum>;

#[test]
fn stalled_thread_blocks_no_other_in_a_window() {
    stop_at_each_point::<Window>();
}

#[test]
fn stalled_thread_blocks_no_other_in_a_window_with_a_histogram() {
    stop_at_each_point::<Histogram>();
}

#[test]
fn stalled_thread_blocks_no_other_in_an_array() {
    stop_at_each_point::<Array>();
}

#[test]
#[ignore = "takes long"]
fn two_stalled_threads_block_no_other_in_a_window() {
    stop_two_at_each_two_points::<Window>();
}

#[test]
#[ignore = "takes long"]
fn two_stalled_threads_block_no_other_in_a_window_with_a_histogram() {
    stop_two_at_each_two_points::<Histogram>();
}

#[test]
#[ignore = "takes long"]
fn two_stalled_threads_block_no_other_in_an_array() {
    stop_two_at_each_two_points::<Array>();
}

/// Stops one thread at each point, and then again at each later point.
fn stop_at_each_point<S: Subject>() {
    let mut points = Vec::new();
    for samples in [1, 2] {
        for &scene in S::SCENES {
            stop_once::<S>(scene, samples, &mut points);
        }
        for &scene in S::SCENES_STOPPED_TWICE {
            stop_twice::<S>(scene, samples, &mut points);
        }
    }
    for point in Point::ALL {
        let is_expected = !S::NOT_PASSED.iter().any(|points| points.contains(point));
        assert_eq!(points.contains(point), is_expected, "whether a thread stopped at {point:?}");
    }
}

fn stop_once<S: Subject>(scene: Scene, samples: u64, points: &mut Vec<Point>) {
    for progress in [Progress::Same, Progress::Laps] {
        for passed in 0.. {
            let mut stage = Stage::<S>::new(scene, samples);
            if !stage.lead(passed) {
                assert!(passed > 0, "no thread was stopped");
                break;
            }
            stage.others_go_on(progress);
            stage.end();
            points.append(&mut stage.points);
        }
    }
}

/// Stops a thread twice. The second stop shows how the thread handles the changes that others have
/// made since the first stop.
fn stop_twice<S: Subject>(scene: Scene, samples: u64, points: &mut Vec<Point>) {
    for passed in 0.. {
        for passed_then in 0.. {
            let mut stage = Stage::<S>::new(scene, samples);
            if !stage.lead(passed) {
                assert!(passed > 0, "no thread was stopped");
                return;
            }
            stage.others_go_on(Progress::LapsAlone);
            if !stage.lead(passed_then) {
                break;
            }
            stage.others_go_on(Progress::LapsAlone);
            stage.end();
            points.append(&mut stage.points);
        }
    }
}

fn stop_two_at_each_two_points<S: Subject>() {
    for samples in [1, 2] {
        for &scene in S::SCENES_OF_TWO {
            // Two readers do not affect each other.
            for &act in S::ACTS_OF_TWO.iter().filter(|act| act.adds() || scene.act().adds()) {
                // In the same second, or in the same slot a lap later.
                for later in [0, samples] {
                    stop_two::<S>(scene, act, samples, later, Stage::end);
                    stop_two::<S>(scene, act, samples, later, Stage::end_in_turn);
                }
            }
        }
    }
}

/// Stops one thread in `scene`, and a second thread that begins with `act`, `later` seconds after
/// the first.
fn stop_two<S: Subject>(
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
                assert!(passed > 0, "no thread was stopped");
                return;
            }
            (0..later).for_each(|_| stage.world.expected.advance());
            stage.begin(act, 0);
            if !stage.lead(passed_by_other) {
                break;
            }
            stage.others_go_on(Progress::LapsAlone);
            end(&mut stage);
        }
    }
}
