//! A Redis server.

use std::env;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// How long a condition may take to come true. Only a defect reaches it.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server, which is killed when this is dropped.
pub(crate) struct Server {
    child: Child,
    port: u16,
    folder: TempDir,
}

impl Server {
    /// Starts a server without a dump; `None` if it is not installed, and the test is then listed as skipped.
    pub(crate) fn start(test: &str) -> Option<Self> {
        // Free a moment later, for the server.
        let port =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let folder = tempfile::tempdir().unwrap();
        match spawn(port, &folder) {
            Ok(child) => {
                let server = Self { child, port, folder };
                server.wait();
                Some(server)
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                list_as_skipped(&format!("skipped: {test}: redis-server is not installed\n"));
                None
            }
            Err(error) => panic!("redis-server does not start: {error}"),
        }
    }

    pub(crate) fn address(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Returns a new connection.
    pub(crate) fn connect(&self) -> redis::Connection {
        redis::Client::open(self.address()).unwrap().get_connection().unwrap()
    }

    /// Waits until the server answers.
    fn wait(&self) {
        let end = Instant::now() + PATIENCE;
        let client = redis::Client::open(self.address()).unwrap();
        while client.get_connection().is_err() {
            assert!(Instant::now() < end, "the server does not answer");
            sleep(Duration::from_millis(10));
        }
    }
}

fn spawn(port: u16, folder: &TempDir) -> std::io::Result<Child> {
    Command::new("redis-server")
        .args(["--bind", "127.0.0.1", "--port", &port.to_string()])
        .args(["--save", "", "--appendonly", "no"])
        .arg("--dir")
        .arg(folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn list_as_skipped(line: &str) {
    print!("{line}");
    if let Some(list) = env::var_os("SKIPPED_LIST") {
        let file = OpenOptions::new().append(true).create(true).open(list);
        file.unwrap().write_all(line.as_bytes()).unwrap();
    }
}
