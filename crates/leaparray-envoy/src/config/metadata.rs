//! Data of a descriptor for the dynamic metadata of a response.

use super::yaml::{Node, Value};

/// A value of metadata. Plain data, as `google.protobuf.Value` has it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Metadata {
    /// No value.
    Null,
    /// A truth value.
    Bool(bool),
    /// A number.
    Number(f64),
    /// A text.
    String(String),
    /// Values in an order.
    List(Vec<Self>),
    /// Values by name, in the order of the file.
    Map(Vec<(String, Self)>),
}

impl Metadata {
    /// Reads a node.
    pub(super) fn of(node: &Node) -> Self {
        if node.is_null() {
            return Self::Null;
        }
        match &node.value {
            Value::Scalar(text, true) => match text.to_ascii_lowercase().as_str() {
                "true" => Self::Bool(true),
                "false" => Self::Bool(false),
                _ => match text.parse::<f64>() {
                    Ok(number) if number.is_finite() => Self::Number(number),
                    _ => Self::String(text.clone()),
                },
            },
            Value::Scalar(text, false) => Self::String(text.clone()),
            Value::Sequence(list) => Self::List(list.iter().map(Self::of).collect()),
            Value::Mapping(map) => Self::Map(
                map.iter()
                    .filter_map(|(key, value)| Some((key.text()?.to_owned(), Self::of(value))))
                    .collect(),
            ),
        }
    }
}
