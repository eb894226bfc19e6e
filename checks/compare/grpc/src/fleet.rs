//! The processes of a comparison.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::Result;

/// How long a process may take to start. Only a defect reaches it.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server, and where it keeps its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Memory,
    LimitadorMemory,
    Redis,
    LimitadorRedis,
    /// Limitador's storage that writes to Redis once a second.
    LimitadorCached,
    /// The least service, which admits each request undecided: what gRPC costs alone.
    Nothing,
}

impl Kind {
    pub(crate) const ALL: [Self; 6] = [
        Self::Memory,
        Self::LimitadorMemory,
        Self::Redis,
        Self::LimitadorRedis,
        Self::LimitadorCached,
        Self::Nothing,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::LimitadorMemory => "limitador-memory",
            Self::Redis => "redis",
            Self::LimitadorRedis => "limitador-redis",
            Self::LimitadorCached => "limitador-cached",
            Self::Nothing => "nothing",
        }
    }

    pub(crate) fn parse(name: &str) -> Result<Self> {
        let kind = Self::ALL.into_iter().find(|it| it.name() == name);
        kind.ok_or_else(|| format!("no server has the name {name}").into())
    }

    pub(crate) const fn is_over_redis(self) -> bool {
        !matches!(self, Self::Memory | Self::LimitadorMemory | Self::Nothing)
    }
}

/// A process, which is killed when this is dropped.
#[derive(Debug)]
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A Redis server without a dump.
#[derive(Debug)]
pub(crate) struct Redis {
    _process: Process,
    pub(crate) port: u16,
}

impl Redis {
    pub(crate) fn start(folder: &Path) -> Result<Self> {
        let port = free_port()?;
        let mut command = Command::new("redis-server");
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
        command.arg("--dir").arg(folder).stdout(Stdio::null());
        let process = Process(command.spawn().map_err(|it| format!("redis-server: {it}"))?);
        wait_for(port)?;
        Ok(Self { _process: process, port })
    }

    /// Returns the number of commands that were processed, also in scripts.
    pub(crate) fn commands(&self) -> Result<u64> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        stream.write_all(b"INFO stats\r\nQUIT\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let line = answer.lines().find_map(|it| it.strip_prefix("total_commands_processed:"));
        Ok(line.ok_or("Redis tells no number of commands")?.trim().parse()?)
    }
}

/// A server of RLS.
#[derive(Debug)]
pub(crate) struct Server {
    process: Process,
    pub(crate) port: u16,
}

impl Server {
    /// Starts one with limits of `limit` in a second.
    pub(crate) fn start(kind: Kind, redis: &Redis, limit: u32) -> Result<Self> {
        let port = free_port()?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["serve", kind.name(), &port.to_string(), &redis.port.to_string()]);
        let process = Process(command.arg(limit.to_string()).spawn()?);
        wait_for(port)?;
        Ok(Self { process, port })
    }

    /// Returns the processor time that it has used, in seconds.
    pub(crate) fn processor_time(&self) -> Result<f64> {
        /// The ticks in a second, which Linux tells programs on all usual processors.
        const TICKS: f64 = 100.0;
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.0.id()))?;
        // The second field is a name in parentheses. The user's and the system's time are the 14th
        // and 15th field.
        let rest = stat.rsplit(')').next().unwrap_or_default();
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let ticks = |index: usize| fields.get(index).and_then(|it| it.parse::<f64>().ok());
        let (user, system) = ticks(11).zip(ticks(12)).ok_or("no processor time of a process")?;
        Ok((user + system) / TICKS)
    }

    /// Waits for the end of a quarantine of leases.
    pub(crate) fn wait_until_it_admits(&self) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        while !crate::audit::is_admitted(self.port)? {
            if Instant::now() > end {
                return Err("a server admits nothing".into());
            }
            sleep(Duration::from_millis(100));
        }
        Ok(())
    }
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

fn wait_for(port: u16) -> Result<()> {
    let end = Instant::now() + PATIENCE;
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
        if Instant::now() > end {
            return Err(format!("nothing listens on port {port}").into());
        }
        sleep(Duration::from_millis(20));
    }
    Ok(())
}
