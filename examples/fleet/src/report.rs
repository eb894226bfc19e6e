//! The result of the audit, for people.

use std::fmt::Write as _;
use std::time::Duration;

use crate::audit::Audit;
use crate::notes::Endings;

/// The report, and the reasons for which the run has failed.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) text: String,
    pub(crate) failures: Vec<String>,
}

/// What is known about the times of the server, in microseconds.
#[derive(Debug)]
pub(crate) struct Times<'a> {
    /// The time at which the run began.
    pub(crate) began: u64,
    /// The error of a time of this machine that is translated to a time of the server.
    pub(crate) error: u64,
    /// The spans in which all processes leased.
    pub(crate) leasing: &'a [(u64, u64)],
}

/// Returns the report.
pub(crate) fn report(audit: &Audit, endings: &Endings, times: &Times<'_>) -> Report {
    let (limit, &Times { began, error, leasing }) = (audit.limit(), times);
    let mut text = "\naudit of every window, by the server's time".to_owned();
    if error > 0 {
        let _ = write!(text, ", which is known to {:?}", Duration::from_micros(error));
    }
    let _ = write!(text, "\n{}", requests(endings));
    let mut failures: Vec<String> = endings
        .unexpected
        .iter()
        .map(|(ending, count)| format!("{count} requests ended with: {ending}"))
        .collect();
    let Some(highest) = audit.highest() else {
        failures.push("no request was admitted, so the audit shows nothing".to_owned());
        return Report { text, failures };
    };
    let [begin, end] = <[u64; 2]>::from(audit.bounds(&highest)).map(|it| seconds(it, began));
    let _ = writeln!(
        text,
        "highest window   {} of {limit} permits, from {begin:.1} s to {end:.1} s",
        highest.certain
    );
    let (unclear, lost) = (audit.unclear(), endings.lost.len());
    if unclear > 0 || lost > 0 {
        let _ = writeln!(
            text,
            "                 at most {} if lost requests ({lost}) and those at the edge of a bucket ({unclear}) count where they may",
            audit.most_possible()
        );
    }
    if let Some(part) = audit.utilisation(leasing) {
        let _ = writeln!(
            text,
            "utilisation      {:.1} % of the limit on average, outside of quarantines",
            100.0 * part
        );
    }
    if highest.certain > limit {
        failures.push(format!(
            "the window from {begin:.1} s to {end:.1} s has {} admitted requests, {} more than the limit",
            highest.certain,
            highest.certain - limit
        ));
    } else {
        text += "no window has more than the limit\n";
    }
    Report { text, failures }
}

fn requests(endings: &Endings) -> String {
    let Endings { uses, lost, refused, unsent, .. } = endings;
    let (admitted, lost) = (uses.len(), lost.len());
    let mut text = format!("\nadmitted         {admitted} requests\nrefused          {refused}\n");
    if *unsent > 0 {
        let _ = writeln!(text, "not sent         {unsent}: the process did not run");
    }
    if lost > 0 {
        let _ = writeln!(
            text,
            "lost             {lost}: in flight when the process was killed, admitted or not"
        );
    }
    text
}

/// Returns the seconds since the begin of the run.
fn seconds(at: u64, began: u64) -> f64 {
    let micros = at.cast_signed() - began.cast_signed();
    #[expect(clippy::cast_precision_loss, reason = "at most an hour")]
    let micros = micros as f64;
    micros / 1e6
}
