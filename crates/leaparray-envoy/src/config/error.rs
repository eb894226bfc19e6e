//! Errors in a configuration.

use std::error::Error;
use std::fmt;

/// All that is wrong with a configuration: at least one problem, in the order of the files and
/// their lines.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfigError {
    /// The problems.
    pub problems: Vec<Problem>,
}

/// One thing that is wrong with a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// The name of the file; empty if it has none.
    pub file: String,
    /// The line, from 1; `None` if it is not known.
    pub line: Option<usize>,
    /// The domain, if it is known.
    pub domain: Option<String>,
    /// The keys and values of the descriptors down to the one with the problem, and the key of the
    /// file: `client.path_/buy.rate_limit.unit`. Empty if it is the whole file.
    pub path: String,
    /// The fault.
    pub wrong: String,
    /// The text that would be right; empty if that cannot be told.
    pub right: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.file.as_str(), self.line) {
            ("", Some(line)) => write!(f, "line {line}: ")?,
            ("", None) => {}
            (file, Some(line)) => write!(f, "{file}:{line}: ")?,
            (file, None) => write!(f, "{file}: ")?,
        }
        if let Some(domain) = &self.domain {
            write!(f, "domain {domain:?}: ")?;
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.wrong)?;
        if !self.right.is_empty() {
            write!(f, "; {}", self.right)?;
        }
        Ok(())
    }
}

impl fmt::Display for ConfigError {
    /// Writes a line for each problem.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, problem) in self.problems.iter().enumerate() {
            if at > 0 {
                f.write_str("\n")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

impl Error for ConfigError {}
