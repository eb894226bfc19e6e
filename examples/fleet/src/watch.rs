//! The state of the whole fleet, and its changes.

use crate::status::State;
use crate::table::Seen;

/// The state in which all processes are.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    state: Option<State>,
    /// Since when all processes lease, in microseconds.
    since: Option<u64>,
    leasing: Vec<(u64, u64)>,
}

impl Watch {
    /// Takes what is seen of the processes at `now`. Returns the state if all processes that answer
    /// have changed to it.
    pub(crate) fn see(&mut self, processes: &[Seen], now: u64) -> Option<State> {
        let mut states = processes.iter().filter_map(|it| match it {
            Seen::Status(status) => Some(status.state),
            Seen::Killed | Seen::Silent => None,
        });
        let state = states.next()?;
        if Some(state) == self.state || states.any(|it| it != state) {
            return None;
        }
        self.state = Some(state);
        match state {
            State::Leasing => self.since = Some(now),
            _ => self.end(now),
        }
        Some(state)
    }

    /// Notes that the server may grant nothing from now on.
    pub(crate) fn end(&mut self, now: u64) {
        self.leasing.extend(self.since.take().map(|since| (since, now)));
    }

    /// Returns the spans of time in which all processes leased, in microseconds.
    pub(crate) fn leasing(&self) -> &[(u64, u64)] {
        &self.leasing
    }
}
