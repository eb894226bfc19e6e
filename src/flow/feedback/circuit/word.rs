//! The state of a circuit breaker, in one word.

use super::state::CircuitState;

/// `{ kind: 3, generation: 21, payload: 40 }`.
///
/// The generation grows by one with each transition. A permit has the generation of its admission,
/// so the outcome of an earlier generation changes nothing. It wraps around after 2²¹ transitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word(pub(super) u64);

/// The state with its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// In an era: the outcomes of earlier eras no longer count.
    Closed {
        era: u64,
    },
    /// Until a time in milliseconds since the breaker was created.
    Open {
        until: u64,
    },
    HalfOpen(Probes),
    ForcedOpen,
    Disabled,
    MetricsOnly {
        era: u64,
    },
}

/// The probes of a half-open breaker,
/// `{ taken: 8, ended: 8, exceptions: 8, slow: 8, cancelled: 8 }`. Each number is at most
/// [`Probes::MAX`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Probes {
    /// The probes that were admitted and not cancelled.
    pub(super) taken: u64,
    /// The probes that have ended.
    pub(super) ended: u64,
    pub(super) exceptions: u64,
    pub(super) slow: u64,
    /// The probes that were cancelled, modulo 256. Without it, a word could be equal to an earlier
    /// one (ABA): after a probe was cancelled and another one admitted.
    pub(super) cancelled: u64,
}

/// The number of a transition, as far as a word has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Generation(u32);

const PAYLOAD_BITS: u32 = 40;
const GENERATION_BITS: u32 = 21;

/// The largest payload: 34 years in milliseconds.
pub(super) const MAX_PAYLOAD: u64 = (1 << PAYLOAD_BITS) - 1;

impl Word {
    pub(super) const fn new(generation: Generation, phase: Phase) -> Self {
        let (kind, payload) = match phase {
            Phase::Closed { era } => (0, era),
            Phase::Open { until } => (1, until),
            Phase::HalfOpen(probes) => (2, probes.pack()),
            Phase::ForcedOpen => (3, 0),
            Phase::Disabled => (4, 0),
            Phase::MetricsOnly { era } => (5, era),
        };
        let high = kind << GENERATION_BITS | generation.0 as u64;
        Self(high << PAYLOAD_BITS | payload)
    }

    #[inline]
    pub(super) const fn generation(self) -> Generation {
        Generation((self.0 >> PAYLOAD_BITS) as u32 & Generation::MASK)
    }

    /// Returns the era of a closed breaker; `None` in another state.
    #[inline]
    pub(super) const fn closed_era(self) -> Option<u64> {
        // The kind of a closed breaker is 0.
        if self.0 >> (PAYLOAD_BITS + GENERATION_BITS) == 0 {
            Some(self.0 & MAX_PAYLOAD)
        } else {
            None
        }
    }

    /// Returns the end of the wait of an open breaker; `None` in another state.
    #[inline]
    pub(super) const fn open_until(self) -> Option<u64> {
        // The kind of an open breaker is 1.
        if self.0 >> (PAYLOAD_BITS + GENERATION_BITS) == 1 {
            Some(self.0 & MAX_PAYLOAD)
        } else {
            None
        }
    }

    #[inline]
    pub(super) const fn phase(self) -> Phase {
        let payload = self.0 & MAX_PAYLOAD;
        match self.0 >> (PAYLOAD_BITS + GENERATION_BITS) {
            0 => Phase::Closed { era: payload },
            1 => Phase::Open { until: payload },
            2 => Phase::HalfOpen(Probes::unpack(payload)),
            3 => Phase::ForcedOpen,
            4 => Phase::Disabled,
            _ => Phase::MetricsOnly { era: payload },
        }
    }
}

impl Phase {
    pub(super) const fn state(self) -> CircuitState {
        match self {
            Self::Closed { .. } => CircuitState::Closed,
            Self::Open { .. } => CircuitState::Open,
            Self::HalfOpen(_) => CircuitState::HalfOpen,
            Self::ForcedOpen => CircuitState::ForcedOpen,
            Self::Disabled => CircuitState::Disabled,
            Self::MetricsOnly { .. } => CircuitState::MetricsOnly,
        }
    }
}

impl Probes {
    const BITS: u32 = 8;

    /// The maximum of each number.
    pub(super) const MAX: u16 = (1 << Self::BITS) - 1;

    const fn pack(self) -> u64 {
        let Self { taken, ended, exceptions, slow, cancelled } = self;
        let numbers =
            ((taken << Self::BITS | ended) << Self::BITS | exceptions) << Self::BITS | slow;
        numbers << Self::BITS | cancelled
    }

    const fn unpack(payload: u64) -> Self {
        let max = Self::MAX as u64;
        Self {
            taken: payload >> (4 * Self::BITS) & max,
            ended: payload >> (3 * Self::BITS) & max,
            exceptions: payload >> (2 * Self::BITS) & max,
            slow: payload >> Self::BITS & max,
            cancelled: payload & max,
        }
    }
}

impl Generation {
    pub(super) const FIRST: Self = Self(0);

    const MASK: u32 = (1 << GENERATION_BITS) - 1;

    /// Returns the number that the permits of the generation have.
    #[inline]
    pub(super) const fn token(self) -> u64 {
        self.0 as u64
    }

    pub(super) const fn next(self) -> Self {
        Self(self.0.wrapping_add(1) & Self::MASK)
    }

    /// Returns the number of transitions from an earlier generation to this one; at least half of
    /// all generations if that one is later.
    pub(super) const fn since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0) & Self::MASK
    }

    /// Returns whether this generation is later than another one.
    pub(super) const fn is_after(self, other: Self) -> bool {
        let since = self.since(other);
        since != 0 && since <= Self::MASK / 2
    }

    /// Combines the generation with a number of 43 bits.
    pub(super) const fn tag(self, value: u64) -> u64 {
        value << GENERATION_BITS | self.0 as u64
    }

    /// Splits what [`tag`](Self::tag) has combined.
    pub(super) const fn untag(tagged: u64) -> (Self, u64) {
        #[expect(clippy::cast_possible_truncation, reason = "cut to the bits of a generation")]
        let generation = Self(tagged as u32 & Self::MASK);
        (generation, tagged >> GENERATION_BITS)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn word_has_each_phase() {
        let probes = Probes { taken: 255, ended: 250, exceptions: 7, slow: 255, cancelled: 254 };
        let last = Generation(Generation::MASK);
        for generation in [Generation::FIRST, Generation(77), last] {
            for phase in [
                Phase::Closed { era: MAX_PAYLOAD },
                Phase::Open { until: 12_345 },
                Phase::HalfOpen(probes),
                Phase::ForcedOpen,
                Phase::Disabled,
                Phase::MetricsOnly { era: 1 },
            ] {
                let word = Word::new(generation, phase);
                assert_eq!((word.generation(), word.phase()), (generation, phase));
            }
        }
        assert_eq!(last.next(), Generation::FIRST);
        assert!(Generation::FIRST.is_after(last) && !last.is_after(Generation::FIRST));
        assert_eq!(Generation::untag(last.tag(1 << 42)), (last, 1 << 42));
    }
}
