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
        let [admin, first, second] = ports();
        Self { admin, rls: first, rlqs: second }
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

/// A run of h2load.
pub(crate) struct Load(Child);

impl Load {
    /// Waits for its end. Returns whether it has sent at least three quarters of what it was told:
    /// a machine that is too busy for it has not asked for the whole limit.
    pub(crate) fn was_sent(self) -> bool {
        let output = self.0.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{text}");
        let rate = text.lines().find_map(|it| it.strip_suffix("B/s")?.split(", ").nth(1));
        let rate = rate.and_then(|it| it.strip_suffix(" req/s")?.parse::<f64>().ok());
        let was_sent = rate.unwrap_or_else(|| panic!("no rate: {text}")) >= 0.75 * f64::from(RATE);
        if !was_sent {
            println!("the machine is too busy to ask for the limit: its utilization says nothing");
        }
        was_sent
    }
}

/// The requests in a second of a load.
const RATE: u32 = 1_600;

/// Starts a load for `seconds`. `None` if h2load is not installed.
pub(crate) fn load(port: u16, seconds: u32) -> Option<Load> {
    let clients = 4;
    let mut command = Command::new("h2load");
    command.args(["-c", &clients.to_string(), "-m", "8", "-D", &seconds.to_string()]);
    command.args(["--rps", &(RATE / clients).to_string()]).stdout(Stdio::piped());
    command.arg(format!("http://127.0.0.1:{port}/orders"));
    match command.spawn() {
        Ok(child) => Some(Load(child)),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            skip("h2load is not installed");
            None
        }
        Err(error) => panic!("{command:?}: {error}"),
    }
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
