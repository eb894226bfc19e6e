//! The word of a window of calls.

/// The most recent calls, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CallsState {
    /// The number of the lap around the slots.
    pub(super) lap: u64,
    /// Whether there are as many calls as slots. Before that, the first call is in the first slot.
    pub(super) is_full: bool,
    /// The slot of the next call.
    pub(super) position: u64,
    pub(super) slow: u64,
    pub(super) exceptions: u64,
    /// The last call, which need not be in its slot yet.
    pub(super) last: Call,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) is_exception: bool,
    pub(super) is_slow: bool,
}

/// The lap and the slot of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) lap: u64,
    pub(super) position: u64,
}

/// The layout of the word: from the lowest bits, the last call, the exceptions, the slow calls, the
/// position, the flag that the window is full, and the lap in all other bits.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallsLayout {
    /// The number of slots.
    len: u64,
    /// The bits of a number up to `len`.
    bits: u32,
}

impl Call {
    const BITS: u32 = 2;

    const fn pack(self) -> u64 {
        self.is_exception as u64 | (self.is_slow as u64) << 1
    }

    const fn unpack(bits: u64) -> Self {
        Self { is_exception: bits & 1 != 0, is_slow: bits & 2 != 0 }
    }
}

impl CallsLayout {
    pub(super) const fn new(len: u32) -> Self {
        Self { len: len as u64, bits: u32::BITS - len.leading_zeros() }
    }

    pub(super) const fn pack(self, state: CallsState) -> u64 {
        let CallsState { lap, is_full, position, slow, exceptions, last } = state;
        // The highest bits of the lap are shifted out.
        let mut word = lap << 1 | is_full as u64;
        word = word << self.bits | position;
        word = word << self.bits | slow;
        word = word << self.bits | exceptions;
        word << Call::BITS | last.pack()
    }

    pub(super) const fn unpack(self, word: u64) -> CallsState {
        let count = (1 << self.bits) - 1;
        let last = Call::unpack(word);
        let word = word >> Call::BITS;
        let (exceptions, word) = (word & count, word >> self.bits);
        let (slow, word) = (word & count, word >> self.bits);
        let (position, word) = (word & count, word >> self.bits);
        let (is_full, word) = (word & 1 != 0, word >> 1);
        CallsState { lap: word, is_full, position, slow, exceptions, last }
    }

    /// Returns the content of a slot: the lap and a call.
    pub(super) const fn pack_slot(self, lap: u64, call: Call) -> u64 {
        self.cut_lap(lap) << Call::BITS | call.pack()
    }

    /// Returns the call of a slot, if it is of that lap.
    pub(super) const fn call_of(self, slot: u64, lap: u64) -> Option<Call> {
        if slot >> Call::BITS == self.cut_lap(lap) { Some(Call::unpack(slot)) } else { None }
    }

    /// Cuts a lap to the bits that it has in the word.
    const fn cut_lap(self, lap: u64) -> u64 {
        let below = Call::BITS + 3 * self.bits + 1;
        lap << below >> below
    }

    /// Returns the place of the last call; `None` if there is none.
    pub(super) const fn last_place(self, state: &CallsState) -> Option<Place> {
        let CallsState { lap, position, is_full, .. } = *state;
        match position.checked_sub(1) {
            Some(position) => Some(Place { lap, position }),
            None if is_full => Some(Place { lap: lap.wrapping_sub(1), position: self.len - 1 }),
            None => None,
        }
    }

    /// Returns whether the call at a place has left the window of `state`: at least a lap of
    /// further calls was recorded.
    pub(super) const fn has_left(self, place: Place, state: &CallsState) -> bool {
        match self.cut_lap(state.lap.wrapping_sub(place.lap)) {
            0 => false,
            // The slot of the next call has the oldest one.
            1 => state.position > place.position,
            _ => true,
        }
    }

    /// Returns the number of calls.
    pub(super) const fn calls(self, state: &CallsState) -> u64 {
        if state.is_full { self.len } else { state.position }
    }

    /// Returns a sum with a call and without the oldest. It is kept within the bits of a sum: after
    /// a stall of as many laps as the word can tell apart, the oldest call may be another one.
    const fn replaced(self, sum: u64, is_call: bool, is_oldest: bool) -> u64 {
        let sum = (sum + is_call as u64).saturating_sub(is_oldest as u64);
        if sum > self.len { self.len } else { sum }
    }

    /// Returns the state after a further call, with which the call `oldest` leaves a full window.
    pub(super) const fn push(self, state: CallsState, call: Call, oldest: Call) -> CallsState {
        let position = state.position + 1;
        let ends_lap = position == self.len;
        CallsState {
            lap: if ends_lap { state.lap.wrapping_add(1) } else { state.lap },
            is_full: state.is_full || ends_lap,
            position: if ends_lap { 0 } else { position },
            slow: self.replaced(state.slow, call.is_slow, oldest.is_slow),
            exceptions: self.replaced(state.exceptions, call.is_exception, oldest.is_exception),
            last: call,
        }
    }
}
