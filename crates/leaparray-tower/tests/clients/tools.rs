//! Clients of other projects.

use std::env;
use std::fs::OpenOptions;
use std::io::Write;
use std::process::{Command, Output};

use axum::Router;
use axum::routing::get;
use tokio::task::spawn_blocking;

use crate::server::Server;

/// Returns the output of a program; `None` if it is not installed, which is then listed as skipped.
async fn run(test: &str, program: &'static str, args: Vec<String>) -> Option<Output> {
    let output = spawn_blocking(move || Command::new(program).args(args).output()).await.unwrap();
    if output.is_err() {
        let line = format!("skipped: {test}: install {program}\n");
        print!("{line}");
        if let Some(list) = env::var_os("SKIPPED_LIST") {
            let file = OpenOptions::new().append(true).create(true).open(list);
            file.unwrap().write_all(line.as_bytes()).unwrap();
        }
    }
    output.ok()
}

fn routes() -> Router {
    Router::new().route("/done", get(async || "done"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_of_curl_are_counted() {
    let server = Server::start(routes()).await;
    for version in ["--http1.1", "--http2-prior-knowledge"] {
        for _ in 0..10 {
            let args = ["-s", "-w", " %{http_code}", version].map(String::from);
            let args = args.into_iter().chain([server.url("/done")]).collect();
            let Some(output) = run("requests of curl", "curl", args).await else { return };
            assert_eq!(String::from_utf8(output.stdout).unwrap(), "done 200", "{version}");
        }
    }
    server.expect("GET /done", [20, 0, 0, 0]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_of_h2load_are_counted() {
    let server = Server::start(routes()).await;
    let args = ["-n", "2000", "-c", "4", "-m", "10"].map(String::from);
    let args = args.into_iter().chain([server.url("/done")]).collect();
    let Some(output) = run("requests of h2load", "h2load", args).await else { return };
    let report = String::from_utf8(output.stdout).unwrap();
    assert!(report.contains("2000 succeeded, 0 failed"), "{report}");
    server.expect("GET /done", [2_000, 0, 0, 0]).await;
}
