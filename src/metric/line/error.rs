//! The error of parsing a line.

use std::error::Error;
use std::fmt;

/// The error of parsing a [`MetricLine`](crate::metric::MetricLine). Fields are named as in its
/// documentation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MetricLineError {
    /// The line ends before a field that every line has.
    Missing {
        /// The field that is missing.
        field: &'static str,
    },
    /// A field is not a whole number, or is out of range.
    NotInRange {
        /// The field that is wrong.
        field: &'static str,
        /// The text of the field.
        text: String,
        /// The smallest valid number.
        min: i64,
        /// The largest valid number.
        max: i64,
    },
    /// The second field has not the form of a date, such as `2019-07-29 06:36:58`. A line without a
    /// date is read by [`MetricLine::from_thin`](crate::metric::MetricLine::from_thin).
    NoDate {
        /// The text of the field.
        text: String,
    },
    /// There is a field after the last field, perhaps because of a `|` in the name of the resource.
    TooMany {
        /// The text after the last field.
        text: String,
    },
    /// There is a line break that is not at the end.
    LineBreak {
        /// The position of the line break, in bytes.
        position: usize,
    },
}

impl fmt::Display for MetricLineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { field } => write!(f, "the line ends before its {field}"),
            Self::NotInRange { field, text, min, max } => {
                write!(f, "{field} is {text:?}, no whole number from {min} to {max}")
            }
            Self::NoDate { text } => {
                write!(f, "the date is {text:?}; expected a date such as 2019-07-29 06:36:58")
            }
            Self::TooMany { text } => write!(f, "after the last field there is {text:?}"),
            Self::LineBreak { position } => {
                write!(f, "there is a line break within the line, after {position} bytes")
            }
        }
    }
}

impl Error for MetricLineError {}
