//! The faults.

use std::collections::VecDeque;
use std::error::Error;
use std::time::Duration;

use super::Fleet;
use crate::clock::time_of_day;
use crate::events::{AWAY, MAX_DELAY, SERVER_AWAY, Step, victim};
use crate::table::Seen;
use crate::windows::Ending;

impl Fleet {
    /// Takes the steps whose time has come. `seen`: the processes, at the last reading.
    pub(super) fn take_due(
        &mut self,
        steps: &mut VecDeque<(Duration, Step)>,
        seen: &[Seen],
    ) -> Result<(), Box<dyn Error>> {
        let now = self.begin.elapsed();
        let Some(&(at, step)) = steps.front().filter(|it| it.0 <= now) else { return Ok(()) };
        let victim = victim(self.processes.len());
        let (number, in_hand) = (victim + 1, seen.get(victim).map_or(0, Seen::in_hand));
        // The worst moments: permits in hand are lost with a process, and permits that were just
        // used are what a server might grant again that has lost its state.
        let is_worst = match step {
            Step::KillProcess => in_hand > 0,
            Step::KillServer => self.is_burst(),
            Step::StartProcess | Step::StartServer | Step::LeaveServer => true,
        };
        if !is_worst && now < at + MAX_DELAY {
            return Ok(());
        }
        steps.pop_front();
        match step {
            Step::KillProcess => {
                let process = &mut self.processes[victim];
                process.kill();
                self.endings.push(Ending { name: process.name().to_owned(), is_killed: true });
                self.say(&format!(
                    "process {number} is killed, with some {in_hand} permits in hand"
                ));
                steps.push_front((now + AWAY, Step::StartProcess));
            }
            Step::StartProcess => {
                self.processes[victim].start_again()?;
                self.say(&format!("process {number} starts again"));
            }
            Step::KillServer => {
                self.watch.end(self.server_time());
                self.server.kill();
                self.say("the server is killed: the processes go on with the permits in hand");
                steps.push_front((now + SERVER_AWAY, Step::StartServer));
            }
            Step::StartServer => {
                self.server.start_again()?;
                self.say("the server starts again, blank");
            }
            Step::LeaveServer => {
                let host = self.server.host();
                self.say(&format!(
                    "the server at {host} is not killed: this program has not started it"
                ));
            }
        }
        Ok(())
    }

    /// Returns whether the fleet has just admitted many requests: 40 % of the limit in 300 ms.
    fn is_burst(&self) -> bool {
        let since = time_of_day() - 300_000;
        let notes = self.notes.lock();
        let recent = notes.uses.iter().rev().take_while(|it| it.latest > since).count() as u64;
        recent * 5 > self.config.limit() * 2
    }
}
