//! The Redis server of the limit: one that this program starts, or one that runs already.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use redis::Client;
use redis::aio::MultiplexedConnection;
use tempfile::TempDir;
use tokio::time::{sleep, timeout};

use crate::clock::{Offset, time_of_day};
use crate::process::detach;

const PROGRAM: &str = "redis-server";

/// How long a server may take to answer.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// How often the server's time is read. The reading with the shortest round trip counts.
const READINGS: usize = 20;

/// The server. One that was started is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    address: String,
    client: Client,
    started: Option<Started>,
}

/// A server of this program.
#[derive(Debug)]
struct Started {
    /// `None` while it is killed.
    child: Option<Child>,
    port: u16,
    folder: TempDir,
}

impl Server {
    /// Starts a server on a free port of loopback, without persistence, and waits until it answers.
    pub(crate) async fn start() -> Result<Self, Box<dyn Error>> {
        // Free a moment later, for the server.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let started = Started { child: None, port, folder: tempfile::tempdir()? };
        let address = format!("redis://127.0.0.1:{port}/");
        let client = Client::open(address.as_str())?;
        let mut server = Self { address, client, started: Some(started) };
        server.start_again()?;
        let begin = Instant::now();
        while let Err(error) = server.connect().await {
            if let Some(ending) = server.ending()? {
                return Err(ending.into());
            }
            if begin.elapsed() > MAX_WAIT {
                return Err(format!("{PROGRAM} does not answer: {error}").into());
            }
            sleep(Duration::from_millis(10)).await;
        }
        Ok(server)
    }

    /// Uses the server at this address. It has to answer.
    pub(crate) async fn named(address: &str) -> Result<Self, Box<dyn Error>> {
        let client = Client::open(address)
            .map_err(|error| format!("--redis does not name a Redis server: {error}"))?;
        let server = Self { address: address.to_owned(), client, started: None };
        server.connect().await.map_err(|error| {
            format!("the Redis server at {} does not answer: {error}", server.host())
        })?;
        Ok(server)
    }

    /// Returns the address, which may have a password.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Returns the host and the port.
    pub(crate) fn host(&self) -> String {
        self.client.get_connection_info().addr().to_string()
    }

    /// Returns whether this program has started the server, and so may kill it.
    pub(crate) const fn is_own(&self) -> bool {
        self.started.is_some()
    }

    /// Kills a server of this program by `SIGKILL`.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.started.as_mut().and_then(|it| it.child.take()) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Starts a server of this program, which has nothing.
    pub(crate) fn start_again(&mut self) -> Result<(), Box<dyn Error>> {
        let Some(started) = &mut self.started else { return Ok(()) };
        let mut command = Command::new(PROGRAM);
        command
            .args(["--bind", "127.0.0.1", "--port", &started.port.to_string()])
            .args(["--save", "", "--appendonly", "no", "--dir"])
            .arg(started.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = detach(&mut command).spawn().map_err(|error| cannot_start(&error))?;
        started.child = Some(child);
        Ok(())
    }

    /// Returns how a server of this program has ended that should run.
    pub(crate) fn ending(&mut self) -> io::Result<Option<String>> {
        let child = self.started.as_mut().and_then(|it| it.child.as_mut());
        let ended = child.map_or(Ok(None), Child::try_wait)?;
        Ok(ended.map(|status| format!("{PROGRAM} has ended: {status}")))
    }

    /// Returns how far the server's time is ahead of this machine's.
    pub(crate) async fn offset(&self) -> Result<Offset, Box<dyn Error>> {
        if self.is_own() {
            return Ok(Offset::SAME_CLOCK);
        }
        let mut connection = self.connect().await?;
        let mut best: Option<Offset> = None;
        for _ in 0..READINGS {
            let before = time_of_day();
            let (secs, micros): (u64, u64) =
                redis::cmd("TIME").query_async(&mut connection).await?;
            let read = Offset::measured(before, secs * 1_000_000 + micros, time_of_day());
            best = best.into_iter().chain([read]).min_by_key(|it| it.error());
        }
        best.ok_or_else(|| "the server's time was not read".into())
    }

    async fn connect(&self) -> Result<MultiplexedConnection, Box<dyn Error>> {
        match timeout(MAX_WAIT, self.client.get_multiplexed_async_connection()).await {
            Ok(connection) => Ok(connection?),
            Err(_) => Err(format!("no answer within {MAX_WAIT:?}").into()),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

fn cannot_start(error: &io::Error) -> String {
    if error.kind() == ErrorKind::NotFound {
        return format!(
            "{PROGRAM} is not installed: install Redis, or name a server with --redis redis://HOST:6379"
        );
    }
    format!("{PROGRAM} does not start: {error}")
}
