//! A measure by which a rule refuses requests, other than its own counts: plain data.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::machine;
use crate::quantity::{Percent, QuantityError, Time, number};

/// A measure by which a rule refuses requests: of another resource, of all inbound requests, or of
/// the machine.
///
/// ```
/// use leaparray_rules::Overload;
///
/// let text = "from 100 per second at POST /orders";
/// let overload: Overload = text.parse()?;
/// let resource = "POST /orders".into();
/// assert_eq!(overload, Overload::Rate { resource, limit: 100 });
/// assert_eq!(overload.to_string(), text);
/// # Ok::<_, leaparray_rules::QuantityError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Overload {
    /// `from 100 per second at NAME`: while another resource has admitted so many requests in the
    /// short window of the registry, by default a second, that one more would be above the limit.
    /// The resource gives way to the other one.
    Rate {
        /// The name of the other resource.
        resource: Box<str>,
        /// The requests of a second.
        limit: u64,
    },
    /// `from 8 in flight at NAME`: while another resource has so many requests in flight that one
    /// more would be above the limit.
    InFlight {
        /// The name of the other resource.
        resource: Box<str>,
        /// The requests in flight.
        limit: u64,
    },
    /// `above 200ms`: while the mean response time of all inbound requests in the short window of
    /// the registry is longer. It is measured by the first request of every 100 ms, which reads the
    /// windows of all inbound resources.
    ResponseTime(Duration),
    /// `above 80 % cpu`: while the processors of the machine were busy for a larger share of the
    /// last second. In percent. On Linux only. It is measured by requests, once a second. The share
    /// is that since the last measurement, which may be 0.5 to 5 seconds ago: the first request
    /// after a longer pause is admitted.
    Cpu(f64),
}

impl Overload {
    /// The values that would be right.
    pub(crate) const RIGHT: &str = "\"from 100 per second at NAME\", \"from 8 in flight at NAME\", \
                                    \"above 200ms\" or \"above 80 % cpu\"";

    /// Returns why it cannot be measured, if it cannot.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self {
            Self::Cpu(_) => machine::cpu_times().map(drop),
            _ => Ok(()),
        }
    }
}

impl FromStr for Overload {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let wrong = || QuantityError::new(text, "measure");
        if let Some(rest) = text.strip_prefix("from ") {
            let (what, resource) = rest.split_once(" at ").ok_or_else(wrong)?;
            let resource: Box<str> = resource.trim().into();
            return match what.split_once(' ') {
                _ if resource.is_empty() => Err(wrong()),
                Some((limit, "per second")) => Ok(Self::Rate { resource, limit: number(limit)? }),
                Some((limit, "in flight")) => {
                    Ok(Self::InFlight { resource, limit: number(limit)? })
                }
                _ => Err(wrong()),
            };
        }
        let above = text.strip_prefix("above ").ok_or_else(wrong)?;
        if let Some(share) = above.strip_suffix(" cpu") {
            return share.parse().map(|Percent(share)| Self::Cpu(share));
        }
        above.parse().map(|Time(time)| Self::ResponseTime(time))
    }
}

impl fmt::Display for Overload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rate { resource, limit } => write!(f, "from {limit} per second at {resource}"),
            Self::InFlight { resource, limit } => write!(f, "from {limit} in flight at {resource}"),
            Self::ResponseTime(time) => write!(f, "above {}", Time(*time)),
            Self::Cpu(share) => write!(f, "above {} cpu", Percent(*share)),
        }
    }
}
