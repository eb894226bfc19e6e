//! The probability at given counts.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "numbers of buckets and of requests"
)]

use super::*;

const QUARTER: u64 = 250_000_000;
const RULE: Rule = Rule { k: 1.5, min_requests: 5, recovery_nanos: 5_000_000_000 };

/// Buckets from the newest to the oldest, and a mean response time.
struct Fixed(Vec<Counts>, Option<u64>);

impl Buckets for Fixed {
    fn newest(&self, len: u64) -> Counts {
        self.0.iter().take(len as usize).fold(Counts::default(), |sum, it| sum.plus(*it))
    }

    fn bucket(&self, age: u64) -> Option<Counts> {
        self.0.get(age as usize).copied()
    }

    fn mean_rt(&self, _len: u64) -> Option<u64> {
        self.1
    }
}

const fn geometry(buckets: u64) -> Geometry {
    Geometry { buckets, bucket_nanos: QUARTER, age_nanos: QUARTER / 2 }
}

fn probability(buckets: &[Counts], mean_rt: Option<u64>) -> f64 {
    let fixed = Fixed(buckets.to_vec(), mean_rt);
    RULE.drop_probability(geometry(buckets.len() as u64), &fixed)
}

const ZERO: Counts = Counts { accepted: 0, rejected: 0, dropped: 0, cancelled: 0, passed: 0 };
const WELL: Counts = Counts { accepted: 10, passed: 10, ..ZERO };
const FAILING: Counts = Counts { rejected: 10, passed: 10, ..ZERO };
const HANGING: Counts = Counts { passed: 10, ..ZERO };
const DROPPED: Counts = Counts { dropped: 10, ..ZERO };

/// Returns some buckets of each kind, from the newest to the oldest.
fn row(kinds: &[(usize, Counts)]) -> Vec<Counts> {
    kinds.iter().flat_map(|&(len, counts)| vec![counts; len]).collect()
}

#[track_caller]
fn assert_near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-9, "{found}, not {expected}");
}

#[test]
fn times_of_a_geometry() {
    let geometry = geometry(40);
    assert_eq!([1, 3, 5].map(|tenths| geometry.tenths(tenths)), [4, 12, 20].map(|n| n * QUARTER));
    let halves = |n: u64| n * QUARTER / 2;
    assert_eq!([0, 1, 2, 39].map(|age| geometry.since_end(age)), [0, 1, 3, 77].map(halves));
    // A bucket that ended exactly that long ago is not younger.
    for (nanos, len) in [(0, 1), (halves(1), 1), (halves(1) + 1, 2), (halves(3), 2), (u64::MAX, 40)]
    {
        assert_eq!(geometry.younger_than(nanos), len, "{nanos}");
        assert!(geometry.since_end(len) >= nanos || len == 40);
    }
    let longest = Geometry { buckets: 1, bucket_nanos: u64::MAX, age_nanos: u64::MAX };
    assert_eq!((longest.since_end(2), longest.younger_than(u64::MAX)), (u64::MAX, 1));
    assert_eq!(longest.tenths(5), u64::MAX / 10 * 5);
}

#[test]
fn share_of_the_window() {
    assert_near(probability(&row(&[(40, WELL)]), Some(1)), 0.0);
    // 10 of 40 buckets fail, which is below a third.
    assert_near(probability(&row(&[(10, FAILING), (30, WELL)]), Some(1)), 0.0);
    // The window alone would drop (395 − 1.5 · 200) / 401. Nothing is accepted in the newest six
    // buckets.
    assert_near(probability(&row(&[(20, FAILING), (20, WELL)]), Some(1)), 55.0 / 61.0);
}

#[test]
fn overdue_attempts_count_after_twice_the_mean_response_time() {
    // Half of the attempts hang. The attempts of the newest five buckets are not overdue: these
    // ended up to a second ago.
    let half = Counts { accepted: 5, passed: 10, ..ZERO };
    let buckets = row(&[(40, half)]);
    assert_near(probability(&buckets, Some(1)), (350.0 - 5.0 - 300.0) / 351.0);
    // Twice 600 ms are six buckets.
    assert_near(probability(&buckets, Some(600_000_000)), (340.0 - 5.0 - 300.0) / 341.0);
    // At most half of the window: 21 buckets are not overdue, and 190 attempts are fewer than the
    // ends.
    assert_near(probability(&buckets, Some(u64::MAX)), 0.0);
    let cancelled = Counts { cancelled: 5, ..half };
    assert_near(probability(&row(&[(40, cancelled)]), Some(1)), 0.0);
}

