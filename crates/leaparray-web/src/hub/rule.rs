//! The numbers of the rule: the judge applies them, and the help of the page states them.

use super::HISTORY;

/// The number of seconds of the shares.
pub(super) const RECENT: u64 = 10;
/// With fewer requests, a share says little.
pub(super) const FEW: u64 = 20;
/// Fewer failed or refused requests are no trouble, whatever their share.
pub(super) const SOME: u64 = 3;
/// The percentages of failed requests from which a node is strained and failing.
pub(super) const FAILURES: [f64; 2] = [2.0, 10.0];
/// The same of refused requests.
pub(super) const REFUSALS: [f64; 2] = [1.0, 90.0];
/// The same of requests that an adaptive breaker drops.
pub(super) const DROPS: [f64; 2] = [1.0, 50.0];
/// The number of response times in the recent seconds from which p99 says something.
pub(super) const ENOUGH_FOR_P99: u64 = 100;
/// The same for p99.9, which only the page shows.
const ENOUGH_FOR_P999: u64 = 1_000;
/// The first age in seconds of those with which p99 is compared.
pub(super) const BEFORE: u64 = RECENT + 5;
/// The ratio of p99 to the one before from which it is trouble.
pub(super) const SLOWER: f64 = 3.0;
/// The difference of the two from which it is trouble, in milliseconds.
pub(super) const LONGER: f64 = 10.0;

/// Returns the numbers by the names that the page has for them.
pub(crate) fn numbers() -> impl Iterator<Item = (&'static str, String)> {
    let counts = [
        ("recent", RECENT),
        ("few", FEW),
        ("some", SOME),
        ("p99", ENOUGH_FOR_P99),
        ("p999", ENOUGH_FOR_P999),
        ("before", u64::from(HISTORY) - BEFORE),
    ];
    let others = [
        ("failures_strained", FAILURES[0]),
        ("failures_failing", FAILURES[1]),
        ("refusals_strained", REFUSALS[0]),
        ("refusals_failing", REFUSALS[1]),
        ("drops_strained", DROPS[0]),
        ("drops_failing", DROPS[1]),
        ("slower", SLOWER),
        ("longer", LONGER),
    ];
    let counts = counts.into_iter().map(|(name, it)| (name, it.to_string()));
    counts.chain(others.into_iter().map(|(name, it)| (name, it.to_string())))
}
