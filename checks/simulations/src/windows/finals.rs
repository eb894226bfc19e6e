//! The check of the seconds that a reader shows as final.

use std::collections::BTreeMap;

use leaparray_redis::fleet::{FleetWindow, Standing};

use super::Scenario;
use super::process::Process;
use super::server::Server;
use super::shown::ShownProcess;
use super::violations::{Check, Violations};
use super::{Broken, MICROS};

/// The seconds that a reader has shown as final, each as it was shown last.
#[derive(Debug, Default)]
pub(super) struct Finals {
    pub(super) seconds: BTreeMap<u64, Shown>,
    /// How often a process came back to a second that had been final without it.
    pub(super) returns: u64,
    /// How often a process was not named that the server had forgotten, and that had not reached it
    /// since.
    pub(super) forgotten: u64,
}

/// A second that was final.
#[derive(Debug)]
pub(super) struct Shown {
    /// The time of the first survey after which it was final.
    since: u64,
    /// The time of the last survey.
    at: u64,
    /// How long after the end of the second it was final for the first time, in microseconds.
    pub(super) after: u64,
    standing: Standing,
    pub(super) processes: Vec<ShownProcess>,
}

/// The data for the check of a second.
pub(super) struct Poll<'a> {
    pub(super) reader: usize,
    pub(super) time: u64,
    /// The time of the survey.
    pub(super) now: u64,
    pub(super) scenario: &'a Scenario,
    pub(super) server: &'a Server,
    pub(super) processes: &'a [Process],
}

impl Finals {
    /// Returns whether a second was final.
    pub(super) fn has(&self, second: u64) -> bool {
        self.seconds.contains_key(&second)
    }

    /// Checks a second that is shown.
    pub(super) fn check(
        &mut self,
        poll: &Poll<'_>,
        window: &FleetWindow,
        mut processes: Vec<ShownProcess>,
        violations: &mut Violations,
    ) {
        let second = window.seconds.start;
        let is_final = if poll.scenario.broken == Some(Broken::NoGrace) {
            !processes.is_empty() && processes.iter().all(|it| !it.is_waiting)
        } else {
            window.standing.is_final()
        };
        if is_final {
            let before = self.seconds.get(&second);
            let forgotten = poll.check_all_named(second, before, &processes, violations);
            self.forgotten += if self.has(second) { 0 } else { forgotten };
        }
        match self.seconds.get_mut(&second) {
            Some(before) => {
                self.returns += poll.check_later(second, before, &processes, violations);
                violations.check(Check::Final, is_final, || {
                    format!("second {second} is not final any more")
                });
                before.keep_lost(&mut processes);
                (before.at, before.standing) = (poll.now, window.standing);
                before.processes = processes;
            }
            None if is_final => {
                let after = poll.time.saturating_sub((second + 1) * MICROS);
                let (at, standing) = (poll.now, window.standing);
                let shown = Shown { since: at, at, after, standing, processes };
                self.seconds.insert(second, shown);
            }
            None => {}
        }
    }
}

impl Shown {
    /// Marks the processes that were lost when the second was final, and are not present yet, also
    /// if they are live again. A process that was not named then was lost as well: the server had
    /// lost its record, and was not reached by it within `lost_after`. It is back, and its part may
    /// still be added.
    fn keep_lost(&self, processes: &mut [ShownProcess]) {
        for it in processes {
            let is_new = self.find(it.number).is_none();
            it.is_lost |= !it.is_present && (is_new || self.has_lost(it.number));
        }
    }

    /// Returns whether a process was lost, and not present.
    fn has_lost(&self, process: usize) -> bool {
        self.find(process).is_some_and(|it| it.is_lost && !it.is_present)
    }

    /// Returns whether a process was present.
    pub(super) fn has(&self, process: usize) -> bool {
        self.find(process).is_some_and(|it| it.is_present)
    }

    fn find(&self, process: usize) -> Option<&ShownProcess> {
        let found = self.processes.binary_search_by_key(&process, |it| it.number).ok()?;
        Some(&self.processes[found])
    }
}

