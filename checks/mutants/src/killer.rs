//! The test that must fail.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// A test or a model, written as one of
///
/// - `loom FILE TEST`: a model of `loom-tests/tests`
/// - `test FILE TEST`: a test of `tests`
/// - `unit TEST`: a unit test of the core, by its path in the crate
/// - `tower FILE TEST`, and in the same way `metrics`, `opentelemetry`, `prometheus`, `redis`,
///   `rules`, `sentinel` and `web`: a test of `crates/leaparray-tower/tests`
/// - `simulations FILE TEST`: a test of `checks/simulations/tests`
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Killer {
    /// The binary that has it.
    pub build: Build,
    /// Its path in its binary, as the test harness names it.
    pub test: String,
}

/// A binary of tests.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Build {
    kind: Kind,
    /// The file of an integration test, without its extension. Unit tests have none.
    file: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Kind {
    Loom,
    Core,
    /// A crate of `crates`, by its name without `leaparray-`.
    Sibling(String),
    Simulations,
}

const SIBLINGS: [&str; 8] =
    ["metrics", "opentelemetry", "prometheus", "redis", "rules", "sentinel", "tower", "web"];

impl TryFrom<String> for Killer {
    type Error = String;

    fn try_from(line: String) -> Result<Self, String> {
        let (kind, file, test) = match line.split(' ').collect::<Vec<_>>()[..] {
            ["unit", test] => (Kind::Core, None, test),
            ["loom", file, test] => (Kind::Loom, Some(file), test),
            ["test", file, test] => (Kind::Core, Some(file), test),
            ["simulations", file, test] => (Kind::Simulations, Some(file), test),
            [name, file, test] if SIBLINGS.contains(&name) => {
                (Kind::Sibling(name.into()), Some(file), test)
            }
            _ => return Err(format!("`{line}` names no test: see `Killer`")),
        };
        let file = file.map(Into::into);
        Ok(Self { build: Build { kind, file }, test: test.into() })
    }
}

impl Killer {
    /// Returns the file of its model under loom, without its extension.
    #[must_use]
    pub fn model(&self) -> Option<&str> {
        self.build.file.as_deref().filter(|_| self.build.is_loom())
    }
}

impl fmt::Display for Killer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Build { kind, file } = &self.build;
        let name = match (kind, file) {
            (Kind::Loom, _) => "loom",
            (Kind::Core, Some(_)) => "test",
            (Kind::Core, None) => "unit",
            (Kind::Sibling(name), _) => name,
            (Kind::Simulations, _) => "simulations",
        };
        let file = file.iter().flat_map(|file| [" ", file]);
        write!(f, "{name}{} {}", file.collect::<String>(), self.test)
    }
}

impl Build {
    /// Returns the folder of its package, from the root of the repository.
    #[must_use]
    pub fn package_dir(&self) -> PathBuf {
        match &self.kind {
            Kind::Loom => "loom-tests".into(),
            Kind::Core => PathBuf::new(),
            Kind::Sibling(name) => format!("crates/leaparray-{name}").into(),
            Kind::Simulations => "checks/simulations".into(),
        }
    }

    /// Returns the arguments by which `cargo test` compiles this binary and no other.
    #[must_use]
    pub fn arguments(&self) -> Vec<String> {
        let package = match &self.kind {
            Kind::Loom => "leaparray-loom-tests".into(),
            Kind::Core => "leaparray".into(),
            Kind::Sibling(name) => format!("leaparray-{name}"),
            Kind::Simulations => "leaparray-simulations".into(),
        };
        let mut all = vec![format!("--package={package}")];
        if self.is_optimized() {
            all.push("--release".into());
        }
        if let Kind::Sibling(_) = self.kind {
            all.push("--all-features".into());
        }
        all.push(self.file.as_ref().map_or("--lib".into(), |file| format!("--test={file}")));
        all
    }

    /// Returns whether it is compiled with optimizations. Models and simulations need them: they
    /// run thousands of executions.
    #[must_use]
    pub fn is_optimized(&self) -> bool {
        matches!(self.kind, Kind::Loom | Kind::Simulations)
    }

    /// Returns whether it is a model under loom.
    #[must_use]
    pub fn is_loom(&self) -> bool {
        self.kind == Kind::Loom
    }

    /// Returns the paths that can contain the source of its tests: a file, or a folder.
    #[must_use]
    pub fn sources(&self, root: &Path) -> Vec<PathBuf> {
        let package = root.join(self.package_dir());
        match &self.file {
            None => vec![package.join("src")],
            Some(file) => {
                let tests = package.join("tests");
                vec![tests.join(format!("{file}.rs")), tests.join(file)]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn killer_is_printed_as_it_is_written() {
        for text in [
            "loom gauge a_model",
            "test flow clocks::a_test",
            "unit cell::tests::a_test",
            "redis fleet a",
            "simulations leases a",
        ] {
            assert_eq!(Killer::try_from(String::from(text)).unwrap().to_string(), text);
        }
    }

    #[test]
    fn text_that_names_no_test_is_refused() {
        for text in
            ["", "loom gauge", "unit file a_test", "postgres server a_test", "test  a_test b"]
        {
            assert!(Killer::try_from(String::from(text)).is_err(), "{text}");
        }
    }

    #[test]
    fn only_models_are_compiled_for_loom() {
        let [model, test] = ["loom gauge a_model", "test flow a_test"]
            .map(|text| Killer::try_from(String::from(text)).unwrap());
        assert_eq!([model.model(), test.model()], [Some("gauge"), None]);
        assert_eq!([model.build.is_loom(), test.build.is_loom()], [true, false]);
    }

    #[test]
    fn only_the_binary_of_the_test_is_compiled() {
        let arguments =
            |text: &str| Killer::try_from(String::from(text)).unwrap().build.arguments();
        assert_eq!(arguments("unit cell::tests::a_test"), ["--package=leaparray", "--lib"]);
        assert_eq!(
            arguments("redis fleet a_test"),
            ["--package=leaparray-redis", "--all-features", "--test=fleet"]
        );
        assert_eq!(
            arguments("simulations leases a_test"),
            ["--package=leaparray-simulations", "--release", "--test=leases"]
        );
    }
}
