//! Tells the program which compiler built it.

use std::process::Command;

fn main() {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("--version").output().expect("rustc runs");
    let version = String::from_utf8_lossy(&output.stdout);
    println!("cargo::rustc-env=RUSTC_VERSION={}", version.trim());
    println!("cargo::rerun-if-changed=build.rs");
}
