//! A client in another language: grpcio, with the messages of envoy-data-plane.

use std::env;
use std::process::Command;

use crate::program::{ports, skip};
use crate::world::{World, service};

#[test]
#[ignore = "needs a Python with grpcio and envoy-data-plane, named by ENVOY_PYTHON"]
fn grpcio_is_answered() {
    let Some(python) = env::var_os("ENVOY_PYTHON") else {
        return skip("ENVOY_PYTHON names no Python with grpcio and envoy-data-plane");
    };
    let world = World::new();
    let [grpc, http] = ports();
    let _service = service(grpc, http, &world.config, &["--headers"]);
    let mut command = Command::new(python);
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/envoy/client.py"));
    command.args([format!("127.0.0.1:{grpc}"), format!("127.0.0.1:{http}")]).arg(&world.config);
    let status = command.status().unwrap();
    assert!(status.success(), "{status}");
}
