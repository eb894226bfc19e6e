//! The plain formula of the *Site Reliability Engineering* book with a probe a second, to compare
//! with.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numbers of buckets and of tenths of a second"
)]

use std::collections::VecDeque;

use leaparray::Outcome;
use leaparray::flow::breaker::{AdaptiveBreakerConfig, RandomSource, SeededRandom};

use super::simulation::{Answer, Report, Tenth};

/// Requests and acceptances by buckets of 250 ms.
#[derive(Default)]
struct Window(Vec<(u64, u64)>);

impl Window {
    fn bucket(&mut self, secs: f64) -> &mut (u64, u64) {
        let bucket = (secs * 4.0) as usize;
        self.0.resize(self.0.len().max(bucket + 1), (0, 0));
        &mut self.0[bucket]
    }

    fn sums(&mut self, secs: f64) -> (u64, u64) {
        self.bucket(secs);
        let newest = self.0.iter().rev().take(40);
        newest.fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1))
    }
}

/// Does as [`simulate`](super::simulation::simulate), for one rate and for a backend whose response
/// times are all equal.
pub(super) fn simulate_plain(
    rate: f64,
    length: f64,
    mut backend: impl FnMut(f64, f64) -> Answer,
    seed: u64,
) -> Report {
    let [draws, answers] = [seed + 1_000, seed].map(SeededRandom::new);
    let part = |random: &SeededRandom| f64::from(random.next_u32()) / f64::from(u32::MAX);
    let (mut window, mut in_flight) = (Window::default(), VecDeque::new());
    let mut report = Report::default();
    report.tenths.resize((length * 10.0) as usize + 1, Tenth::default());
    let (mut secs, mut last_pass) = (0.0, f64::MIN);
    while secs < length - 1e-9 {
        while let Some(&(end, outcome)) = in_flight.front().filter(|(end, _)| *end <= secs) {
            in_flight.pop_front();
            let bucket = window.bucket(end);
            bucket.0 += 1;
            bucket.1 += u64::from(outcome == Outcome::Success);
        }
        let tenth = &mut report.tenths[(secs * 10.0 + 1e-9) as usize];
        tenth.asked += 1;
        let (total, accepts) = window.sums(secs);
        let probability = AdaptiveBreakerConfig::default().drop_probability(total, accepts);
        if part(&draws) >= probability || secs - last_pass >= 1.0 {
            if probability > 0.0 {
                last_pass = secs;
            }
            tenth.admitted += 1;
            let answer = backend(secs, part(&answers));
            in_flight.push_back((secs + answer.after.as_secs_f64(), answer.outcome));
        } else {
            window.bucket(secs).0 += 1;
        }
        secs += 1.0 / rate;
    }
    report
}
