//! A service process, as the process that starts it sees it.

use std::env;
use std::error::Error;
use std::io::{self, BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::service::SERVER;

/// How long a process may take to end after it was asked to. It delivers its last second after the
/// end of that second.
const GRACE: Duration = Duration::from_secs(6);

/// A service process. It is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Process {
    /// `None` while it is killed.
    child: Option<Child>,
    address: SocketAddr,
    name: String,
    fleet: String,
    redis: String,
    limit: u64,
}

impl Process {
    /// Starts the process with this number on a free port, and waits until it listens.
    pub(crate) fn start(
        number: u32,
        fleet: &str,
        redis: &str,
        limit: u64,
    ) -> Result<Self, Box<dyn Error>> {
        let mut process = Self {
            child: None,
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            name: format!("service-{number}"),
            fleet: fleet.to_owned(),
            redis: redis.to_owned(),
            limit,
        };
        process.start_again()?;
        Ok(process)
    }

    /// Starts the process again, on the same port.
    ///
    /// Blocks until it listens. It does nothing else before.
    pub(crate) fn start_again(&mut self) -> Result<(), Box<dyn Error>> {
        let mut command = Command::new(env::current_exe()?);
        command
            .args(["--serve", &self.address.port().to_string()])
            .args(["--limit", &self.limit.to_string()])
            .args(["--fleet", &self.fleet, "--name", &self.name])
            .env(SERVER, &self.redis)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let child = self.child.insert(detach(&mut command).spawn()?);
        let mut port = String::new();
        let stdout = child.stdout.take().expect("it is piped");
        BufReader::new(stdout).read_line(&mut port)?;
        // If it has ended, it has said on stderr why.
        let port = port.trim().parse().map_err(|_| "a service process does not start")?;
        self.address.set_port(port);
        Ok(())
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) const fn is_running(&self) -> bool {
        self.child.is_some()
    }

    /// Kills the process by `SIGKILL`.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Returns how a process has ended that should run.
    pub(crate) fn ending(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.as_mut().map_or(Ok(None), Child::try_wait)
    }

    /// Asks the process to end, and waits for it.
    pub(crate) async fn close(mut self) {
        let Some(child) = &mut self.child else { return };
        drop(child.stdin.take());
        let begin = Instant::now();
        while matches!(child.try_wait(), Ok(None)) && begin.elapsed() < GRACE {
            sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Keeps the Ctrl-C of a terminal from a process: the one that starts it ends it.
pub(crate) fn detach(command: &mut Command) -> &mut Command {
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    command
}
