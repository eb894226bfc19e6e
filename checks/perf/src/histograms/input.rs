//! The response times that are recorded, in nanoseconds: one of them again and again, or 4,096
//! different ones.

use std::array;
use std::hint::black_box;
use std::sync::LazyLock;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::scenarios::RT;

/// The number of different response times. They are walked in turn.
const RTS: usize = 4_096;
/// The shortest response time, 100 µs, and the decades above it. All response times are shorter
/// than a second.
const SHORTEST: f64 = 100_000.0;
const DECADES: f64 = 1_000.0;

/// The response times of all cases, so that all peers record the same ones.
static SPREAD: LazyLock<[u32; RTS]> = LazyLock::new(|| {
    let mut rts = stream(0);
    array::from_fn(|_| rts.next().expect("an endless stream"))
});

/// Returns the response time of all operations. The compiler does not know it.
pub(super) fn constant(_number: u64) -> u32 {
    black_box(RT.subsec_nanos())
}

/// Returns the response times of operations: in the logarithm, they are spread evenly over three
/// decades.
pub(super) fn spread() -> impl Fn(u64) -> u32 + Copy + Send + Sync + 'static {
    let rts: &'static [u32; RTS] = &SPREAD;
    move |number| rts[number as usize % RTS]
}

/// Returns an endless stream of random response times, spread like those of [`spread`]. Equal seeds
/// have equal streams.
pub(super) fn stream(seed: u64) -> impl Iterator<Item = u32> {
    let mut random = StdRng::seed_from_u64(seed);
    std::iter::repeat_with(move || (SHORTEST * DECADES.powf(random.random())) as u32)
}

/// Returns the first response times of [`spread`], and begins again after the last one.
pub(super) fn spread_times(count: usize) -> Vec<u32> {
    SPREAD.iter().copied().cycle().take(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_decade_has_a_third_of_the_response_times() {
        let rts = spread_times(RTS);
        assert!(rts.iter().all(|rt| (100_000..100_000_000).contains(rt)));
        for shortest in [100_000, 1_000_000, 10_000_000] {
            let decade = shortest..10 * shortest;
            let share = rts.iter().filter(|rt| decade.contains(*rt)).count() as f64 / RTS as f64;
            assert!((0.31..0.36).contains(&share), "{share} from {shortest} ns on");
        }
    }
}
