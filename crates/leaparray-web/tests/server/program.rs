//! Servers of other projects.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::client::SOON;

/// A running server on loopback, which is killed when this is dropped.
pub(crate) struct Program {
    child: Child,
    pub(crate) address: SocketAddr,
    /// Its configuration and its files.
    pub(crate) folder: TempDir,
}

impl Program {
    /// Starts a server, and waits until it listens; `None` if it is not installed, and the test is
    /// then listed as skipped.
    ///
    /// `configure` gets the address to listen at and a folder for files. It returns the text of the
    /// file `config` in that folder, and the arguments of the server.
    pub(crate) async fn start<const N: usize>(
        program: impl AsRef<OsStr>,
        configure: impl FnOnce(SocketAddr, &str) -> (String, [String; N]),
    ) -> Option<Self> {
        let name = program.as_ref().display();
        let folder = tempfile::tempdir().unwrap();
        // Free a moment later, for the server.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let (config, args) = configure(address, folder.path().to_str().unwrap());
        fs::write(folder.path().join("config"), config).unwrap();
        let mut command = Command::new(program.as_ref());
        let child = match command.args(args).stdin(Stdio::null()).stderr(Stdio::null()).spawn() {
            Ok(child) => child,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                skip(&format!("{name} is not installed"));
                return None;
            }
            Err(error) => panic!("{name} does not start: {error}"),
        };
        let mut started = Self { child, address, folder };
        let listens = async {
            while TcpStream::connect(address).await.is_err() {
                assert_eq!(started.child.try_wait().unwrap(), None, "{name} has ended");
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(SOON, listens).await.expect("it listens in time");
        Some(started)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Fails if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Adds a line to the list of skipped checks, if the caller keeps one.
pub(crate) fn skip(why: &str) {
    let line = format!("skipped: the page behind other servers: {why}\n");
    print!("{line}");
    if let Some(list) = env::var_os("SKIPPED_LIST") {
        let file = OpenOptions::new().append(true).create(true).open(list);
        file.unwrap().write_all(line.as_bytes()).unwrap();
    }
}
