//! An exhaustive model of the leases of a fleet: two nodes and a window of two buckets, over all
//! orders of asks, answers, uses, faults and steps of time. In no window are more permits used than
//! the limit, and without a rule, some run overshoots: see `checks/mutants`.
//!
//! The nodes' [`Holdings`] and the server's [`Ledger`] are those of `leaparray-redis`. A step of
//! time is a bucket, for all clocks. Each scenario has a budget for each kind of fault, so that its
//! states can be visited within seconds, if the model is compiled with optimizations. It also has
//! to reach what the faults lead to, such as a permit that is used after a quarantine: a scenario
//! without such a run would show nothing.

mod fleet;
mod model;
mod reached;

use self::fleet::{Faults, Fleet};
use self::model::explore;

fn repeats() -> Fleet {
    Fleet::new(1, 3, Faults { asks: 3, repeats: 1, ..Faults::default() })
}

fn losses() -> Fleet {
    Fleet::new(1, 4, Faults { asks: 3, losses: 1, crashes: 1, ..Faults::default() })
}

fn lost_answers() -> Fleet {
    Fleet::new(1, 1, Faults { asks: 4, losses: 1, ..Faults::default() })
}

fn late_repeats() -> Fleet {
    Fleet::new(1, 6, Faults { asks: 2, repeats: 1, ..Faults::default() })
}

fn blank_restarts() -> Fleet {
    Fleet::new(1, 5, Faults { asks: 3, blank_restarts: 1, ..Faults::default() })
}

fn promotions() -> Fleet {
    Fleet::new(1, 4, Faults { asks: 3, promotions: 1, ..Faults::default() })
}

fn evictions() -> Fleet {
    Fleet::new(1, 4, Faults { asks: 3, evictions: 1, ..Faults::default() })
}

fn clock_steps_back() -> Fleet {
    Fleet::new(1, 5, Faults { asks: 3, clock_steps_back: 1, ..Faults::default() })
}

fn two_permits() -> Fleet {
    Fleet::new(2, 3, Faults { asks: 3, ..Faults::default() })
}

fn two_permits_and_repeats() -> Fleet {
    Fleet::new(2, 2, Faults { asks: 3, repeats: 1, ..Faults::default() })
}

fn two_permits_and_losses() -> Fleet {
    Fleet::new(2, 2, Faults { asks: 3, losses: 1, ..Faults::default() })
}

fn two_permits_and_blank_restarts() -> Fleet {
    Fleet::new(2, 5, Faults { asks: 2, blank_restarts: 1, ..Faults::default() })
}

fn crash_and_blank_restart() -> Fleet {
    Fleet::new(1, 4, Faults { asks: 3, crashes: 1, blank_restarts: 1, ..Faults::default() })
}

fn repeat_and_promotion() -> Fleet {
    Fleet::new(1, 4, Faults { asks: 2, repeats: 1, promotions: 1, ..Faults::default() })
}

fn eviction_and_loss() -> Fleet {
    Fleet::new(1, 4, Faults { asks: 3, evictions: 1, losses: 1, ..Faults::default() })
}

fn clock_steps_back_and_repeat() -> Fleet {
    Fleet::new(1, 3, Faults { asks: 3, repeats: 1, clock_steps_back: 1, ..Faults::default() })
}

fn clones() -> Fleet {
    Fleet::new(1, 3, Faults { asks: 3, clones: 1, ..Faults::default() })
}

fn clones_and_losses() -> Fleet {
    Fleet::new(1, 1, Faults { asks: 4, clones: 1, losses: 1, ..Faults::default() })
}

fn clones_and_repeats() -> Fleet {
    Fleet::new(1, 2, Faults { asks: 3, clones: 1, repeats: 1, ..Faults::default() })
}

fn two_permits_and_clones() -> Fleet {
    Fleet::new(2, 2, Faults { asks: 3, clones: 1, ..Faults::default() })
}

fn ahead(fleet: Fleet) -> Fleet {
    Fleet { ahead: true, ..fleet }
}

/// Each step is of one bucket or of two.
fn clock_steps_back_ahead() -> Fleet {
    ahead(Fleet::new(1, 5, Faults { asks: 3, clock_steps_back: 1, ..Faults::default() }))
}

/// Permits that are used at once and others that are granted ahead.
fn clock_steps_back_ahead_of_two() -> Fleet {
    ahead(Fleet::new(2, 4, Faults { asks: 2, clock_steps_back: 1, ..Faults::default() }))
}

fn in_group(fleet: Fleet) -> Fleet {
    Fleet { in_group: true, ..fleet }
}

/// For longer than the mark of the limit is kept without an ask.
fn new_again_in_a_group() -> Fleet {
    in_group(Fleet::new(1, 6, Faults { asks: 3, ..Faults::default() }))
}