impl Poll<'_> {
    fn text(&self, second: u64, process: usize, text: &str) -> String {
        let start = super::START;
        let Self { reader, now, .. } = self;
        let process_text = &self.processes[process];
        let of = |time: u64| (time / 1_000).cast_signed() - (start * 1_000).cast_signed();
        format!(
            "reader {reader} at {} ms, second {}, process {process} from {} to {:?}: {text}; {:?}",
            of(*now),
            second.cast_signed() - start.cast_signed(),
            process_text.first.cast_signed() - start.cast_signed(),
            process_text.end.map(|it| it - start),
            self.server.taken(process).map(|it| of(it.contact_at(u64::MAX))),
        )
    }

    /// Returns whether a process was live when a second was shown, and the server had to expect it:
    /// it runs, and has reached the server, or could not because the server was away.
    fn is_live(&self, process: usize, at: u64) -> bool {
        let has_ended = self.processes[process].has_ended();
        self.server.has_heard(process, at) && !has_ended && !self.server.is_unaware(at)
    }

    /// Returns whether the server keeps the record of a process at a time.
    fn is_kept(&self, process: usize, at: u64) -> bool {
        let kept = u64::from(self.scenario.config.departed()) * MICROS;
        let contact = self.server.contact_at(process, at);
        at < contact + kept
    }

    /// Checks that each process that had a second is named, and that it does not wait. Returns how
    /// many are not named because the server has forgotten them.
    fn check_all_named(
        &self,
        second: u64,
        before: Option<&Shown>,
        shown: &[ShownProcess],
        violations: &mut Violations,
    ) -> u64 {
        let mut forgotten = 0;
        let mut named = shown.iter().peekable();
        for (number, process) in self.processes.iter().enumerate() {
            let named = named.next_if(|it| it.number == number);
            let Some(taken) = self.server.taken(number) else { continue };
            if !process.had(second) || second < taken.first || !self.is_kept(number, self.now) {
                continue;
            }
            if let Some(it) = named {
                violations.check(Check::Complete, !it.is_waiting, || {
                    self.text(second, number, "final, and waits")
                });
                let has_server = taken.at(second).is_some_and(|at| at <= self.now);
                // The part of a process that is back may not be read yet.
                let is_back = before.is_some_and(|it| it.has_lost(number));
                let is_honest = it.is_present || !has_server || is_back || self.server.epoch > 0;
                violations.check(Check::Complete, is_honest, || {
                    self.text(second, number, "missing, and the server has it")
                });
            } else if self.server.knows(number, self.now) {
                violations.check(Check::Complete, false, || self.text(second, number, "not named"));
            } else if self.server.epoch > 0 {
                // It may have reached the server after the second was final, which has lost it
                // again before the reader has asked.
                let is_right = before.is_some() || !self.is_live(number, self.now);
                violations.check(Check::Complete, is_right, || {
                    self.text(second, number, "live and forgotten")
                });
                forgotten += 1;
            }
        }
        forgotten
    }

    /// Checks a second that was final before. Returns how many processes came back to it.
    fn check_later(
        &self,
        second: u64,
        before: &Shown,
        shown: &[ShownProcess],
        violations: &mut Violations,
    ) -> u64 {
        let mut returns = 0;
        for it in shown {
            match before.find(it.number) {
                None => {
                    // Unless the server had forgotten it. It may have reached the server after the
                    // second was final, which has lost it again before the reader has asked.
                    let is_known =
                        self.server.epoch == 0 || self.server.knows(it.number, before.at);
                    let was_live = self.is_live(it.number, before.since);
                    let is_wrong = self.is_kept(it.number, before.at) && (is_known || was_live);
                    violations.check(Check::Final, !is_wrong, || {
                        self.text(second, it.number, "new in a final second")
                    });
                }
                Some(old) if old.is_present != it.is_present => {
                    let was_open = before.standing == Standing::Final;
                    let is_return = it.is_present && old.is_lost && was_open;
                    violations.check(Check::Final, is_return, || {
                        self.text(second, it.number, "changes a final second")
                    });
                    returns += 1;
                }
                Some(_) => {}
            }
        }
        for old in &before.processes {
            let is_there = shown.binary_search_by_key(&old.number, |it| it.number).is_ok();
            // A process that was lost had left before this second.
            let had = self.processes[old.number].had(second) && self.is_kept(old.number, self.now);
            violations.check(Check::Final, is_there || !had, || {
                self.text(second, old.number, "vanished from a final second")
            });
        }
        returns
    }
}
