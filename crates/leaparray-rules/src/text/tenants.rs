//! The tenants of a rule.

use std::collections::BTreeMap;

use toml::de::DeValue;

use super::fields::{Fields, type_of};
use crate::problem::Fault;
use crate::rule::KeySource;
use crate::tenants::Tenants;

const WEIGHTS: &str = "a table such as { acme = 4, \"*\" = 2, trial = 1 }";
const WEIGHT: &str = "a weight from 1 to 255";

/// Reads the tenants of a rule. `None` if it has none, or wrong ones, which are then reported.
pub(super) fn read(fields: &Fields<'_>) -> Option<Tenants> {
    for (needy, other) in [("tenant", "in_flight"), ("weights", "tenant")] {
        if fields.has(needy) && !fields.has(other) {
            fields.report(needy, fields.line_of(needy), Fault::Needs { other });
        }
    }
    for other in ["key", "priority"] {
        if fields.has("tenant") && fields.has(other) {
            fields.report("tenant", fields.line_of("tenant"), Fault::Beside { other });
        }
    }
    let source = fields.parsed("tenant", KeySource::RIGHT, str::parse);
    let mut weights = if fields.has("weights") { weights(fields)? } else { BTreeMap::new() };
    let others = weights.remove(Tenants::OTHERS).unwrap_or(Tenants::WEIGHT);
    Some(Tenants { source: source?, weights, others })
}

fn weights(fields: &Fields<'_>) -> Option<BTreeMap<Box<str>, u32>> {
    let value = fields.get("weights")?;
    let DeValue::Table(table) = value.found else {
        fields.report_type(&value, WEIGHTS);
        return None;
    };
    let mut weights = BTreeMap::new();
    for (tenant, weight) in table {
        let (tenant, line) = (tenant.get_ref(), fields.lines.of(tenant.span().start));
        match weight_of(tenant, weight.get_ref()) {
            Ok(weight) => {
                weights.insert(Box::from(&**tenant), weight);
            }
            Err(fault) => fields.report(&format!("weights.{tenant:?}"), line, fault),
        }
    }
    if table.is_empty() {
        fields.report_value("weights", "names no tenant".to_owned(), WEIGHTS);
    }
    Some(weights)
}

fn weight_of(tenant: &str, found: &DeValue<'_>) -> Result<u32, Fault> {
    if tenant.is_empty() {
        let wrong = "\"\" is no tenant".to_owned();
        return Err(Fault::Value { wrong, right: "a name, or \"*\" for all other tenants" });
    }
    let DeValue::Integer(number) = found else {
        return Err(Fault::Type { found: type_of(found), right: WEIGHT });
    };
    let weight = u32::from_str_radix(number.as_str(), number.radix()).ok();
    let weight = weight.filter(|it| (1..=Tenants::MAX_WEIGHT).contains(it));
    weight.ok_or_else(|| Fault::Value { wrong: format!("{number} is out of range"), right: WEIGHT })
}
