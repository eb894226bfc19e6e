//! Clients of other projects.

use std::env;
use std::fs::OpenOptions;
use std::future::pending;
use std::io::{ErrorKind, Write};
use std::process::{Child, Command, Output, Stdio};

use axum::Router;
use axum::routing::get;
use tokio::task::spawn_blocking;

use crate::clients::server::Server;

/// Starts a program; `None` if it is not installed, and the test is then listed as skipped.
fn start(test: &str, program: &str, args: &[&str]) -> Option<Child> {
    let mut command = Command::new(program);
    match command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).spawn() {
        Ok(child) => Some(child),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let line = format!("skipped: {test}: {program} is not installed\n");
            print!("{line}");
            if let Some(list) = env::var_os("SKIPPED_LIST") {
                let file = OpenOptions::new().append(true).create(true).open(list);
                file.unwrap().write_all(line.as_bytes()).unwrap();
            }
            None
        }
        Err(error) => panic!("{program} does not start: {error}"),
    }
}

/// Returns the output of a program; `None` if it is not installed.
async fn run(test: &str, program: &str, args: &[&str]) -> Option<Output> {
    let child = start(test, program, args)?;
    Some(spawn_blocking(|| child.wait_with_output()).await.unwrap().unwrap())
}

fn routes() -> Router {
    Router::new()
        .route("/done", get(async || "done"))
        .route("/waits", get(async || pending::<()>().await))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs curl"]
async fn requests_of_curl_are_counted() {
    let server = Server::start(routes()).await;
    for version in ["--http1.1", "--http2-prior-knowledge"] {
        for _ in 0..10 {
            let args = ["-s", "-w", " %{http_code}", version, &server.url("/done")];
            let Some(output) = run("requests of curl", "curl", &args).await else { return };
            assert_eq!(String::from_utf8(output.stdout).unwrap(), "done 200", "{version}");
        }
    }
    server.expect("GET /done", [20, 0, 0, 0]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs curl"]
async fn killed_curl_cancels_its_request() {
    let server = Server::start(routes()).await;
    for (cancelled, version) in (0..).zip(["--http1.1", "--http2-prior-knowledge"]) {
        let args = ["-s", version, &server.url("/waits")];
        let Some(mut curl) = start("hang-ups of curl", "curl", &args) else { return };
        server.expect("GET /waits", [0, 0, cancelled, 1]).await;
        curl.kill().unwrap();
        spawn_blocking(move || curl.wait()).await.unwrap().unwrap();
        server.expect("GET /waits", [0, 0, cancelled + 1, 0]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs h2load"]
async fn requests_of_h2load_are_counted() {
    let server = Server::start(routes()).await;
    let args = ["-n", "2000", "-c", "4", "-m", "10", &server.url("/done")];
    let Some(output) = run("requests of h2load", "h2load", &args).await else { return };
    let report = String::from_utf8(output.stdout).unwrap();
    assert!(report.contains("2000 succeeded, 0 failed"), "{report}");
    server.expect("GET /done", [2_000, 0, 0, 0]).await;
}
