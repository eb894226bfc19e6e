//! A server and its replica.

/// The time by which a replica lags that is promoted, in microseconds.
pub(super) const LAG: u64 = 300_000;

/// The state of a server, and what its replica has of it.
#[derive(Debug)]
pub(super) struct Server<S> {
    blank: S,
    pub(super) state: S,
    replica: S,
    /// The identity of the run of the server as a primary.
    pub(super) identity: u64,
}

impl<S: Clone> Server<S> {
    pub(super) fn new(blank: S) -> Self {
        Self { state: blank.clone(), replica: blank.clone(), blank, identity: 1 }
    }

    /// Copies the state to the replica.
    pub(super) fn replicate(&mut self) {
        self.replica.clone_from(&self.state);
    }

    /// Restarts without a state.
    pub(super) fn restart(&mut self) {
        self.state.clone_from(&self.blank);
        self.identity += 1;
    }

    /// Promotes the replica.
    pub(super) fn promote(&mut self, keeps_identity: bool) {
        self.state.clone_from(&self.replica);
        self.identity += u64::from(!keeps_identity);
    }
}
