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

/// The faults of a server, whatever its state is.
pub(super) trait FailOver {
    /// Copies the state to the replica.
    fn replicate(&mut self);

    /// Restarts without a state.
    fn restart(&mut self);

    /// Promotes the replica.
    fn promote(&mut self, keeps_identity: bool);
}

impl<S: Clone> Server<S> {
    pub(super) fn new(blank: S) -> Self {
        Self { state: blank.clone(), replica: blank.clone(), blank, identity: 1 }
    }
}

impl<S: Clone> FailOver for Server<S> {
    fn replicate(&mut self) {
        self.replica.clone_from(&self.state);
    }

    fn restart(&mut self) {
        self.state.clone_from(&self.blank);
        self.identity += 1;
    }

    fn promote(&mut self, keeps_identity: bool) {
        self.state.clone_from(&self.replica);
        self.identity += u64::from(!keeps_identity);
    }
}
