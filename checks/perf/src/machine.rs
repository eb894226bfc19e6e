//! The machine, the compiler, and the versions of the crates.

use std::fmt;
use std::fs;
use std::process::Command;
use std::thread;

const LOCK_FILE: &str = include_str!("../Cargo.lock");

/// Returns the number of threads that can run at once.
pub(crate) fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// A processor, as Linux names it. Each model has its own set of results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Processor {
    vendor: String,
    family: String,
    model: String,
    name: String,
    is_virtual: bool,
}

/// The processors for which the goals were set: vendor, family and name.
const GOALS_SET_ON: [(&str, &str, &str); 2] =
    [("AuthenticAMD", "26", ZEN_5), ("AuthenticAMD", "25", ZEN_4)];
const ZEN_5: &str = "Zen 5";
const ZEN_4: &str = "Zen 4";

impl Processor {
    /// Returns the processor of this machine.
    pub(crate) fn current() -> Self {
        Self::parse(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default())
    }

    fn parse(info: &str) -> Self {
        let field = |name| {
            let mut fields = info.lines().filter_map(|line| line.split_once(':'));
            let value = fields.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim());
            value.unwrap_or("unknown").to_owned()
        };
        Self {
            vendor: field("vendor_id"),
            family: field("cpu family"),
            model: field("model"),
            name: field("model name"),
            is_virtual: info.contains(" hypervisor"),
        }
    }

    /// Returns the name of the processor's set of results.
    pub(crate) fn id(&self) -> String {
        let vendor = self.vendor.trim_start_matches("Genuine").trim_start_matches("Authentic");
        format!("{}-family-{}-model-{}", vendor.to_lowercase(), self.family, self.model)
    }

    pub(crate) fn is_zen_5(&self) -> bool {
        self.known_as() == Some(ZEN_5)
    }

    /// Returns the processor's name if the goals were set for it.
    pub(crate) fn known_as(&self) -> Option<&'static str> {
        let known = GOALS_SET_ON.into_iter().find(|&(vendor, family, _)| {
            (self.vendor.as_str(), self.family.as_str()) == (vendor, family)
        });
        known.map(|(_, _, name)| name).filter(|&name| name != ZEN_4 || !self.is_zen_3())
    }

    /// Returns whether a processor of AMD's family 25 is one of the older generation.
    fn is_zen_3(&self) -> bool {
        let zen_4 = [0x10..0x20, 0x60..0x80, 0xa0..0xb0];
        let model = self.model.parse().ok();
        model.is_some_and(|model: u32| !zen_4.iter().any(|models| models.contains(&model)))
    }
}

impl fmt::Display for Processor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { vendor, family, model, name, is_virtual } = self;
        let machine = if *is_virtual { ", a virtual machine" } else { "" };
        write!(f, "{name}: {vendor}, family {family}, model {model}{machine}")
    }
}

/// Returns the name and the version of the kernel, and the architecture.
pub(crate) fn system() -> String {
    output_of("uname", &["-srm"])
}

/// Returns the version of the compiler in the folder of this crate.
pub(crate) fn rustc() -> String {
    output_of("rustc", &["--version"])
}

/// Returns the commit of the working tree and its date, and whether `src` or `crates` has changed
/// since.
pub(crate) fn commit() -> String {
    let commit = output_of("git", &["log", "-1", "--format=%h of %cs"]);
    let status =
        ["status", "--porcelain", "--untracked-files=no", "--", "../../src", "../../crates"];
    if output_of("git", &status).is_empty() { commit } else { format!("{commit}, with changes") }
}

/// Returns the output of a program in the folder of this crate, or `unknown` if it fails.
fn output_of(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    match output {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        }
        _ => "unknown".to_owned(),
    }
}

/// Returns the version of a crate that this program uses.
pub(crate) fn version(krate: &str) -> &'static str {
    let entry = format!("name = \"{krate}\"\nversion = \"");
    // The lock file has the versions of a crate in ascending order. This program uses the last one;
    // a peer may use an older one.
    let rest = LOCK_FILE.rsplit_once(&entry).map(|(_, rest)| rest);
    rest.and_then(|rest| rest.split('"').next()).unwrap_or("unknown")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_is_named_by_vendor_family_and_model() {
        let info = "vendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\n\
                    model name\t: AMD EPYC\nflags\t\t: fpu hypervisor\n";
        let processor = Processor::parse(info);
        assert_eq!(processor.id(), "amd-family-25-model-17");
        assert_eq!(processor.known_as(), Some("Zen 4"));
        let older = Processor::parse(&info.replace(": 17", ": 1"));
        assert_eq!((older.id().as_str(), older.known_as()), ("amd-family-25-model-1", None));
        let shown = processor.to_string();
        assert_eq!(shown, "AMD EPYC: AuthenticAMD, family 25, model 17, a virtual machine");
    }

    #[test]
    fn finds_the_versions() {
        assert_eq!(version("sentinel-core"), "0.1.3");
        assert!(version("quanta").starts_with("0.13"), "a peer's version, not this program's");
        assert_eq!(version("no-such-crate"), "unknown");
    }
}
