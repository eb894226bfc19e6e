//! The scripts of a window over a fleet on the server, their arguments and their replies: what a
//! [`FleetEngine`](super::FleetEngine) over another client needs.

use super::EngineError;
use crate::fleet::{
    Delivery, FleetConfig, FleetKeys, Known, NamesFetch, Outcome, ProcessId, Receipt, Survey,
};

/// The first part of each script: the server's time. A test may replace it.
pub const CLOCK: &str = include_str!("clock.lua");

/// The second part of the script that takes a delivery. It needs `time`.
pub const DELIVER: &str = include_str!("deliver.lua");

/// The second part of the script that returns the records. It needs `time`.
pub const SURVEY: &str = include_str!("survey.lua");

/// The second part of the script that returns seconds. It needs `time`.
pub const FETCH: &str = include_str!("fetch.lua");

/// The script that returns names.
pub const NAMES: &str = include_str!("names.lua");

/// The reply of [`DELIVER`]: the time, the number of names, the number of live processes, the
/// outcome, and the stored record.
pub type DeliverReply = (u64, u32, u32, String, Vec<u8>);

/// The reply of [`SURVEY`]: the time, since when the fleet was heard of, and the processes.
pub type SurveyReply = (u64, u64, Vec<(String, String, Vec<u8>)>);

/// Returns the keys of [`DELIVER`]. They are in one slot of a cluster.
#[must_use]
pub fn deliver_keys(keys: &FleetKeys, delivery: &Delivery) -> Vec<String> {
    let mut all = vec![keys.records(), keys.contacts(), keys.names(delivery.process)];
    all.extend(delivery.seconds.iter().map(|it| keys.second(it.second)));
    all
}

/// Returns the arguments of [`DELIVER`].
#[must_use]
pub fn deliver_arguments(config: &FleetConfig, delivery: &Delivery) -> Vec<Vec<u8>> {
    let kept = config.expiry(0) - config.deadline(0);
    let numbers = [
        delivery.base,
        delivery.first,
        config.grace().into(),
        config.delivery().into(),
        kept / crate::fleet::MICROS,
        config.lost_after().into(),
        config.departed().into(),
        delivery.names_before.into(),
    ];
    let mut all = vec![delivery.process.to_string().into_bytes()];
    all.extend(numbers.map(|it| it.to_string().into_bytes()));
    all.push(delivery.record.clone());
    for it in &delivery.seconds {
        all.extend([it.second.to_string().into_bytes(), it.bytes.clone()]);
    }
    all.extend(delivery.names.iter().cloned());
    all
}

/// Returns the receipt in a reply of [`DELIVER`].
///
/// # Errors
///
/// Returns an [`EngineError`] if there is no such outcome, or no version after a conflict.
pub fn receipt(
    (now, names, processes, outcome, stored): DeliverReply,
) -> Result<Receipt, EngineError> {
    let outcome = match outcome.as_str() {
        "taken" => Outcome::Taken,
        "late" => Outcome::TooLate,
        "early" => Outcome::TooEarly,
        "names" => Outcome::NamesLost,
        "conflict" => {
            let (version, record) = versioned(&stored)?;
            Outcome::Conflict { version, record }
        }
        _ => return Err(EngineError::FleetReply { found: outcome }),
    };
    Ok(Receipt { now, names, processes, outcome })
}

/// Returns the survey in a reply of [`SURVEY`].
///
/// # Errors
///
/// Returns an [`EngineError`] if the identity of a process, a time or a version is not one.
pub fn survey((now, since, processes): SurveyReply) -> Result<Survey, EngineError> {
    let known = |(process, contact, stored): (String, String, Vec<u8>)| {
        let process = process.parse().map_err(|_| EngineError::FleetReply { found: process })?;
        let contact = contact.parse().map_err(|_| EngineError::FleetReply { found: contact })?;
        let (version, record) = versioned(&stored)?;
        Ok(Known { process, version, contact, record })
    };
    let processes = processes.into_iter().map(known).collect::<Result<_, _>>()?;
    Ok(Survey { now, since, processes })
}

/// Returns the fields of [`FETCH`].
#[must_use]
pub fn second_fields(config: &FleetConfig, second: u64, processes: &[ProcessId]) -> Vec<String> {
    let mut all = vec![config.expiry(second).to_string()];
    all.extend(processes.iter().map(ToString::to_string));
    all
}

/// The reply of [`NAMES`]: the names of each process, and nothing for each that the server does not
/// have.
pub type NamesReply = Vec<Vec<Option<Vec<u8>>>>;

/// Returns the keys of [`NAMES`].
#[must_use]
pub fn names_keys(keys: &FleetKeys, fetches: &[NamesFetch]) -> Vec<String> {
    fetches.iter().map(|it| keys.names(it.process)).collect()
}

/// Returns the arguments of [`NAMES`].
#[must_use]
pub fn names_arguments(fetches: &[NamesFetch]) -> Vec<String> {
    fetches.iter().flat_map(|it| [it.from, it.count]).map(|it| it.to_string()).collect()
}

/// Returns the names in a reply of [`NAMES`].
#[must_use]
pub fn names(reply: NamesReply) -> Vec<Vec<Vec<u8>>> {
    // The numbers have no gaps: there is no name after one that is not there.
    reply.into_iter().map(|it| it.into_iter().map_while(|it| it).collect()).collect()
}

/// Splits the version, a colon and the record.
fn versioned(stored: &[u8]) -> Result<(u64, Vec<u8>), EngineError> {
    let colon = stored.iter().position(|it| *it == b':');
    let version = colon.and_then(|at| std::str::from_utf8(&stored[..at]).ok()?.parse().ok());
    match (version, colon) {
        (Some(version), Some(at)) => Ok((version, stored[at + 1..].to_vec())),
        _ => Err(EngineError::FleetReply { found: String::from_utf8_lossy(stored).into_owned() }),
    }
}
