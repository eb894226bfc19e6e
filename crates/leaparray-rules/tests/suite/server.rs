//! Servers of Debian.

use std::env;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::DEADLINE;

/// A server, which is killed when this is dropped.
pub(crate) struct Server {
    program: String,
    arguments: Vec<String>,
    child: Child,
    pub(crate) port: u16,
    _folder: TempDir,
}

/// Returns a port that is free, and stays so for a moment.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

impl Server {
    /// Starts a program that listens on a port; `None` if it is not installed, and the test is then
    /// listed as skipped.
    pub(crate) fn start(
        test: &str,
        program: &str,
        port: u16,
        folder: TempDir,
        arguments: &[&str],
    ) -> Option<Self> {
        let (program, arguments) = (program.to_owned(), arguments.iter().map(|&it| it.to_owned()));
        let arguments: Vec<_> = arguments.collect();
        match spawn(&program, &arguments) {
            Ok(child) => {
                let server = Self { program, arguments, child, port, _folder: folder };
                server.wait();
                Some(server)
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                list_as_skipped(&format!("skipped: {test}: {program} is not installed\n"));
                None
            }
            Err(error) => panic!("{program} does not start: {error}"),
        }
    }

    fn wait(&self) {
        let begin = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_err() {
            assert!(begin.elapsed() < DEADLINE, "{} does not listen", self.program);
            sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub(crate) fn start_again(&mut self) {
        self.child = spawn(&self.program, &self.arguments).unwrap();
        self.wait();
    }

    /// Sends a signal: `STOP` leaves the connections open, and nothing is answered.
    #[cfg(feature = "redis")]
    pub(crate) fn signal(&self, name: &str) {
        let arguments = [format!("-{name}"), self.child.id().to_string()];
        assert!(Command::new("kill").args(arguments).status().unwrap().success());
    }
}

fn spawn(program: &str, arguments: &[String]) -> std::io::Result<Child> {
    Command::new(program).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Writes a line to the list of skipped checks, if there is one.
fn list_as_skipped(line: &str) {
    eprint!("{line}");
    if let Some(list) = env::var_os("SKIPPED_LIST") {
        let list = OpenOptions::new().append(true).open(list);
        list.and_then(|mut it| it.write_all(line.as_bytes())).expect("the list can be written");
    }
}
