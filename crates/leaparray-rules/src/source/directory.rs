//! The files of a directory.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use super::SourceError;
use crate::document::{Document, Documents};

/// Reads the files whose names end with `.toml`.
pub(super) fn read(path: &Path) -> Result<Documents, SourceError> {
    let files = std::fs::read_dir(path)?.map(|it| it.map(|it| it.path()));
    let mut files = files.collect::<Result<Vec<PathBuf>, io::Error>>()?;
    // Editors and mounts have hidden files beside those that they write.
    let is_hidden = |it: &Path| it.file_name().is_some_and(|it| it.as_encoded_bytes()[0] == b'.');
    files.retain(|it| it.extension() == Some(OsStr::new("toml")) && !is_hidden(it));
    if files.is_empty() {
        return Err("no file of the directory ends with .toml".into());
    }
    files.sort_unstable();
    let document = |file: PathBuf| {
        let text = std::fs::read_to_string(&file);
        let text = text.map_err(|error| format!("{}: {error}", file.display()))?;
        Ok(Document::new(file.display().to_string(), text))
    };
    files.into_iter().map(document).collect()
}