/// The load has grown tenfold three seconds ago, and nothing has been answered since: the backend
/// may be slower now.
#[test]
fn attempts_are_overdue_later_if_few_are_accepted_in_the_newest_tenth() {
    let more = Counts { passed: 100, ..ZERO };
    assert_near(probability(&row(&[(12, more), (28, WELL)]), Some(1)), 0.0);
    let some = |accepted| row(&[(5, Counts { accepted, ..more }), (7, more), (28, WELL)]);
    // At a third, the mean response time counts: 35 buckets are overdue.
    assert_near(probability(&some(33), Some(1)), 0.0);
    let accepted = 280.0 + 5.0 * 34.0;
    let total = 280.0 + 700.0;
    assert_near(probability(&some(34), Some(1)), (total - 5.0 - 1.5 * accepted) / (total + 1.0));
}

#[test]
fn silence_counts_once_an_attempt_has_waited_for_three_tenths() {
    let hang = |len| row(&[(len, HANGING), (40 - len, WELL)]);
    // The oldest of 13 buckets ended 11.5 buckets ago.
    for mean in [None, Some(1), Some(u64::MAX)] {
        assert_near(probability(&hang(13), mean), 0.0);
        assert_near(probability(&hang(14), mean), 135.0 / 141.0);
    }
    // Attempts that were cancelled are no evidence, and hide no others.
    let given_up = |cancelled| Counts { cancelled, ..HANGING };
    assert_near(probability(&row(&[(14, given_up(10)), (26, WELL)]), Some(1)), 0.0);
    assert_near(probability(&row(&[(14, given_up(8)), (26, WELL)]), Some(1)), 23.0 / 29.0);
    // One in three answers ends the silence. Ten attempts have waited.
    let some = |accepted| row(&[(1, Counts { accepted, ..HANGING }), (13, HANGING), (26, WELL)]);
    assert_near(probability(&some(3), Some(1)), (135.0 - 4.5) / 141.0);
    assert_near(probability(&some(4), Some(1)), 0.0);
    // Dropped requests count as well, and no attempt is old enough where none began.
    assert_near(
        probability(&row(&[(14, Counts { dropped: 5, ..ZERO }), (26, WELL)]), Some(1)),
        0.0,
    );
    let dropped = row(&[(10, DROPPED), (4, HANGING), (26, WELL)]);
    assert_near(probability(&dropped, Some(1)), 135.0 / 141.0);
    // The window is too short.
    assert_near(probability(&[HANGING], None), 0.0);
}

#[test]
fn ramp_falls_with_the_time_since_the_first_acceptance() {
    let up = |len: usize| row(&[(len, WELL), (40 - len, DROPPED)]);
    for len in [6, 10, 15, 20] {
        let window = RULE.formula(400, 10 * len as u64);
        let since = (len as f64 - 1.5) / 20.0;
        assert_near(probability(&up(len), Some(1)), window * (1.0 - since));
    }
    assert_near(probability(&up(22), Some(1)), 0.0);
}

#[test]
fn ramp_lets_four_times_the_accepted_share_through() {
    // The backend has worked for as long as a recovery takes, and accepts some requests in the
    // newest bucket.
    let dropped = Counts { accepted: 1, dropped: 999, ..ZERO };
    let few = |accepted| row(&[(1, Counts { accepted, dropped: 1_000, ..ZERO }), (39, dropped)]);
    for accepted in [2, 10, 500] {
        // A tenth has 5 buckets.
        let share = (accepted + 4) as f64 / (1_000 + accepted + 4_000 + 1) as f64;
        assert_near(probability(&few(accepted), Some(1)), 1.0 - 4.0 * share);
    }
    let lone = row(&[(1, Counts { accepted: 1, ..DROPPED }), (39, DROPPED)]);
    assert_near(probability(&lone, Some(1)), RULE.formula(401, 1));
}

#[test]
fn ramp_ends_where_the_backend_fails() {
    let up = row(&[(15, WELL), (25, DROPPED)]);
    let before = probability(&up, Some(1));
    let with = |rejected| {
        let mut buckets = up.clone();
        buckets.insert(0, Counts { rejected, ..ZERO });
        buckets.pop();
        probability(&buckets, Some(1))
    };
    // One rejection is tolerated; by now, the time since the first acceptance is longer by a
    // bucket.
    assert!(with(1) < before, "{} {before}", with(1));
    assert!(with(2) > before, "{} {before}", with(2));
}
