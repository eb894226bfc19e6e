//! Data of a descriptor for the dynamic metadata of a response.

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
