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

/// Begins with nothing, and keeps nothing.
const NO_DUMP: [&str; 6] = ["--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0"];

/// Names the program of the server; `redis-server` without it.
const PROGRAM: &str = "LEAPARRAY_REDIS_SERVER";
/// Names the program of Valkey's server; `valkey-server` without it.
const VALKEY: &str = "VALKEY_SERVER";

/// A server, which is killed when this is dropped.
pub(crate) struct Server {
    child: Child,
    program: String,
    port: u16,
    #[cfg_attr(
        not(feature = "sentinel"),
        expect(dead_code, reason = "is deleted when it is dropped")
    )]
    folder: TempDir,
    args: Vec<String>,
}

impl Server {
    /// Starts a server without a dump; `None` if it is not installed, and the test is then listed
    /// as skipped.
    pub(crate) fn start(test: &str) -> Option<Self> {
        Self::start_with(test, &[])
    }

    /// Starts a server of Redis and one of Valkey, each with its name. One that is not installed is
    /// left out, and listed as skipped.
    pub(crate) fn start_each(test: &str) -> Vec<(&'static str, Self)> {
        let valkey = env::var(VALKEY).unwrap_or_else(|_| "valkey-server".to_owned());
        let programs = [("Redis", program()), ("Valkey", valkey)];
        let start = |(name, program)| Some((name, Self::spawn(test, program, &[], &NO_DUMP)?));
        programs.into_iter().filter_map(start).collect()
    }

    /// Starts a primary, its replica, and a process of Sentinel that calls them `limits`.
    #[cfg(feature = "sentinel")]
    pub(crate) fn start_with_sentinel(test: &str) -> Option<(Self, Self, Self)> {
        let (primary, replica) = (Self::start(test)?, Self::start(test)?);
        replica.follow(&primary);
        // Sentinel writes to its configuration.
        let file = primary.folder.path().join("sentinel.conf");
        let monitor = format!(
            "sentinel monitor limits 127.0.0.1 {} 1\nsentinel down-after-milliseconds limits 500\n\
             sentinel failover-timeout limits 5000\n",
            primary.port
        );
        std::fs::write(&file, monitor).unwrap();
        let sentinel = Self::spawn(test, program(), &[file.to_str().unwrap()], &["--sentinel"])?;
        Some((primary, replica, sentinel))
    }

    /// Stops the process: its connections stay open, and nothing is answered.
    #[cfg(feature = "sentinel")]
    pub(crate) fn stop(&self) {
        let pid = self.id().to_string();
        assert!(Command::new("kill").args(["-STOP", &pid]).status().unwrap().success());
    }

    /// Starts a server with more arguments.
    pub(crate) fn start_with(test: &str, args: &[&str]) -> Option<Self> {
        Self::spawn(test, program(), &[], &[&NO_DUMP, args].concat())
    }

    fn spawn(test: &str, program: String, first: &[&str], args: &[&str]) -> Option<Self> {
        let port = free_port();
        let folder = tempfile::tempdir().unwrap();
        let own = ["--bind", "127.0.0.1", "--port", &port.to_string(), "--dir"].map(str::to_owned);
        let own = own.into_iter().chain([folder.path().to_str().unwrap().to_owned()]);
        let given = |args: &[&str]| args.iter().map(|&it| it.to_owned()).collect::<Vec<_>>();
        let args: Vec<_> = given(first).into_iter().chain(own).chain(given(args)).collect();
        match spawn(&program, &args) {
            Ok(child) => {
                let server = Self { child, program, port, folder, args };
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

    pub(crate) fn address(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Returns the number of the process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    /// Returns the port for the other nodes of a cluster.
    #[cfg(feature = "cluster")]
    pub(crate) const fn bus_port(&self) -> u16 {
        self.port + BUS
    }

    /// Returns a new connection.
    pub(crate) fn connect(&self) -> redis::Connection {
        redis::Client::open(self.address()).unwrap().get_connection().unwrap()
    }

    /// Kills the process, and starts another one that has nothing.
    pub(crate) fn kill_and_restart(&mut self) {
        self.kill();
        self.child = spawn(&self.program, &self.args).unwrap();
        self.wait();
    }

    /// Runs a command.
    pub(crate) fn run(&self, command: &[&str]) {
        let (name, args) = command.split_first().unwrap();
        redis::cmd(name).arg(args).exec(&mut self.connect()).unwrap();
    }

    /// Makes this server a replica of `primary`, and waits until it has its data.
    pub(crate) fn follow(&self, primary: &Self) {
        self.run(&["REPLICAOF", "127.0.0.1", &primary.port.to_string()]);
        let end = Instant::now() + PATIENCE;
        let mut connection = self.connect();
        loop {
            let info: String =
                redis::cmd("INFO").arg("replication").query(&mut connection).unwrap();
            if info.contains("master_link_status:up") {
                return;
            }
            assert!(Instant::now() < end, "the replica does not catch up");
            sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn kill(&mut self) {
        // SIGKILL.
        let _ = self.child.kill();
        let _ = self.child.wait();
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

/// By how much the port of a server for the other nodes of a cluster is above the one for clients.
const BUS: u16 = 10_000;

/// Returns a port that is free a moment later, for a server, as is the one for its cluster.
fn free_port() -> u16 {
    loop {
        let bind = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
        let port = bind(0).unwrap().local_addr().unwrap().port();
        if port.checked_add(BUS).is_some_and(|it| bind(it).is_ok()) {
            return port;
        }
    }
}

fn program() -> String {
    env::var(PROGRAM).unwrap_or_else(|_| "redis-server".to_owned())
}

fn spawn(program: &str, args: &[String]) -> std::io::Result<Child> {
    Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

fn list_as_skipped(line: &str) {
    print!("{line}");
    if let Some(list) = env::var_os("SKIPPED_LIST") {
        let file = OpenOptions::new().append(true).create(true).open(list);
        file.unwrap().write_all(line.as_bytes()).unwrap();
    }
}
