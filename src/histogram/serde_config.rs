//! The serialized form of a histogram's configuration.

use serde::de::{Deserialize, Deserializer, Error as _};
use serde::ser::{Serialize, Serializer};

use super::config::HistogramConfig;

/// The form that is written, and that is read from a binary format, which cannot leave out fields.
#[derive(serde::Serialize, serde::Deserialize)]
struct ScaleForm {
    scale: u8,
}

#[derive(Default, serde::Deserialize)]
#[serde(
    default,
    deny_unknown_fields,
    expecting = "a histogram such as { scale = 4 } or { relative_error = 0.02 }"
)]
struct TextForm {
    #[serde(deserialize_with = "given")]
    scale: Option<u8>,
    #[serde(deserialize_with = "given")]
    relative_error: Option<f64>,
}

/// Reads the value of a field that may be left out. Some formats, such as RON, tell a value from an
/// optional value, and a scale is written as a value.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

impl Serialize for HistogramConfig {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        ScaleForm { scale: self.scale() }.serialize(to)
    }
}

impl<'de> Deserialize<'de> for HistogramConfig {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let form = if from.is_human_readable() {
            TextForm::deserialize(from)?
        } else {
            let ScaleForm { scale } = ScaleForm::deserialize(from)?;
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
