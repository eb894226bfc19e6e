//! The table of mutants.

use std::path::Path;
use std::{fs, io};

use serde::Deserialize;

use crate::{Edit, EditError, Killer};

/// The mutants of `checks/mutants/table.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// The mutants, in the order of the promises.
    #[serde(rename = "mutant")]
    pub mutants: Vec<Mutant>,
}

/// A deliberate breakage.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mutant {
    /// The name, which says what the change does.
    pub name: String,
    /// The mistake, and its consequence.
    pub breaks: String,
    /// The promise that it breaks, as in a link to its heading in `docs/CORRECTNESS.md`.
    pub promise: String,
    /// The test that must fail.
    pub killer: Killer,
    /// `Killed` if that test may run for ever instead of failing.
    #[serde(default)]
    pub timeout: Timeout,
    /// The file to change, from the root of the repository.
    pub file: String,
    within: Option<String>,
    find: String,
    replace: String,
    /// Further places to change in the same file.
    #[serde(default)]
    also: Vec<Edit>,
}

/// The verdict on a mutant whose killer does not end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Timeout {
    /// The killer is broken, or the machine is overloaded.
    #[default]
    Error,
    /// The mutant is killed.
    Killed,
}

impl Table {
    /// Reads the table of the repository at `root`.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or is no table of mutants.
    pub fn read(root: &Path) -> io::Result<Self> {
        let text = fs::read_to_string(root.join("checks/mutants/table.toml"))?;
        toml::from_str(&text).map_err(io::Error::other)
    }
}

impl Mutant {
    /// Returns the text of its file with the change.
    ///
    /// # Errors
    ///
    /// If the change does not apply.
    pub fn apply(&self, text: &str) -> Result<String, EditError> {
        let first = Edit {
            within: self.within.clone(),
            find: self.find.clone(),
            replace: self.replace.clone(),
        };
        self.also.iter().try_fold(first.apply(text)?, |text, edit| edit.apply(&text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY: &str = r#"
        [[mutant]]
        name = "unlocked"
        breaks = "A store is made without the lock."
        promise = "no-loss"
        killer = "unit lock::tests::store_is_locked"
        file = "src/lock.rs"
        find = "lock();"
        replace = ""
        also = [{ find = "unlock();", replace = "" }]
    "#;

    #[test]
    fn all_places_are_changed() {
        let table: Table = toml::from_str(ENTRY).unwrap();
        let [mutant] = &table.mutants[..] else { panic!("one mutant") };
        assert_eq!(mutant.timeout, Timeout::Error);
        assert_eq!(mutant.apply("lock();\nstore();\nunlock();\n").unwrap(), "store();\n");
        assert_eq!(mutant.apply("lock();\nstore();\n"), Err(EditError::Find(0)));
    }

    #[test]
    fn unknown_fields_are_refused() {
        for (from, to) in
            [("find =", "fnd ="), ("replace = \"\"\n", "replace = \"\"\nkills = \"\"\n")]
        {
            assert!(toml::from_str::<Table>(&ENTRY.replacen(from, to, 1)).is_err(), "{to}");
        }
    }
}
