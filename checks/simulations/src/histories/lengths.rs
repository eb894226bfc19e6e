//! The times that calls take.

use std::time::Duration;

use fastrand::Rng;

/// The distribution of the time that a worker takes for a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Lengths {
    /// All calls take this time.
    Constant(Duration),
    /// Evenly from 10 % below this time to 10 % above it.
    Around(Duration),
    /// Exponential, with this mean.
    Exponential(Duration),
    /// Short calls, and a share of streams.
    Streams {
        /// The time of a short call.
        short: Duration,
        /// The time of a stream.
        stream: Duration,
        /// The share of the streams.
        share: f64,
    },
    /// A Pareto distribution with this shortest time and a shape of 1.5, cut at 1,000 times the
    /// shortest.
    HeavyTail(Duration),
}

impl Lengths {
    const SHAPE: f64 = 1.5;
    const CUT: f64 = 1_000.0;

    /// Draws the time of a call.
    pub fn draw(&self, rng: &mut Rng) -> Duration {
        let uniform = rng.f64();
        match *self {
            Self::Constant(time) => time,
            Self::Around(time) => time.mul_f64(0.9 + 0.2 * uniform),
            // Of this library, and not of the system's, so that all machines get the same result.
            Self::Exponential(mean) => mean.mul_f64(-libm::log(1.0 - uniform)),
            Self::Streams { short, stream, share } => {
                if uniform < share {
                    stream
                } else {
                    short
                }
            }
            Self::HeavyTail(shortest) => {
                let factor = libm::pow(1.0 - uniform, -1.0 / Self::SHAPE);
                shortest.mul_f64(factor.min(Self::CUT))
            }
        }
    }

    /// Returns the mean.
    #[must_use]
    pub fn mean(&self) -> Duration {
        match *self {
            Self::Constant(time) | Self::Around(time) | Self::Exponential(time) => time,
            Self::Streams { short, stream, share } => {
                short.mul_f64(1.0 - share) + stream.mul_f64(share)
            }
            // ∫ x · a x^(−a−1) from 1 to the cut, and the cut with the probability beyond it.
            Self::HeavyTail(shortest) => {
                let (a, cut) = (Self::SHAPE, Self::CUT);
                let below = a / (a - 1.0) * (1.0 - libm::pow(cut, 1.0 - a));
                shortest.mul_f64(below + cut * libm::pow(cut, -a))
            }
        }
    }

    /// Returns all calls as long as the mean, or `None` if they are.
    pub(super) fn simpler(&self) -> Option<Self> {
        (!matches!(self, Self::Constant(_))).then(|| Self::Constant(self.mean()))
    }
}
