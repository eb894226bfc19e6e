//! The priority of the requests of a rule.

use std::collections::BTreeMap;

use leaparray::flow::shadow::Share;
use toml::de::DeValue;

use super::fields::{Fields, type_of};
use crate::priority::Priority;
use crate::problem::Fault;
use crate::quantity::Percent;
use crate::rule::KeySource;

const SHARES: &str = "a table such as { payments = \"100 %\", \"*\" = \"80 %\", batch = \"50 %\" }";
const SHARE: &str = "a share of the limit such as \"80 %\"";

/// Reads the priority of a rule. `None` if it has none, or a wrong one, which is then reported.
pub(super) fn read(fields: &Fields<'_>) -> Option<Priority> {
    for (needy, other) in [("priority", "in_flight"), ("shares", "priority")] {
        if fields.has(needy) && !fields.has(other) {
            fields.report(needy, fields.line_of(needy), Fault::Needs { other });
        }
    }
    if fields.has("priority") && !fields.has("shares") {
        fields.report_missing("the shares of its classes", &["shares"]);
    }
    let source = fields.parsed("priority", KeySource::RIGHT, str::parse);
    let mut shares = shares(fields)?;
    let others = shares.remove(Priority::OTHERS);
    Some(Priority { source: source?, shares, others })
}

fn shares(fields: &Fields<'_>) -> Option<BTreeMap<Box<str>, Share>> {
    let value = fields.get("shares")?;
    let DeValue::Table(table) = value.found else {
        fields.report_type(&value, SHARES);
        return None;
    };
    let mut shares = BTreeMap::new();
    for (class, share) in table {
        let (class, line) = (class.get_ref(), fields.lines.of(class.span().start));
        match share_of(class, share.get_ref()) {
            Ok(share) => {
                shares.insert(Box::from(&**class), share);
            }
            Err(fault) => fields.report(&format!("shares.{class:?}"), line, fault),
        }
    }
    if table.is_empty() {
        fields.report_value("shares", "names no class".to_owned(), SHARES);
    } else if shares.len() == table.len()
        && let Some(highest) = shares.values().max().filter(|it| **it < Share::ALL)
    {
        let wrong = format!("no class may use more than {highest} of the limit");
        fields.report_value("shares", wrong, "\"100 %\" for the highest class");
    }
    Some(shares)
}

fn share_of(class: &str, found: &DeValue<'_>) -> Result<Share, Fault> {
    if class.is_empty() {
        let wrong = "\"\" is no class".to_owned();
        return Err(Fault::Value { wrong, right: "a name, or \"*\" for all other requests" });
    }
    let DeValue::String(text) = found else {
        return Err(Fault::Type { found: type_of(found), right: SHARE });
    };
    let share = text.parse().map(|share: Percent| share.share());
    share.map_err(|error| Fault::Value { wrong: error.to_string(), right: SHARE })
}
