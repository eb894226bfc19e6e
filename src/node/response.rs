//! Responses by the class of their status.

use std::fmt;
use std::ops::{AddAssign, Index, IndexMut};

use super::lane_counters::LaneCounters;

/// The class of the status of a response, as HTTP defines it (RFC 9110, section 15).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResponseClass {
    /// 1xx.
    Informational,
    /// 2xx.
    Successful,
    /// 3xx.
    Redirection,
    /// 4xx.
    ClientError,
    /// 5xx.
    ServerError,
}

impl ResponseClass {
    /// Every class, in the order of their first digits.
    pub const ALL: [Self; 5] = [
        Self::Informational,
        Self::Successful,
        Self::Redirection,
        Self::ClientError,
        Self::ServerError,
    ];

    /// Returns the class of a status. One that is below 100 or above 599 is a server error, as a
    /// client takes it.
    ///
    /// ```
    /// use leaparray::node::ResponseClass;
    ///
    /// assert_eq!(ResponseClass::of_status(404), ResponseClass::ClientError);
    /// assert_eq!(ResponseClass::of_status(999), ResponseClass::ServerError);
    /// ```
    #[inline]
    #[must_use]
    pub const fn of_status(status: u16) -> Self {
        match status / 100 {
            1 => Self::Informational,
            2 => Self::Successful,
            3 => Self::Redirection,
            4 => Self::ClientError,
            _ => Self::ServerError,
        }
    }

    /// Returns the name, as labels of metrics have it: `1xx` to `5xx`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        ["1xx", "2xx", "3xx", "4xx", "5xx"][self as usize]
    }
}

impl fmt::Display for ResponseClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The responses of a node by the class of their status, since the node was made: plain data.
///
/// They are indexed by [`ResponseClass`]. The sums saturate. A request that ended without a
/// response, such as an error of a backend or a client that has gone away, is in no class, and
/// neither is one that was refused.
///
/// ```
/// use leaparray::node::ResponseClass::{ClientError, Successful};
/// use leaparray::{NodeConfig, ResourceNode};
///
/// let node = ResourceNode::new(NodeConfig::default());
/// for class in [Successful, Successful, ClientError] {
///     node.count_response(class);
/// }
/// let responses = node.responses();
/// assert_eq!((responses[Successful], responses[ClientError], responses.sum()), (2, 1, 3));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
pub struct Responses([u64; ResponseClass::ALL.len()]);

impl Responses {
    /// Returns each class with its count, in the order of [`ResponseClass::ALL`].
    ///
    /// ```
    /// use leaparray::node::{ResponseClass, Responses};
    ///
    /// let mut responses = Responses::default();
    /// responses[ResponseClass::ServerError] += 2;
    /// assert_eq!(responses.iter().last(), Some((ResponseClass::ServerError, 2)));
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = (ResponseClass, u64)> + use<> {
        ResponseClass::ALL.into_iter().zip(self.0)
    }

    /// Returns the number of responses of all classes.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.0.into_iter().fold(0, u64::saturating_add)
    }
}

impl Index<ResponseClass> for Responses {
    type Output = u64;

    fn index(&self, class: ResponseClass) -> &u64 {
        &self.0[class as usize]
    }
}

impl IndexMut<ResponseClass> for Responses {
    fn index_mut(&mut self, class: ResponseClass) -> &mut u64 {
        &mut self.0[class as usize]
    }
}

impl AddAssign<&Self> for Responses {
    fn add_assign(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, count)| *sum = sum.saturating_add(count));
    }
}

/// The counters of responses by class.
#[derive(Debug)]
pub(crate) struct ResponseCounters(LaneCounters<{ ResponseClass::ALL.len() }>);

impl ResponseCounters {
    pub(crate) fn new() -> Self {
        Self(LaneCounters::new())
    }

    #[inline]
    pub(crate) fn add(&self, class: ResponseClass) {
        self.0.add_one(class as usize);
    }

    pub(crate) fn get(&self) -> Responses {
        Responses(self.0.sums())
    }
}
