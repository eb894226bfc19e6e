//! Which requests give way to others under load: plain data.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;

use leaparray::flow::shadow::Share;

use crate::caller::KeyValues;
use crate::rule::{KeySource, Quoted};

/// The shares of a limit in flight that the classes of requests may use: `priority` and `shares` in
/// a file. See [`Classes`](leaparray::flow::priority::Classes) for what a share promises.
///
/// ```
/// use leaparray::flow::shadow::Share;
/// use leaparray_rules::RuleSet;
///
/// let rules = RuleSet::parse(
///     r#"
///     [[rule]]
///     name = "backend"
///     resource = "/api/*"
///     in_flight = 100
///     priority = "header:x-class"
///     shares = { payments = "100 %", "*" = "80 %", batch = "50 %" }
///     "#,
/// )?;
/// let priority = rules.rules()[0].priority.as_ref().expect("it has one");
/// let shares = ["payments", "batch", "other", ""].map(|it| priority.share_of(it));
/// assert_eq!(shares, [100, 50, 80, 80].map(|it| Share::percent(it).expect("at most 100")));
/// # Ok::<_, leaparray_rules::Problems>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Priority {
    /// The source of the name of a request's class.
    pub source: KeySource,
    /// The share of each class, by its name.
    pub shares: BTreeMap<Box<str>, Share>,
    /// The share of the requests without a class, or of a class that `shares` does not name: `"*"`
    /// in a file. `None` for the lowest share of all.
    pub others: Option<Share>,
}

impl Priority {
    /// The name that stands for all other classes.
    pub(crate) const OTHERS: &str = "*";

    /// Returns the share of a class. The text is empty for a request without one.
    #[must_use]
    pub fn share_of(&self, class: &str) -> Share {
        let named = self.shares.get(class).copied();
        let lowest = || self.shares.values().copied().min().unwrap_or(Share::NONE);
        named.or(self.others).unwrap_or_else(lowest)
    }

    /// Returns the class of a request. Of several values, it is the one with the lowest share: a
    /// caller that sends further values gains nothing.
    pub(crate) fn class_of<'a, K: Deref<Target = str>>(&self, values: &'a KeyValues<K>) -> &'a str {
        values.all().min_by_key(|class| self.share_of(class)).unwrap_or_default()
    }
}

/// As a file has it.
impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, shares, others } = self;
        write!(f, "priority = {}\nshares = {{ ", Quoted(source))?;
        let others = others.map(|share| (Self::OTHERS, share));
        let named = shares.iter().map(|(class, share)| (&**class, *share));
        for (place, (class, share)) in others.into_iter().chain(named).enumerate() {
            let between = if place == 0 { "" } else { ", " };
            write!(f, "{between}{} = \"{share}\"", Quoted(class))?;
        }
        f.write_str(" }")
    }
}