/// Requests do not use their permits after all. They give them back before the use is reported and
/// after, and while the report is in flight.
fn given_back(mut fleet: Fleet) -> Fleet {
    fleet.faults.give_backs = 1;
    fleet
}

fn given_back_twice() -> Fleet {
    Fleet::new(1, 3, Faults { asks: 3, give_backs: 2, ..Faults::default() })
}

/// A snapshot of the server's memory comes back, with the identity of the server.
fn restored(fleet: Fleet) -> Fleet {
    Fleet { identity_of_process: true, times: 2, ..fleet }
}

macro_rules! holds {
    ($($name:ident: $fleet:expr;)*) => {$(
        #[test]
        fn $name() {
            assert_eq!(explore($fleet), None);
        }
    )*};
}

holds! {
    limit_holds_under_repeats: repeats();
    limit_holds_under_losses_and_crashes: losses();
    limit_holds_under_lost_answers: lost_answers();
    limit_holds_under_late_repeats: late_repeats();
    limit_holds_under_blank_restarts: blank_restarts();
    limit_holds_under_promotions: promotions();
    limit_holds_under_evictions: evictions();
    limit_holds_when_the_clock_steps_back: clock_steps_back();
    limit_of_two_holds: two_permits();
    limit_of_two_holds_under_repeats: two_permits_and_repeats();
    limit_of_two_holds_under_losses: two_permits_and_losses();
    limit_of_two_holds_under_blank_restarts: two_permits_and_blank_restarts();
    limit_holds_under_a_crash_and_a_blank_restart: crash_and_blank_restart();
    limit_holds_under_a_repeat_and_a_promotion: repeat_and_promotion();
    limit_holds_under_an_eviction_and_a_loss: eviction_and_loss();
    limit_holds_under_clones: clones();
    limit_holds_under_clones_and_losses: clones_and_losses();
    limit_holds_under_clones_and_repeats: clones_and_repeats();
    limit_of_two_holds_under_clones: two_permits_and_clones();
    limit_holds_ahead_under_repeats: ahead(repeats());
    limit_holds_ahead_under_losses_and_crashes: ahead(losses());
    limit_holds_ahead_under_blank_restarts: ahead(blank_restarts());
    limit_holds_ahead_under_promotions: ahead(promotions());
    limit_holds_ahead_under_evictions: ahead(evictions());
    limit_holds_ahead_under_clones: ahead(clones());
    limit_holds_ahead_when_the_clock_steps_back: clock_steps_back_ahead();
    limit_of_two_holds_ahead_when_the_clock_steps_back: clock_steps_back_ahead_of_two();
    limit_of_two_holds_ahead: ahead(two_permits());
    limit_of_two_holds_ahead_under_losses: ahead(two_permits_and_losses());
    limit_of_two_holds_ahead_under_blank_restarts: ahead(two_permits_and_blank_restarts());
    limit_of_a_group_holds_when_it_begins_anew: new_again_in_a_group();
    limit_of_a_group_holds_under_late_repeats: in_group(late_repeats());
    limit_of_a_group_holds_under_losses_and_crashes: in_group(losses());
    limit_of_a_group_holds_under_blank_restarts: in_group(blank_restarts());
    limit_of_a_group_holds_under_promotions: in_group(promotions());
    limit_of_a_group_holds_under_evictions: in_group(evictions());
    limit_of_a_group_holds_when_the_clock_steps_back: in_group(clock_steps_back());
    limit_of_a_group_holds_ahead_under_evictions: ahead(in_group(evictions()));
    limit_holds_under_a_repeat_when_the_clock_steps_back: clock_steps_back_and_repeat();
    limit_holds_for_what_is_not_given_back: given_back_twice();
    limit_of_two_holds_for_what_is_not_given_back: given_back(two_permits());
    limit_holds_for_what_is_not_given_back_under_repeats: given_back(repeats());
    limit_holds_for_what_is_not_given_back_under_lost_answers: given_back(lost_answers());
    limit_holds_for_what_is_not_given_back_under_blank_restarts: given_back(blank_restarts());
    limit_holds_for_what_is_not_given_back_when_the_clock_steps_back:
        given_back(clock_steps_back());
    limit_holds_ahead_for_what_is_not_given_back: given_back(ahead(two_permits()));
    limit_holds_ahead_for_what_is_not_given_back_when_the_clock_steps_back:
        given_back(clock_steps_back_ahead());
    limit_is_used_once_more_at_most_if_a_snapshot_comes_back: restored(promotions());
}

#[test]
fn overshoots_if_a_process_keeps_its_identity_when_it_is_promoted_again() {
    let run = explore(Fleet { identity_of_process: true, ..promotions() });
    assert!(run.is_some(), "no run overshoots");
}
