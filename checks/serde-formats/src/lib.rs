//! Values in each format that serde is commonly used with.

use std::fmt::{Debug, Display};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A document with one value. TOML has documents of fields only.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Document<T> {
    value: T,
}

/// Reads a configuration from texts of a person in each format for people.
///
/// # Errors
///
/// Returns the first error, with the format.
pub fn read_all<T: DeserializeOwned>([json, toml, yaml, ron]: [&str; 4]) -> Result<[T; 5], String> {
    let in_format = |format: &str, error: &dyn Display| format!("{format}: {error}");
    Ok([
        serde_json::from_str(json).map_err(|error| in_format("JSON", &error))?,
        toml::from_str(toml).map_err(|error| in_format("TOML", &error))?,
        serde_saphyr::from_str(yaml).map_err(|error| in_format("YAML", &error))?,
        yaml_serde::from_str(yaml).map_err(|error| in_format("YAML of libyaml", &error))?,
        ron::from_str(ron).map_err(|error| in_format("RON", &error))?,
    ])
}

/// The failures of a table of values, each as the value, the format and the error.
#[derive(Debug, Default)]
pub struct Failures(Vec<String>);

impl Failures {
    /// Writes a value in each format, and reads it back.
    pub fn round_trip<T>(&mut self, name: &str, value: T)
    where
        T: Serialize + DeserializeOwned + PartialEq + Debug,
    {
        let document = Document { value };
        let mut check = |format: &str, read: Result<Document<T>, String>| match read {
            Ok(read) if read == document => {}
            Ok(read) => self.0.push(format!("{name} in {format}: {read:?}, not {document:?}")),
            Err(error) => self.0.push(format!("{name} in {format}: {error}")),
        };
        let of = &document;
        check("JSON", text(serde_json::to_string(of), |it| serde_json::from_str(it)));
        check("TOML", text(toml::to_string(of), |it| toml::from_str(it)));
        check("YAML", text(serde_saphyr::to_string(of), |it| serde_saphyr::from_str(it)));
        // The two write enums and texts in different ways.
        check("YAML of libyaml", text(yaml_serde::to_string(of), |it| yaml_serde::from_str(it)));
        check("RON", text(ron::to_string(of), |it| ron::from_str(it)));
        check("MessagePack", bytes(rmp_serde::to_vec(of), |it| rmp_serde::from_slice(it)));
        let named = rmp_serde::to_vec_named(of);
        check("MessagePack with names", bytes(named, |it| rmp_serde::from_slice(it)));
        check("postcard", bytes(postcard::to_stdvec(of), |it| postcard::from_bytes(it)));
    }

    /// Asserts that there is no failure.
    ///
    /// # Panics
    ///
    /// Panics if there is one, with all of them.
    #[track_caller]
    pub fn assert_none(&self) {
        assert!(self.0.is_empty(), "{} failures:\n{}", self.0.len(), self.0.join("\n"));
    }
}

/// Reads a text back. The error of the reader has the text.
fn text<T, W: Display, R: Display>(
    written: Result<String, W>,
    read: impl Fn(&str) -> Result<T, R>,
) -> Result<T, String> {
    let written = written.map_err(|error| format!("not written: {error}"))?;
    read(&written).map_err(|error| format!("{error}, of {written:?}"))
}

/// Reads bytes back.
fn bytes<T, W: Display, R: Display>(
    written: Result<Vec<u8>, W>,
    read: impl Fn(&[u8]) -> Result<T, R>,
) -> Result<T, String> {
    let written = written.map_err(|error| format!("not written: {error}"))?;
    read(&written).map_err(|error| format!("{error}, of {written:?}"))
}
