//! The status of a service process, as a line of text.

use std::fmt;
use std::str::FromStr;

use leaparray_redis::LeaseState;

/// Whether a limiter gets leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Connecting,
    Leasing,
    Quarantine,
    Away,
    Other,
}

/// A service process at one time. The counts are those of the last second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) state: State,
    pub(crate) in_hand: u64,
    pub(crate) admitted: u64,
    pub(crate) refused: u64,
}

impl State {
    pub(crate) const ALL: [Self; 5] =
        [Self::Connecting, Self::Leasing, Self::Quarantine, Self::Away, Self::Other];

    pub(crate) const fn of(state: &LeaseState) -> Self {
        match state {
            LeaseState::Connecting => Self::Connecting,
            LeaseState::Leasing => Self::Leasing,
            LeaseState::Quarantine { .. } => Self::Quarantine,
            LeaseState::Away { .. } => Self::Away,
            _ => Self::Other,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Leasing => "leasing",
            Self::Quarantine => "quarantine",
            Self::Away => "away",
            Self::Other => "closed",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { state, in_hand, admitted, refused } = self;
        write!(f, "{state} {in_hand} {admitted} {refused}")
    }
}

impl FromStr for Status {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let error = || format!("not the status of a process: {text:?}");
        let words: Vec<&str> = text.split_whitespace().collect();
        let [state, in_hand, admitted, refused] = words[..] else { return Err(error()) };
        let state = State::ALL.into_iter().find(|it| it.name() == state).ok_or_else(error)?;
        let count = |word: &str| word.parse().map_err(|_| error());
        Ok(Self {
            state,
            in_hand: count(in_hand)?,
            admitted: count(admitted)?,
            refused: count(refused)?,
        })
    }
}
