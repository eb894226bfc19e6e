//! Which tenants share a limit in flight: plain data.

use std::collections::BTreeMap;
use std::fmt;

use crate::rule::{KeySource, Quoted};

/// The tenants that share a limit in flight fairly: `tenant` and `weights` in a file. See
/// [`FairShares`](leaparray::flow::shares::FairShares) for what each tenant gets.
///
/// ```
/// use leaparray_rules::RuleSet;
///
/// let rules = RuleSet::parse(
///     r#"
///     [[rule]]
///     name = "backend"
///     resource = "/api/*"
///     in_flight = 100
///     tenant = "header:x-api-key"
///     weights = { acme = 4, "*" = 2, trial = 1 }
///     "#,
/// )?;
/// let tenants = rules.rules()[0].tenants.as_ref().expect("it has some");
/// let weights = ["acme", "trial", "other", ""].map(|it| tenants.weight_of(it));
/// assert_eq!(weights, [4, 1, 2, 2]);
/// # Ok::<_, leaparray_rules::Problems>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tenants {
    /// The source of the name of a request's tenant. The requests without one are one tenant.
    pub source: KeySource,
    /// The weights of tenants, from 1 to 255, by their names.
    pub weights: BTreeMap<Box<str>, u32>,
    /// The weight of a tenant that `weights` does not name: `"*"` in a file, and 1 without it.
    pub others: u32,
}

impl Tenants {
    /// The name that stands for all other tenants.
    pub(crate) const OTHERS: &str = "*";

    /// The weight of all other tenants if the rule does not say.
    pub(crate) const WEIGHT: u32 = 1;

    /// The greatest weight.
    pub(crate) const MAX_WEIGHT: u32 = 255;

    /// Returns the weight of a tenant. The text is empty for the requests without one.
    #[must_use]
    pub fn weight_of(&self, tenant: &str) -> u32 {
        self.weights.get(tenant).copied().unwrap_or(self.others)
    }
}

/// As a file has it.
impl fmt::Display for Tenants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, weights, others } = self;
        write!(f, "tenant = {}", Quoted(source))?;
        let others = (*others != Self::WEIGHT).then_some((Self::OTHERS, *others));
        let named = weights.iter().map(|(tenant, weight)| (&**tenant, *weight));
        let mut all = others.into_iter().chain(named).peekable();
        if all.peek().is_none() {
            return Ok(());
        }
        f.write_str("\nweights = { ")?;
        for (place, (tenant, weight)) in all.enumerate() {
            let between = if place == 0 { "" } else { ", " };
            write!(f, "{between}{} = {weight}", Quoted(tenant))?;
        }
        f.write_str(" }")
    }
}
