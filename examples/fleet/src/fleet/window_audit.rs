//! The audit of the windows, at the end of a run.

use std::error::Error;

use super::Fleet;
use crate::notes::Endings;
use crate::report::Report;
use crate::windows::{Windows, audit, members, reader};

impl Fleet {
    /// Compares the windows with what the clients have counted, after all processes have ended.
    pub(super) async fn audit_windows(&self, notes: &Endings) -> Result<Report, Box<dyn Error>> {
        self.reader.poll().await?;
        // A reader that starts now knows only what the server has.
        let late = reader(&self.name, self.engine.clone())?;
        late.poll().await?;
        let (members, sum) = self.reader.with(|view| (members(view), view.sum()));
        let stored = late.with(|view| view.processes().map(|it| it.0).collect());
        let windows = Windows { members: &members, sum: &sum, stored: &stored };
        Ok(audit(&windows, &notes.answers, notes.lost.len() as u64, &self.endings))
    }
}
