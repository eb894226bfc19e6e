//! The order in which the requests of keys come.

use std::sync::Arc;

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand_distr::{Distribution, Uniform, Zipf};

use super::KEYS;

/// The number of choices of a key, after which they begin anew.
const CHOICES: usize = 1 << 21;

pub(super) const NAMES: [&str; 3] = ["one hot key", "uniform", "zipf"];

/// The keys of requests, one after the other.
#[derive(Clone, Debug)]
pub(super) struct Traffic {
    pub(super) name: &'static str,
    /// The numbers of the keys. There are as many as a power of two.
    choices: Arc<[u32]>,
}

impl Traffic {
    pub(super) fn all() -> [Self; 3] {
        let mut random = StdRng::seed_from_u64(1);
        let uniform = Uniform::new(0, KEYS).expect("not empty");
        let uniform = (0..CHOICES).map(|_| uniform.sample(&mut random)).collect();
        // Ranks are given to keys at random, so that popular keys do not lie side by side.
        let mut key_of_rank: Vec<u32> = (0..KEYS).collect();
        key_of_rank.shuffle(&mut random);
        let zipf = Zipf::new(f64::from(KEYS), 1.0).expect("a valid exponent");
        let mut of_zipf = || key_of_rank[zipf.sample(&mut random) as usize - 1];
        let zipf = (0..CHOICES).map(|_| of_zipf()).collect();
        let [hot, even, skewed] = NAMES;
        [(hot, vec![5]), (even, uniform), (skewed, zipf)]
            .map(|(name, choices)| Self { name, choices: choices.into() })
    }

    /// Returns the number of the key of an operation. Each lane begins at a place of its own: each
    /// thread of a limiter, so that threads do not ask for the same keys in step, and each limiter,
    /// so that none finds in the caches the keys of another one's requests.
    #[inline]
    pub(super) fn key(&self, lane: usize, number: u64) -> usize {
        let place = number as usize + lane * (CHOICES / 16 + 1);
        self.choices[place & (self.choices.len() - 1)] as usize
    }
}
