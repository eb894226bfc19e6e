//! The conditions of a rule on its callers.

use std::collections::BTreeSet;

use toml::de::DeValue;

use super::fields::{Fields, type_of};
use crate::condition::{Condition, Values};
use crate::problem::Fault;
use crate::quantity::QuantityError;
use crate::rule::KeySource;

const TABLE: &str = "a table such as { \"header:x-app\" = [\"shop\", \"crawler\"] }";
const SOURCE: &str = "\"client/24\", \"context\", \"header:NAME\" or \"extension:NAME\"";
const VALUES: &str = "a value, an array of values, or \"*\" for any";

/// Reads the conditions of a key. What is wrong with them is reported.
pub(super) fn read(fields: &Fields<'_>, key: &'static str) -> Vec<Condition> {
    let Some(value) = fields.get(key) else { return Vec::new() };
    let DeValue::Table(table) = value.found else {
        fields.report_type(&value, TABLE);
        return Vec::new();
    };
    if table.is_empty() {
        fields.report_value(key, "has no condition".to_owned(), TABLE);
    }
    let mut conditions = Vec::new();
    for (source, values) in table {
        let (text, line) = (source.get_ref(), fields.lines.of(source.span().start));
        let report = |fault| fields.report(&format!("{key}.{text:?}"), line, fault);
        let source = match text.parse() {
            Ok(KeySource::Resource) => {
                let wrong = "the resource is said by `resource`".to_owned();
                report(Fault::Value { wrong, right: "another key" });
                continue;
            }
            Ok(source) => source,
            Err(error) => {
                let error: QuantityError = error;
                report(Fault::Value { wrong: error.to_string(), right: SOURCE });
                continue;
            }
        };
        match values_of(values.get_ref()) {
            Ok(values) => conditions.push(Condition { source, values }),
            Err(wrong) => report(Fault::Value { wrong, right: VALUES }),
        }
    }
    conditions
}

fn values_of(found: &DeValue<'_>) -> Result<Values, String> {
    let text = |value: &DeValue<'_>| match value {
        DeValue::String(text) if text.is_empty() => Err("\"\" is no value".to_owned()),
        DeValue::String(text) => Ok(Box::from(&**text)),
        other => Err(format!("{} is no text", type_of(other))),
    };
    let values: BTreeSet<Box<str>> = match found {
        DeValue::String(any) if any == Values::ANY => return Ok(Values::Any),
        DeValue::Array(all) => all.iter().map(|it| text(it.get_ref())).collect::<Result<_, _>>()?,
        one => [text(one)?].into(),
    };
    if values.is_empty() {
        return Err("names no value".to_owned());
    }
    Ok(Values::Of(values))
}
