//! Decisions on requests of a million keys.

use std::hash::RandomState;
use std::hint::black_box;
use std::sync::Arc;

use super::limiter::{self, Decide, Permits};
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
    let threads = THREADS.into_iter().filter(|&threads| threads <= cores).collect();
    let mut cases = Cases { suite: Suite::new(cores), keys: K::all().into(), traffic, threads };
    let (sip, fast) = (RandomState::new, foldhash::fast::RandomState::default);
    let [plenty, used_up] = [Permits::Plenty, Permits::UsedUp];
    cases.add(ADMITTED, plenty, limiter::governor(sip(), plenty), limiter::ours(sip(), plenty));
    let governor = limiter::governor(fast(), plenty);
    cases.add(ADMITTED_FAST, plenty, governor, limiter::ours(fast(), plenty));
    cases.add(REFUSED, used_up, limiter::governor(sip(), used_up), limiter::ours(sip(), used_up));
    cases.suite.measure(plan, quiet, |_| {})
}

/// The cases with keys of a type.
struct Cases<'a, K> {
    suite: Suite,
    keys: Arc<[K]>,
    traffic: &'a [Traffic],
    /// The numbers of threads.
    threads: Vec<usize>,
}

impl<K: Key> Cases<'_, K> {
    /// Adds the cases of a pair of limiters, one after the other.
    fn add(
        &mut self,
        what: &str,
        permits: Permits,
        governor: impl Decide<K>,
        ours: impl Decide<K>,
    ) {
        let (governor, ours) = (Arc::new(governor), Arc::new(ours));
        let know_all = self.keys.iter().all(|key| governor.admits(key) && ours.admits(key));
        assert!(know_all, "the first request of each key is admitted");
        for traffic in self.traffic {
            let what = format!("{}, {what}", traffic.name);
            for threads in self.threads.clone() {
                let name = case::<K>(GOVERNOR, &what);
                self.add_case(&name, threads, permits, &governor, traffic, 0);
                let name = case::<K>(OURS, &what);
                self.add_case(&name, threads, permits, &ours, traffic, 1);
            }
        }
    }

    fn add_case(
        &mut self,
        name: &str,
        threads: usize,
        permits: Permits,
        limiter: &Arc<impl Decide<K>>,
        traffic: &Traffic,
        lane: usize,
    ) {
        let (keys, limiter, traffic) = (self.keys.clone(), limiter.clone(), traffic.clone());
        self.suite.add_bound(name, threads, move |thread, number| {
            let key = &keys[traffic.key(2 * thread + lane, number)];
            let admits = limiter.admits(black_box(key));
            assert!(admits == (permits == Permits::Plenty), "another decision");
        });
    }
}
