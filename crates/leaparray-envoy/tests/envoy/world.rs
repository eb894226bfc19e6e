//! A folder with a configuration, for all tests.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::program::{Program, wait_for};

/// The limit of each budget, per second.
pub(crate) const LIMIT: usize = 400;

pub(crate) struct World {
    pub(crate) folder: TempDir,
    pub(crate) config: PathBuf,
}

impl World {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("shop.yaml");
        let world = Self { folder, config };
        world.write(LIMIT);
        world
    }

    pub(crate) fn write(&self, limit: usize) {
        let text = format!(
            "domain: shop\ndescriptors:\n\
             - key: rls\n  value: orders\n  rate_limit: {{ unit: second, requests_per_unit: {limit} }}\n\
             - key: rlqs\n  value: orders\n  rate_limit: {{ unit: second, requests_per_unit: {limit} }}\n\
             - key: once\n  rate_limit: {{ unit: hour, requests_per_unit: 2, name: twice }}\n\
             - key: own\n  rate_limit: {{ unit: hour, requests_per_unit: 1000, requests_per_quota: 100 }}\n"
        );
        std::fs::write(&self.config, text).unwrap();
    }
}

/// Starts the program of this crate, and waits until it accepts connections.
pub(crate) fn service(grpc: u16, http: u16, config: &Path, more: &[&str]) -> Program {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leaparray-envoy"));
    let address = |port: u16| format!("127.0.0.1:{port}");
    command.args(["--grpc", &address(grpc), "--http", &address(http)]).args(more).arg(config);
    let program = Program::start(&mut command).unwrap();
    wait_for(grpc);
    program
}
