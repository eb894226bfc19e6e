//! Counts the heap bytes of a key, in the separate program with the counting allocator.

use std::hash::RandomState;

use leaparray_perf_page::Value;

use super::limiter::{self, Decide, Permits};
use super::{GOVERNOR, KEYS, Key, OURS, case};
use crate::bytes::output_of_program;
use crate::goals::value;

const WHAT: &str = "bytes of a key";
/// The most bytes of a key, as a share of those of governor.
const MOST: f64 = 0.8;

/// The name of each limiter with a type of keys, and the bytes of a key.
pub(super) type Counted = Vec<(String, f64)>;

/// Counts the bytes and prints them; `keyed` parses the lines. The global allocator must be
/// `dhat`'s.
pub(crate) fn print() {
    print_of::<u64>();
    print_of::<String>();
}

fn print_of<K: Key>() {
    let keys = K::all();
    let _profiler = dhat::Profiler::builder().testing().build();
    count(GOVERNOR, &keys, || limiter::governor(RandomState::new(), Permits::Plenty));
    count(OURS, &keys, || limiter::ours(RandomState::new(), Permits::Plenty));
}

fn count<K: Key, L: Decide<K>>(name: &str, keys: &[K], make: impl Fn() -> L) {
    let before = dhat::HeapStats::get().curr_bytes;
    let limiter = make();
    assert!(keys.iter().all(|key| limiter.admits(key)));
    println!("{}\t{}", case::<K>(name, WHAT), dhat::HeapStats::get().curr_bytes - before);
}

/// Runs the separate program. Returns no bytes if it fails.
pub(super) fn measure() -> Counted {
    eprintln!("counting bytes");
    let output = output_of_program(&["keyed"]);
    let lines = output.lines().filter_map(|line| line.split_once('\t'));
    let bytes = lines.filter_map(|(name, bytes)| {
        let each = bytes.parse::<f64>().ok()? / f64::from(KEYS);
        Some((name.to_owned(), (each * 10.0).round() / 10.0))
    });
    bytes.collect()
}

/// Returns the bytes as values, and those of this crate as a share of those of governor.
pub(super) fn values(counted: &Counted) -> Vec<Value> {
    let bytes = counted.iter().map(|(name, bytes)| value(name, *bytes, "bytes", None));
    bytes.chain([ratio::<u64>(counted), ratio::<String>(counted)].into_iter().flatten()).collect()
}

fn ratio<K: Key>(counted: &Counted) -> Option<Value> {
    let [governor, ours] = [GOVERNOR, OURS].map(|it| case::<K>(it, WHAT));
    let bytes = |name: &str| counted.iter().find(|(of, _)| of == name).map(|&(_, bytes)| bytes);
    let measured = (bytes(&ours)? / bytes(&governor)? * 100.0).round() / 100.0;
    Some(value(ours, measured, &format!("× {governor}"), Some(MOST)))
}
