//! The keys of a limit on the server.

use std::error::Error;
use std::fmt;

use super::LeaseConfig;

/// The keys of a limit. They share a hash tag, so that a Redis cluster stores them on one node.
///
/// ```
/// use leaparray_redis::lease::{LeaseConfig, LeaseKeys};
/// use std::time::Duration;
///
/// let config = LeaseConfig::new(100, Duration::from_secs(1))?;
/// let keys = LeaseKeys::new("orders", &config)?;
/// assert_eq!(keys.mark(), "leaparray:{orders:51:20000:30}:mark");
/// assert_eq!(keys.charges(), "leaparray:{orders:51:20000:30}:charges");
/// assert_eq!(keys.node(7), "leaparray:{orders:51:20000:30}:node:7");
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LeaseKeys {
    prefix: String,
    name: String,
    /// The key of the mark of its group, if it is in one.
    group: Option<String>,
}

impl LeaseKeys {
    /// The longest name, in bytes.
    pub const MAX_NAME_LEN: usize = 256;

    /// Returns the keys of the limit `name`. The number of its buckets, their length in
    /// microseconds and the validity of its leases are a part of them.
    ///
    /// # Errors
    ///
    /// Returns a [`LeaseNameError`] if the name is empty, has more than
    /// [`MAX_NAME_LEN`](Self::MAX_NAME_LEN) bytes, or contains a brace, which would end the hash
    /// tag.
    pub fn new(name: &str, config: &LeaseConfig) -> Result<Self, LeaseNameError> {
        Self::check_name(name)?;
        let (buckets, micros) = (config.buckets(), config.bucket_micros());
        let prefix = format!("leaparray:{{{name}:{buckets}:{micros}:{}}}", config.validity());
        Ok(Self { prefix, name: name.to_owned(), group: None })
    }

    /// Returns the keys of the limit `name` of a group: of limits with the same geometry, such as
    /// one for each client, that come and go.
    ///
    /// A group has one mark that does not expire, and one quarantine, which begins with the first
    /// ask of any of its limits after the server has lost its state. A limit that is new in a group
    /// begins without one, and the keys of a limit expire when it is not used. All keys of a group
    /// share a hash tag.
    ///
    /// A server that evicts keys weakens the limits of a group: a limit of which all keys were
    /// evicted counts as a new one. Set `maxmemory-policy noeviction`. So does one whose clock is
    /// ahead for long enough to let keys expire, and is set back before the next ask of the group.
    ///
    /// ```
    /// use leaparray_redis::lease::{LeaseConfig, LeaseKeys};
    /// use std::time::Duration;
    ///
    /// let config = LeaseConfig::new(100, Duration::from_secs(1))?;
    /// let keys = LeaseKeys::in_group("clients", "ann", &config)?;
    /// assert_eq!(keys.mark(), "leaparray:{clients:51:20000:30}:ann:mark");
    /// assert_eq!(keys.group().as_deref(), Some("leaparray:{clients:51:20000:30}:group"));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`new`](Self::new), for both names.
    pub fn in_group(group: &str, name: &str, config: &LeaseConfig) -> Result<Self, LeaseNameError> {
        Self::check_name(name)?;
        let Self { prefix, .. } = Self::new(group, config)?;
        let group = Some(format!("{prefix}:group"));
        Ok(Self { prefix: format!("{prefix}:{name}"), name: name.to_owned(), group })
    }

    /// Checks that a name can be a part of a hash tag.
    pub(crate) fn check_name(name: &str) -> Result<(), LeaseNameError> {
        if name.is_empty() || name.len() > Self::MAX_NAME_LEN {
            return Err(LeaseNameError::Length { len: name.len(), max: Self::MAX_NAME_LEN });
        }
        name.find(['{', '}']).map_or(Ok(()), |at| Err(LeaseNameError::Brace { at }))
    }

    /// Returns the name of the limit.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the key of the mark of the group, if the limit is in one. It does not expire.
    #[must_use]
    pub fn group(&self) -> Option<String> {
        self.group.clone()
    }

    /// Returns the key of the mark: which server process holds the state, and since when. It does
    /// not expire, but for a limit of a group.
    #[must_use]
    pub fn mark(&self) -> String {
        format!("{}:mark", self.prefix)
    }

    /// Returns the key of the charges. It expires after the [retention](LeaseConfig::retention).
    #[must_use]
    pub fn charges(&self) -> String {
        format!("{}:charges", self.prefix)
    }

    /// Returns the key of the last ask of an incarnation of a node. It expires after the
    /// [retention](LeaseConfig::retention).
    #[must_use]
    pub fn node(&self, node: u64) -> String {
        format!("{}:node:{node}", self.prefix)
    }
}

/// The error of the name of a limit or a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeaseNameError {
    /// The name is empty or too long.
    Length {
        /// The length of the name in bytes.
        len: usize,
        /// The longest length.
        max: usize,
    },
    /// The name contains a brace.
    Brace {
        /// The byte of the first brace.
        at: usize,
    },
}

impl fmt::Display for LeaseNameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { len, max } => {
                write!(f, "the name of a limit or a fleet has from 1 to {max} bytes, not {len}")
            }
            Self::Brace { at } => {
                write!(
                    f,
                    "the name of a limit or a fleet has a brace at byte {at}, which would end its hash tag"
                )
            }
        }
    }
}

impl Error for LeaseNameError {}
