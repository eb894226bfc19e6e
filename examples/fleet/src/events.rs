//! The faults of a run, and their times.

use std::collections::VecDeque;
use std::time::Duration;

/// A step of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    KillProcess,
    StartProcess,
    KillServer,
    StartServer,
    /// Instead of the last two, if the server is not of this program.
    LeaveServer,
}

/// The time between a step and the next row of the table, so that the row shows what it does.
const LEAD: Duration = Duration::from_millis(200);

/// How long a process is away.
pub(crate) const AWAY: Duration = Duration::from_secs(1);

/// How long the server is away. It is short, so that leases of the state that it has lost are in
/// use when it is back.
pub(crate) const SERVER_AWAY: Duration = Duration::from_millis(100);

/// For how long a kill waits for the worst moment.
pub(crate) const MAX_DELAY: Duration = Duration::from_secs(1);

/// Returns the steps of a run of `seconds`, in order. What is killed is started a while later.
pub(crate) fn steps(seconds: u32, is_own_server: bool) -> VecDeque<(Duration, Step)> {
    let part = |thirds| Duration::from_secs(u64::from(seconds) * thirds / 3).saturating_sub(LEAD);
    let server = if is_own_server { Step::KillServer } else { Step::LeaveServer };
    VecDeque::from([(part(1), Step::KillProcess), (part(2), server)])
}

/// Returns the index of the process that is killed: the second one, if there is one. Without it,
/// the others still have more requests than the limit.
pub(crate) const fn victim(processes: usize) -> usize {
    if processes > 1 { 1 } else { 0 }
}
