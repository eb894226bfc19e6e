//! What it was measured on, and with.

use std::fmt;
use std::fs;
use std::process::Command;
use std::thread;

/// The compiler that built this program.
pub(crate) const RUSTC: &str = env!("RUSTC_VERSION");
const LOCK_FILE: &str = include_str!("../Cargo.lock");

/// How many threads can run at once.
pub(crate) fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// A processor, as Linux names it: what tells one set of results from another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Processor {
    pub(crate) vendor: String,
    pub(crate) family: String,
    pub(crate) model: String,
    pub(crate) name: String,
    is_virtual: bool,
}

/// The processors that the goals were set on: their vendors, families and names.
pub(crate) const GOALS_SET_ON: [(&str, &str, &str); 2] =
    [("AuthenticAMD", "26", ZEN_5), ("AuthenticAMD", "25", ZEN_4)];
const ZEN_5: &str = "Zen 5";
const ZEN_4: &str = "Zen 4";

impl Processor {
    /// The one of this machine.
    pub(crate) fn current() -> Self {
        Self::parse(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default())
    }

    fn parse(info: &str) -> Self {
        let field = |name| {
            let value = info.lines().find_map(|line| value(line, name));
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

    /// The name of its set of results.
    pub(crate) fn id(&self) -> String {
        let vendor = self.vendor.trim_start_matches("Genuine").trim_start_matches("Authentic");
        format!("{}-family-{}-model-{}", vendor.to_lowercase(), self.family, self.model)
    }

    pub(crate) fn is_zen_5(&self) -> bool {
        self.known_as() == Some(ZEN_5)
    }

    /// Its name, if the goals were set on it.
    pub(crate) fn known_as(&self) -> Option<&'static str> {
        let known = GOALS_SET_ON.into_iter();
        known
            .filter(|(vendor, family, _)| {
                (self.vendor.as_str(), self.family.as_str()) == (*vendor, *family)
            })
            .map(|(_, _, name)| name)
            .next()
    }
}

impl fmt::Display for Processor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { vendor, family, model, name, is_virtual } = self;
        let machine = if *is_virtual { ", a virtual machine" } else { "" };
        write!(f, "{name}: {vendor}, family {family}, model {model}{machine}")
    }
}

fn value<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (key, value) = line.split_once(':')?;
    (key.trim() == name).then_some(value.trim())
}

/// The distribution, and the version of its kernel without what its builder appended.
pub(crate) fn system() -> String {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let kernel = kernel.trim().split('-').next().unwrap_or_default();
    format!(
        "{}, kernel {kernel}, {}",
        name.unwrap_or(std::env::consts::OS).trim_matches('"'),
        std::env::consts::ARCH
    )
}

/// The commit that the working tree stands on, and its date.
pub(crate) fn commit() -> String {
    let git = |args: &[&str]| {
        let output =
            Command::new("git").args(args).current_dir(env!("CARGO_MANIFEST_DIR")).output();
        let output = output.ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["log", "-1", "--format=%h of %cs"]).unwrap_or_else(|| "unknown".into());
    match git(&["status", "--porcelain", "--untracked-files=no", "--", "../../src"]) {
        Some(changes) if changes.is_empty() => commit,
        _ => format!("{commit}, with changes"),
    }
}

/// The version of a crate in this program.
pub(crate) fn version(krate: &str) -> &'static str {
    let entry = format!("name = \"{krate}\"\nversion = \"");
    // Of several versions, which are in order, the last: peers may have an older one.
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
        let shown = processor.to_string();
        assert_eq!(shown, "AMD EPYC: AuthenticAMD, family 25, model 17, a virtual machine");
    }

    #[test]
    fn finds_the_versions() {
        assert_eq!(version("sentinel-core"), "0.1.3");
        assert!(version("quanta").starts_with("0.13"), "not that of a peer");
        assert_eq!(version("no-such-crate"), "unknown");
    }
}
