//! Which callers a rule concerns: plain data.

use std::collections::BTreeSet;
use std::fmt;

use crate::rule::{KeySource, Quoted};

/// A condition on a key of a request, by which a rule concerns [some callers
/// only](crate::Rule::only), or all [except some](crate::Rule::except).
///
/// ```
/// use leaparray_rules::RuleSet;
///
/// let rules = RuleSet::parse(
///     r#"
///     [[rule]]
///     name = "reports"
///     resource = "/reports"
///     only = { "header:x-app" = ["crawler", "exporter"] }
///     limit = "5 per second"
///     "#,
/// )?;
/// let condition = &rules.rules()[0].only[0];
/// assert!(condition.matches(Some("crawler")) && !condition.matches(Some("shop")));
/// assert!(!condition.matches(None));
/// # Ok::<_, leaparray_rules::Problems>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Condition {
    /// The source of the key.
    pub source: KeySource,
    /// The values of the key that match.
    pub values: Values,
}

/// The values of a key that match a [`Condition`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Values {
    /// Any value, but not the absence of the key.
    Any,
    /// One of these values.
    Of(BTreeSet<Box<str>>),
}

impl Condition {
    /// Creates a condition on the key from that source.
    #[must_use]
    pub const fn new(source: KeySource, values: Values) -> Self {
        Self { source, values }
    }

    /// Returns whether the key of a request matches. A request without the key does not.
    #[must_use]
    #[inline]
    pub fn matches(&self, key: Option<&str>) -> bool {
        match (key, &self.values) {
            (None, _) => false,
            (Some(_), Values::Any) => true,
            (Some(key), Values::Of(values)) => values.contains(key),
        }
    }

    /// Returns whether any value of a request matches.
    #[inline]
    pub(crate) fn matches_any<'a>(&self, mut values: impl Iterator<Item = &'a str>) -> bool {
        values.any(|it| self.matches(Some(it)))
    }

    /// Returns whether each value of a request matches. A request without one does not.
    #[inline]
    pub(crate) fn matches_all<'a>(&self, values: impl Iterator<Item = &'a str>) -> bool {
        let mut values = values.peekable();
        values.peek().is_some() && values.all(|it| self.matches(Some(it)))
    }
}

impl Values {
    /// The text that stands for any value.
    pub(crate) const ANY: &str = "*";
}

impl FromIterator<Box<str>> for Values {
    fn from_iter<I: IntoIterator<Item = Box<str>>>(values: I) -> Self {
        Self::Of(values.into_iter().collect())
    }
}

/// As a file has it: `"header:x-app" = ["a", "b"]`.
impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, values } = self;
        write!(f, "{} = ", Quoted(source))?;
        match values {
            Values::Any => Quoted(Values::ANY).fmt(f),
            Values::Of(values) => {
                let texts: Vec<_> = values.iter().map(|it| Quoted(it).to_string()).collect();
                write!(f, "[{}]", texts.join(", "))
            }
        }
    }
}

/// Conditions as a file has them.
pub(crate) struct ConditionTable<'a>(pub(crate) &'a [Condition]);

impl fmt::Display for ConditionTable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<_> = self.0.iter().map(ToString::to_string).collect();
        write!(f, "{{ {} }}", texts.join(", "))
    }
}
