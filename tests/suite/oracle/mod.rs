//! Compares a window and an array with a naive oracle, on random cases and on the corpus of the
//! fuzz target.

mod case;

use std::path::Path;
use std::{fs, io};

use case::Case;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn window_and_array_read_what_the_oracle_adds_up(
        head in any::<[u8; Case::HEAD_LEN]>(),
        turns in prop::collection::vec(any::<[u8; Case::TURN_LEN]>(), 1..64),
    ) {
        Case::from_bytes(&[&head, turns.as_flattened()].concat()).check();
    }
}

proptest! {
    // Fewer cases, since each begins threads.
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Each record is made on one of many threads, most of which are idle, and some of which end.
    #[test]
    fn window_of_many_threads_reads_what_the_oracle_adds_up(
        head in any::<[u8; Case::HEAD_LEN]>(),
        turns in prop::collection::vec(any::<([u8; Case::TURN_LEN], u8)>(), 1..64),
    ) {
        let (turns, threads): (Vec<_>, Vec<_>) = turns.into_iter().unzip();
        Case::from_bytes(&[&head, turns.as_flattened()].concat()).check_on(&threads);
    }
}

#[test]
fn fuzz_seeds_find_no_difference() -> io::Result<()> {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("checks/fuzz/corpus/window");
    if !seeds.exists() {
        println!("skipped: the packaged crate has no {}", seeds.display());
        return Ok(());
    }
    for seed in fs::read_dir(seeds)? {
        let seed = seed?.path();
        println!("{}", seed.display());
        Case::from_bytes(&fs::read(seed)?).check();
    }
    Ok(())
}
