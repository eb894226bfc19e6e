//! Programs that a test starts.

use std::env;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long something may take. Only a defect reaches it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A program, which is killed when this is dropped.
pub(crate) struct Program(Child);

impl Program {
    /// Starts it; `None` if it is not installed.
    pub(crate) fn start(command: &mut Command) -> Option<Self> {
        match command.stdout(Stdio::null()).spawn() {
            Ok(child) => Some(Self(child)),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => panic!("{command:?}: {error}"),
        }
    }

    /// Sends SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Returns whether it has ended with success.
    pub(crate) fn ends(&mut self) -> bool {
        self.0.wait().unwrap().success()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts Envoy with the configuration beside this file; `None` if `ENVOY` does not name it.
pub(crate) fn envoy(
    folder: &Path,
    ports: &Ports,
    upstream: SocketAddr,
    limits: &[u16],
) -> Option<Program> {
    let Some(program) = env::var_os("ENVOY") else {
        skip("ENVOY names no Envoy");
        return None;
    };
    let endpoint = |port: &u16| {
        format!(
            "{{ endpoint: {{ address: {{ socket_address: {{ address: 127.0.0.1, port_value: {port} \
             }} }} }} }}"
        )
    };
    let limits: Vec<_> = limits.iter().map(endpoint).collect();
    let config = include_str!("envoy.yaml")
        .replace("value: ADMIN", &format!("value: {}", ports.admin))
        .replace("value: RLS ", &format!("value: {} ", ports.rls))
        .replace("value: RLQS ", &format!("value: {} ", ports.rlqs))
        .replace("value: UPSTREAM", &format!("value: {}", upstream.port()))
        .replace("LIMITS]", &format!("{}]", limits.join(", ")));
    let file = folder.join(format!("envoy-{}.yaml", ports.admin));
    std::fs::write(&file, config).unwrap();
    let mut command = Command::new(program);
    command.args(["--concurrency", "1", "--use-dynamic-base-id", "--disable-hot-restart"]);
    command.args(["--log-level", "critical", "--config-path"]).arg(file);
    let program = Program::start(&mut command).expect("ENVOY names a program");
    wait_for(ports.rls);
    Some(program)
}

/// The ports of an Envoy.
pub(crate) struct Ports {
    admin: u16,
    pub(crate) rls: u16,
    pub(crate) rlqs: u16,
}

impl Ports {
    pub(crate) fn new() -> Self {
        let [admin, rls, rlqs] = ports();
        Self { admin, rls, rlqs }
    }
}

/// Returns ports that are free a moment later.
pub(crate) fn ports<const N: usize>() -> [u16; N] {
    let listeners = [(); N].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    listeners.map(|it| it.local_addr().unwrap().port())
}

/// Waits until a port accepts connections.
pub(crate) fn wait_for(port: u16) {
    let end = Instant::now() + PATIENCE;
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
        assert!(Instant::now() < end, "nothing listens on port {port}");
        sleep(Duration::from_millis(20));
    }
}

/// Starts h2load: `rps` requests in a second, for `seconds`. `None` if it is not installed.
pub(crate) fn load(port: u16, rps: u32, seconds: u32) -> Option<Program> {
    let clients = 4;
    let mut command = Command::new("h2load");
    command.args(["-c", &clients.to_string(), "-m", "8", "-D", &seconds.to_string()]);
    command.args(["--rps", &(rps / clients).to_string()]);
    command.arg(format!("http://127.0.0.1:{port}/orders"));
    let program = Program::start(&mut command);
    if program.is_none() {
        skip("h2load is not installed");
    }
    program
}

/// Lists a check as skipped, for the scripts in `.ci`.
pub(crate) fn skip(why: &str) {
    let line = format!("skipped: limits behind Envoy: {why}\n");
    print!("{line}");
    if let Some(list) = env::var_os("SKIPPED_LIST") {
        let mut list = OpenOptions::new().append(true).create(true).open(list).unwrap();
        list.write_all(line.as_bytes()).unwrap();
    }
}
