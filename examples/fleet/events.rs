//! What happens to the fleet on the way, and when.

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
const AWAY: Duration = Duration::from_secs(1);

/// How long the server is away. It is short, so that the leases of the state that it has lost are in use when it is back.
const SERVER_AWAY: Duration = Duration::from_millis(300);

/// Returns the steps of a run of `seconds`, in order.
pub(crate) fn steps(seconds: u32, is_own_server: bool) -> VecDeque<(Duration, Step)> {
    let [third, two_thirds] =
        [1, 2].map(|it| Duration::from_secs(u64::from(seconds) * it / 3) - LEAD);
    let mut steps =
        VecDeque::from([(third, Step::KillProcess), (third + AWAY, Step::StartProcess)]);
    if is_own_server {
        steps.push_back((two_thirds, Step::KillServer));
        steps.push_back((two_thirds + SERVER_AWAY, Step::StartServer));
    } else {
        steps.push_back((two_thirds, Step::LeaveServer));
    }
    steps
}

/// Returns the index of the process that is killed: the second one, if there is one. Without it, the others still have more requests
/// than the limit.
pub(crate) const fn victim(processes: usize) -> usize {
    if processes > 1 { 1 } else { 0 }
}
