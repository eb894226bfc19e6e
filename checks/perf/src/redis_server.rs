//! A Redis server on loopback.

use std::env;
use std::error::Error;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use redis::{Client, Connection};

/// How long the server may take until it answers.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server that writes nothing to disk. It is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    port: u16,
}

impl Server {
    /// Starts a server; `None` if it is not installed.
    pub(crate) fn start() -> Result<Option<Self>, Box<dyn Error>> {
        // Free a moment later, for the server.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let child = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--port", &port.to_string()])
            .args(["--save", "", "--appendonly", "no"])
            .arg("--dir")
            .arg(env::temp_dir())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn();
        let server = match child {
            Ok(child) => Self { child, port },
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let end = Instant::now() + PATIENCE;
        while let Err(error) = server.connect() {
            if Instant::now() > end {
                return Err(error.into());
            }
            sleep(Duration::from_millis(10));
        }
        Ok(Some(server))
    }

    pub(crate) fn address(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    pub(crate) fn connect(&self) -> redis::RedisResult<Connection> {
        Client::open(self.address())?.get_connection()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // If it has ended by itself, both fail, and there is nothing to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
