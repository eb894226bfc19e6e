//! The harness of histories: it accepts the best fixed limit, and finds one that is too low or too
//! high.

use std::collections::BTreeMap;
use std::time::Duration;

use leaparray::flow::adaptive::{Aimd, Headroom, LimitAlgorithm, LimitRange};
use leaparray_simulations::algorithms::Algorithm;
use leaparray_simulations::histories::{
    Asks, History, Lengths, Range, Stage, Verdict, judge, search, traps,
};

fn fixed(limit: u64) -> impl Fn(LimitRange) -> Box<dyn LimitAlgorithm> {
    move |_| Algorithm::Fixed(limit).create()
}

fn eight_workers(load: f64) -> History {
    let lengths = Lengths::Exponential(Duration::from_millis(10));
    let health = Stage::healthy(8, load, lengths, [1, 1]);
    History { range: Range { min: 1, initial: 20, max: 200 }, past: Vec::new(), health }
}

#[test]
fn limit_above_the_workers_holds() {
    for load in [0.5, 1.2, 3.0] {
        let verdict = judge(&eight_workers(load), &fixed(16), 1);
        assert!(verdict.holds(), "{load}: {verdict:?}");
    }
}

#[test]
fn limit_below_the_workers_is_refused_while_idle() {
    let verdict = judge(&eight_workers(3.0), &fixed(6), 1);
    assert!(verdict.goodput < 0.8 && verdict.refused_while_idle > 0.5, "{verdict:?}");
}

#[test]
fn limit_far_above_the_workers_makes_calls_wait() {
    let verdict = judge(&eight_workers(3.0), &fixed(200), 1);
    assert!(verdict.goodput < 0.1, "{verdict:?}");
    assert!(verdict.refused_while_idle < 0.001, "{verdict:?}");
}

#[test]
fn search_shrinks_what_it_finds() {
    let found = search(&fixed(1), 0..20).expect("most histories have more than one worker");
    assert!(found.history.past.is_empty(), "{found:?}");
    assert!(matches!(found.history.health.lengths, Lengths::Constant(_)), "{found:?}");
    assert!(!found.verdict.holds());
}

#[test]
fn run_has_the_same_result_for_its_seed() {
    let history = traps::one_worker_of_eight();
    let [one, other, third] = [1, 1, 2].map(|seed| judge(&history, &fixed(7), seed));
    assert_eq!(one, other);
    assert_ne!(one, third);
}

/// The algorithms whose calls may fail, with a time-out above all response times.
fn aimd(range: LimitRange) -> Box<dyn LimitAlgorithm> {
    Box::new(Aimd::new(range).timeout(Duration::from_secs(3_600)))
}

#[test]
fn calls_heavier_than_a_fallen_limit_raise_it() {
    let verdict = judge(&traps::heavier_than_the_limit(), &aimd, 1);
    assert!(verdict.holds(), "{verdict:?}");
}

fn headroom(range: LimitRange) -> Box<dyn LimitAlgorithm> {
    Box::new(Headroom::new(range))
}

#[test]
fn default_limit_leaves_each_trap() {
    for history in [
        traps::lowest_limit(),
        traps::one_worker_of_eight(),
        traps::long_calls(),
        traps::long_exponential_calls(),
        traps::streams(0.02),
        traps::streams(0.2),
        traps::heavier_than_the_limit(),
        traps::clock_step(),
        traps::cancelled_calls(),
    ] {
        let verdict = judge(&history, &headroom, 1);
        assert!(verdict.holds(), "{history:?}: {verdict:?}");
    }
}

#[test]
fn limit_of_one_worker_does_not_climb() {
    for seed in 1..=10 {
        let verdict = judge(&traps::one_worker(), &headroom, seed);
        assert!(verdict.holds(), "{seed}: {verdict:?}");
    }
}

