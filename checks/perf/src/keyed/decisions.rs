//! Decisions on requests of a million keys.

use std::hash::RandomState;
use std::hint::black_box;
use std::sync::Arc;

use super::limiter::{self, Limiter, Permits};
use super::traffic::{self, Traffic};
use super::{GOVERNOR, Key, OURS, case};
use crate::goals::Row;
use crate::harness::{Plan, Suite};
use crate::quiet::Quiet;
use crate::results::Results;

const ADMITTED: &str = "admitted";
const ADMITTED_FAST: &str = "admitted, `foldhash`";
const REFUSED: &str = "refused";
const THREADS: [usize; 2] = [1, 2];

pub(super) fn rows<K: Key>() -> Vec<Row> {
    let mut rows = Vec::new();
    for traffic in traffic::NAMES {
        for what in [ADMITTED, ADMITTED_FAST, REFUSED] {
            for threads in THREADS {
                let what = format!("{traffic}, {what}");
                let [governor, ours] = [GOVERNOR, OURS].map(|it| case::<K>(it, &what));
                rows.push(Row::baseline(&governor, threads));
                rows.push(Row::ratio(ours, threads, governor, 1.0));
            }
        }
    }
    rows
}

/// Measures the decisions with keys of a type.
pub(super) fn measure<K: Key>(
    plan: Plan,
    quiet: &mut Quiet,
    traffic: &[Traffic],
    cores: usize,
) -> Results {
    let mut suite = Suite::new(cores);
    let keys: Arc<[K]> = K::all().into();
    let (sip, fast) = (RandomState::new, foldhash::fast::RandomState::default);
    let [plenty, used_up] = [Permits::Plenty, Permits::UsedUp];
    let mut add = |what, permits, pair: [Limiter<K>; 2]| {
        let pair = pair.map(Arc::new);
        let know_all = pair.iter().all(|limiter| keys.iter().all(|key| limiter.admits(key)));
        assert!(know_all, "the first request of each key is admitted");
        for traffic in traffic {
            for threads in THREADS.into_iter().filter(|&threads| threads <= cores) {
                for (side, (name, limiter)) in [GOVERNOR, OURS].into_iter().zip(&pair).enumerate() {
                    let name = case::<K>(name, format!("{}, {what}", traffic.name));
                    let (keys, limiter, traffic) = (keys.clone(), limiter.clone(), traffic.clone());
                    suite.add_bound(&name, threads, move |thread, number| {
                        let key = &keys[traffic.key(2 * thread + side, number)];
                        let admits = limiter.admits(black_box(key));
                        assert!(admits == (permits == Permits::Plenty), "another decision");
                    });
                }
            }
        }
    };
    add(ADMITTED, plenty, [limiter::governor(sip(), plenty), limiter::ours(sip(), plenty)]);
    add(ADMITTED_FAST, plenty, [limiter::governor(fast(), plenty), limiter::ours(fast(), plenty)]);
    add(REFUSED, used_up, [limiter::governor(sip(), used_up), limiter::ours(sip(), used_up)]);
    suite.measure(plan, quiet, |_| {})
}
