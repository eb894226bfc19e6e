//! The serialized form of a histogram's configuration.

use serde::de::{Deserialize, Deserializer, Error as _};
use serde::ser::{Serialize, Serializer};

use super::config::HistogramConfig;

/// The form in a binary format, which cannot leave out fields.
#[derive(serde::Serialize, serde::Deserialize)]
struct BinaryForm {
    scale: u8,
}

/// The form in a format for people.
///
/// Both fields are optional values when they are written as well: some formats, such as RON, tell a
/// value from an optional value. So a field without a value, such as `null`, is left out.
#[derive(Default, serde::Serialize, serde::Deserialize)]
#[serde(
    default,
    deny_unknown_fields,
    expecting = "a histogram such as { scale = 4 } or { relative_error = 0.02 }"
)]
struct TextForm {
    scale: Option<u8>,
    /// Never written.
    #[serde(skip_serializing)]
    relative_error: Option<f64>,
}

impl Serialize for HistogramConfig {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let scale = self.scale();
        if to.is_human_readable() {
            TextForm { scale: Some(scale), relative_error: None }.serialize(to)
        } else {
            BinaryForm { scale }.serialize(to)
        }
    }
}

impl<'de> Deserialize<'de> for HistogramConfig {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let form = if from.is_human_readable() {
            TextForm::deserialize(from)?
        } else {
            let BinaryForm { scale } = BinaryForm::deserialize(from)?;
            TextForm { scale: Some(scale), relative_error: None }
        };
        match (form.scale, form.relative_error) {
            (Some(scale), None) => Self::with_scale(scale).map_err(D::Error::custom),
            (None, Some(error)) => Self::with_relative_error(error).map_err(D::Error::custom),
            (Some(_), Some(_)) => {
                Err(D::Error::custom("a histogram has `scale` or `relative_error`, not both"))
            }
            (None, None) => Err(D::Error::custom("a histogram needs `scale` or `relative_error`")),
        }
    }
}
