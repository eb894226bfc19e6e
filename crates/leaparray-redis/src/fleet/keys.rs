//! The keys of a fleet on the server.

use super::{FleetConfig, ProcessId};
use crate::lease::{LeaseKeys, LeaseNameError};

/// The keys of a fleet. They share a hash tag, so that a Redis cluster stores them on one node. All
/// of them expire.
///
/// ```
/// use leaparray_redis::fleet::{FleetConfig, FleetKeys, ProcessId};
///
/// let keys = FleetKeys::new("shop", &FleetConfig::default())?;
/// assert_eq!(keys.records(), "leaparray:{fleet/shop:60:30:2:5:600}:records");
/// assert_eq!(keys.second(7), "leaparray:{fleet/shop:60:30:2:5:600}:second:7");
/// assert_eq!(
///     keys.names(ProcessId(10)),
///     "leaparray:{fleet/shop:60:30:2:5:600}:names:000000000000000a"
/// );
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FleetKeys {
    prefix: String,
    name: String,
}

impl FleetKeys {
    /// Returns the keys of the fleet `name`. The settings are a part of them.
    ///
    /// # Errors
    ///
    /// Returns a [`LeaseNameError`] if the name is empty, has more than [`LeaseKeys::MAX_NAME_LEN`]
    /// bytes, or contains a brace, which would end the hash tag.
    pub fn new(name: &str, config: &FleetConfig) -> Result<Self, LeaseNameError> {
        LeaseKeys::check_name(name)?;
        let settings = [
            config.history(),
            config.delivery(),
            config.grace(),
            config.lost_after(),
            config.departed(),
        ]
        .map(|it| it.to_string());
        let prefix = format!("leaparray:{{fleet/{name}:{}}}", settings.join(":"));
        Ok(Self { prefix, name: name.to_owned() })
    }

    /// Returns the name of the fleet.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the key of the records of all processes, by their identities.
    #[must_use]
    pub fn records(&self) -> String {
        format!("{}:records", self.prefix)
    }

    /// Returns the key of the times of the last deliveries of all processes.
    #[must_use]
    pub fn contacts(&self) -> String {
        format!("{}:contacts", self.prefix)
    }

    /// Returns the key of a second: what each process has delivered of it.
    #[must_use]
    pub fn second(&self, second: u64) -> String {
        format!("{}:second:{second}", self.prefix)
    }

    /// Returns the key of the names of the resources of a process, by their numbers.
    #[must_use]
    pub fn names(&self, process: ProcessId) -> String {
        format!("{}:names:{process}", self.prefix)
    }
}
