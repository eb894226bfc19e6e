//! What it was measured on, and with.

use std::fs;
use std::thread;

/// The compiler that built this program.
pub(crate) const RUSTC: &str = env!("RUSTC_VERSION");
const LOCK_FILE: &str = include_str!("../Cargo.lock");

/// How many threads can run at once.
pub(crate) fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// The processor, as Linux names it.
pub(crate) fn processor() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let virtual_machine = info.contains(" hypervisor");
    let field = |name| info.lines().find_map(|line| value(line, name)).unwrap_or("unknown");
    let machine = if virtual_machine { ", a virtual machine" } else { "" };
    format!(
        "{}, family {}, model {}{machine}",
        field("model name"),
        field("cpu family"),
        field("model")
    )
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
    fn finds_the_versions() {
        assert_eq!(version("sentinel-core"), "0.1.3");
        assert!(version("quanta").starts_with("0.13"), "not that of a peer");
        assert_eq!(version("no-such-crate"), "unknown");
    }
}
