//! A Prometheus server.

use std::env;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// How long a condition may take to come true. Only a defect reaches it.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running server, which is killed when this is dropped.
pub(crate) struct Prometheus {
    child: Child,
    address: SocketAddr,
    /// Its configuration and its data.
    _folder: TempDir,
}

impl Prometheus {
    /// Starts a server that scrapes `/metrics` of `target` every second; `None` if it is not
    /// installed, and the test is then listed as skipped.
    pub(crate) fn start(test: &str, target: SocketAddr, args: &[&str]) -> Option<Self> {
        Self::start_at(test, target, "/metrics", args)
    }

    /// Like [`start`](Self::start), for another path.
    pub(crate) fn start_at(
        test: &str,
        target: SocketAddr,
        path: &str,
        args: &[&str],
    ) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("prometheus.yml");
        let scrape = format!(
            "scrape_configs:\n- job_name: service\n  scrape_interval: 1s\n  scrape_timeout: 1s\n  \
             metrics_path: {path}\n  static_configs:\n  - targets: ['{target}']\n"
        );
        fs::write(&config, scrape).unwrap();
        // Free a moment later, for the server.
        let port =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut command = Command::new("prometheus");
        command
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        match command.spawn() {
            Ok(child) => Some(Self { child, address, _folder: folder }),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                list_as_skipped(&format!("skipped: {test}: prometheus is not installed\n"));
                None
            }
            Err(error) => panic!("prometheus does not start: {error}"),
        }
    }

    /// Returns the only number that a query gives; `None` if it gives none yet.
    pub(crate) fn query(&self, query: &str) -> Option<f64> {
        self.result(query)?["value"][1].as_str()?.parse().ok()
    }

    /// Returns a label of the only sample that a query gives.
    pub(crate) fn label(&self, query: &str, label: &str) -> String {
        self.result(query).unwrap()["metric"][label].as_str().unwrap().to_owned()
    }

    /// Waits until a query gives a count.
    #[track_caller]
    pub(crate) fn wait_for(&self, query: &str, expected: u64) {
        let end = Instant::now() + PATIENCE;
        loop {
            let seen = self.query(query);
            if seen.is_some_and(|seen| seen.to_string() == expected.to_string()) {
                return;
            }
            assert!(Instant::now() < end, "{query}: {seen:?}, not {expected}");
            sleep(Duration::from_millis(50));
        }
    }

    fn result(&self, query: &str) -> Option<Value> {
        let url = format!("http://{}/api/v1/query", self.address);
        // Refused while the server starts.
        let mut response = ureq::get(url).query("query", query).call().ok()?;
        let mut answer: Value = response.body_mut().read_json().unwrap();
        assert_eq!(answer["status"], "success", "{query}: {answer}");
        let results = answer["data"]["result"].as_array_mut().unwrap();
        assert!(results.len() <= 1, "{query}: {results:?}");
        results.pop()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn list_as_skipped(line: &str) {
    print!("{line}");
    if let Some(list) = env::var_os("SKIPPED_LIST") {
        let file = OpenOptions::new().append(true).create(true).open(list);
        file.unwrap().write_all(line.as_bytes()).unwrap();
    }
}