/// A limiter learns from a peek of a request, from a queue and from a combination what it learns if
/// it is asked directly.
#[test]
fn each_way_to_ask_teaches_the_same() {
    let [direct, others @ ..] =
        [Asks::Direct, Asks::AfterPeek, Asks::ThroughQueue, Asks::ThroughAllOf]
            .map(|asks| judge(&traps::many_permits(asks), &headroom, 1));
    assert!(direct.holds(), "{direct:?}");
    assert_eq!(others, [direct; 3]);
}

/// Of seeds by which no constant was chosen: more of the seeds from 0 on hold. Those that break the
/// property have one to a few workers and calls of a heavy tail or of many permits, mostly, or many
/// calls that are cancelled.
#[test]
fn default_limit_is_healthy_after_most_histories() {
    let seeds = 20_000..20_100;
    let verdicts = seeds.map(|seed| judge(&History::random(seed), &headroom, seed));
    let (holds, most): (Vec<_>, Vec<_>) =
        verdicts.map(|it| (it.holds(), it.goodput >= 0.9)).unzip();
    let [holds, most] = [holds, most].map(|all| all.into_iter().filter(|&it| it).count());
    assert!(holds >= 89 && most >= 95, "{holds} hold, {most} have 90 % of the goodput");
}

/// Returns why a history does not hold.
fn cause(verdict: Verdict) -> &'static str {
    let is_refused = verdict.refused_while_idle > Verdict::REFUSED_WHILE_IDLE;
    if verdict.late >= 0.02 {
        "the limit is too high: calls wait for too long"
    } else if is_refused && verdict.goodput >= Verdict::GOODPUT {
        "more than 3 % are refused while workers are idle"
    } else if is_refused {
        "the same, and the goodput is too low"
    } else {
        "the goodput is too low by other causes"
    }
}

/// Prints the numbers of the doc of `Headroom` and of `docs/CORRECTNESS.md`, which takes three
/// minutes in a release build:
///
/// ```sh
/// cargo test --release -p leaparray-simulations --test suite share_of -- --ignored --nocapture
/// ```
#[test]
#[ignore = "prints numbers"]
fn share_of_histories_that_hold() {
    let mut counts = [[0; 3]; 2];
    let mut known = [[0; 3]; 2];
    let mut causes = BTreeMap::<_, [u32; 6]>::new();
    for seed in 200_000..204_000 {
        let history = History::random(seed);
        let verdict = judge(&history, &headroom, seed);
        let Stage { workers, weights, failures, lengths, .. } = history.health;
        let is_plain = workers >= 8 && weights == [1, 1] && failures.cancelled == 0.0;
        let with_known = judge(&history, &fixed(history.health.known_limit()), seed);
        for (counts, verdict) in [(&mut counts, verdict), (&mut known, with_known)] {
            for [all, holds, most] in counts.iter_mut().take(if is_plain { 2 } else { 1 }) {
                *all += 1;
                *holds += u32::from(verdict.holds());
                *most += u32::from(verdict.goodput >= 0.9);
            }
        }
        let is_few = workers < 4 * (1 + weights[1]);
        let is_tail = matches!(lengths, Lengths::HeavyTail(_));
        let is_stream = matches!(lengths, Lengths::Streams { .. });
        let properties =
            [true, is_few, is_tail, is_stream, weights[1] > 1, failures.cancelled > 0.0];
        let of_cause = (!verdict.holds()).then(|| cause(verdict));
        for key in [Some("all"), of_cause].into_iter().flatten() {
            for (count, has) in causes.entry(key).or_default().iter_mut().zip(properties) {
                *count += u32::from(has);
            }
        }
    }
    println!("[histories, the limit holds, it has 90 % of the goodput], of all histories, and of");
    println!("those with eight workers or more, calls of one permit and no cancellations:");
    println!("`Headroom`: {counts:?}; a fixed limit that knows the workers: {known:?}");
    println!(
        "| cause | histories | room for < 8 calls | heavy tail | streams | weights | cancelled |"
    );
    for (cause, counts) in causes {
        println!("| {cause} | {} |", counts.map(|it| it.to_string()).join(" | "));
    }
}
