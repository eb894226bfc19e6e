//! `Headroom` beside the best fixed limit, in each phase of each scenario.

use leaparray_simulations::algorithms::Algorithm;
use leaparray_simulations::report::run_algorithm;
use leaparray_simulations::scenarios::{
    Scenario, capacity_changes, idle, mix_changes, sizes, slow_at_times,
};
use leaparray_simulations::score::{Score, best};

/// Shorter phases and fewer seeds than those of `docs/SIMULATIONS.md`, whose goals its program
/// checks. In these phases, the first dips and the time until the limit settles count for more.
const SECS: u32 = 15;
const SEEDS: [u64; 3] = [11, 12, 13];

fn check(scenario: &Scenario, holds: impl Fn(&Score) -> bool) {
    let best = best(&scenario.phases, 5);
    let scores = run_algorithm(scenario, Algorithm::Headroom, &best, &SEEDS);
    for (phase, score) in scores.iter().enumerate() {
        assert!(
            holds(score),
            "phase {phase} of {}: {score:?}, best {:?}",
            scenario.name,
            best[phase]
        );
    }
}

fn follows(score: &Score, goodput: f64) -> bool {
    score.goodput >= goodput && score.p99 <= 1.25 && score.settled.is_some_and(|it| it <= 5)
}

#[test]
fn limit_follows_the_capacity_beyond_it() {
    check(&capacity_changes(1.2, SECS), |score| follows(score, 0.92));
}

#[test]
fn limit_follows_the_capacity_far_beyond_it() {
    check(&capacity_changes(3.0, SECS), |score| follows(score, 0.92));
}

#[test]
fn limit_follows_the_capacity_for_calls_of_half_a_second() {
    check(&sizes(64, 100, SECS), |score| follows(score, 0.92));
}

#[test]
fn limit_of_a_half_used_backend_is_near_its_use() {
    check(&capacity_changes(0.5, SECS), |score| {
        let is_near = score.goodput >= 0.92 && score.limit_by_use <= 4.0;
        is_near && score.p99 <= 1.5 && score.settled.is_some_and(|it| it <= 5)
    });
}

#[test]
fn limit_does_not_follow_a_mix_that_crosses_the_quantiles() {
    check(&mix_changes([0.1, 0.6, 0.1], SECS), |score| follows(score, 0.92));
}

#[test]
fn limit_does_not_follow_a_mix_about_the_median() {
    check(&mix_changes([0.4, 0.5, 0.6], SECS), |score| follows(score, 0.92));
}

#[test]
fn limit_of_an_idle_backend_is_near_its_use() {
    check(&idle(SECS), |score| score.limit_by_use <= 3.0 || score.limit <= 40);
}

#[test]
fn limit_leaves_a_backend_alone_that_is_slow_at_times() {
    check(&slow_at_times(SECS), |score| score.goodput >= 0.85);
}

#[test]
fn published_algorithms_do_not_follow_the_capacity() {
    let scenario = capacity_changes(1.2, SECS);
    let best = best(&scenario.phases, 5);
    for algorithm in &Algorithm::ALL[1..] {
        let scores = run_algorithm(&scenario, *algorithm, &best, &SEEDS[..1]);
        let follows_all = scores.iter().all(|score| follows(score, 0.92));
        assert!(!follows_all, "{}: {scores:?}", algorithm.name());
    }
}
