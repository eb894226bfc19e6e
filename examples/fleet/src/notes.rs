//! The notes of the clients about their requests.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use leaparray_redis::fleet::ProcessId;

use crate::windows::Answers;

/// A request that was admitted at a time between these two, in microseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Use {
    pub(crate) earliest: u64,
    pub(crate) latest: u64,
}

impl fmt::Display for Use {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.earliest, self.latest)
    }
}

impl FromStr for Use {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let error = || format!("not two times: {text:?}");
        let (earliest, latest) = text.split_once('-').ok_or_else(error)?;
        let time = |digits: &str| digits.parse().map_err(|_| error());
        Ok(Self { earliest: time(earliest)?, latest: time(latest)? })
    }
}

/// The endings of all requests, which the clients share.
#[derive(Debug, Default)]
pub(crate) struct Notes(Mutex<Endings>);

#[derive(Clone, Debug, Default)]
pub(crate) struct Endings {
    /// Admitted, and answered.
    pub(crate) uses: Vec<Use>,
    /// Sent and not answered, because the process was killed: may have been admitted between these
    /// times.
    pub(crate) lost: Vec<Use>,
    /// Refused, and answered.
    pub(crate) refused: u64,
    /// The answers of each process, by its own clock.
    pub(crate) answers: BTreeMap<ProcessId, Answers>,
    /// Not sent, because no process listened.
    pub(crate) unsent: u64,
    /// Endings that a correct service does not have.
    pub(crate) unexpected: BTreeMap<String, u64>,
}

impl Notes {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Endings> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
