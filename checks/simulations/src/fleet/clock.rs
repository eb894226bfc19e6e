//! The clocks of the nodes.

use fastrand::Rng;

/// A clock with a start and a rate of its own. The server's clock is the time of the
/// simulation, less its steps back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    start: u64,
    ppm: i64,
}

const MILLION: i64 = 1_000_000;

impl Clock {
    /// Draws a start within an hour, and whether the clock is fast or slow.
    pub(super) fn draw(random: &mut Rng, drift_ppm: u32) -> Self {
        let start = random.u64(..3_600_000_000);
        let ppm = i64::from(drift_ppm);
        Self { start, ppm: if random.bool() { ppm } else { -ppm } }
    }

    /// Returns what the clock reads at a time of the simulation.
    pub(super) fn read(&self, time: u64) -> u64 {
        let elapsed = i128::from(time) * i128::from(MILLION + self.ppm) / i128::from(MILLION);
        self.start + whole(elapsed)
    }

    /// Returns the first time of the simulation at which the clock reads `local` or more.
    pub(super) fn time_of(&self, local: u64) -> u64 {
        let (elapsed, rate) = (local.saturating_sub(self.start), i128::from(MILLION + self.ppm));
        whole((i128::from(elapsed) * i128::from(MILLION) + rate - 1) / rate)
    }
}

fn whole(micros: i128) -> u64 {
    u64::try_from(micros).unwrap_or(u64::MAX)
}
