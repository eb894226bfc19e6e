//! The heartbeat, by which a service registers with the dashboard.

use std::fmt;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{io, thread};

use serde::Deserialize;
use ureq::Agent;

use crate::center::VERSION;
use crate::machine;

/// The time between two heartbeats. A dashboard takes a service for gone after a minute.
const INTERVAL: Duration = Duration::from_secs(10);

/// How long a server may take for its answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// The longest answer that is read.
const LONGEST: u64 = 64 << 10;

/// Registers a service with Sentinel's dashboard, every ten seconds.
///
/// Of several servers, one is told: the last one that has accepted, or, if it is away or refuses,
/// the next one that accepts, at once. A server is away that does not answer in three seconds.
///
/// ```no_run
/// use leaparray_sentinel::{Heartbeat, HeartbeatState};
///
/// // 8719 is the port of the command centre.
/// let heartbeat = Heartbeat::new("orders", 8719)
///     .server("dashboard-1.internal:8080")
///     .server("dashboard-2.internal:8080")
///     .on_change(|state| println!("Sentinel's dashboard: {state}"))
///     .start()?;
/// if let HeartbeatState::Away { errors, .. } = heartbeat.state() {
///     println!("no charts: {errors:?}");
/// }
/// # Ok::<_, std::io::Error>(())
/// ```
#[must_use]
pub struct Heartbeat {
    app: String,
    port: u16,
    servers: Vec<String>,
    host_name: String,
    address: Option<IpAddr>,
    interval: Duration,
    on_change: Option<OnChange>,
}

type OnChange = Box<dyn FnMut(&HeartbeatState) + Send>;

impl Heartbeat {
    /// Creates the heartbeat of an application whose command centre has this port. The dashboard
    /// groups services by the name of the application, of at most 256 bytes.
    pub fn new(app: impl Into<String>, port: u16) -> Self {
        Self {
            app: app.into(),
            port,
            servers: Vec::new(),
            host_name: machine::host_name(),
            address: None,
            interval: INTERVAL,
            on_change: None,
        }
    }

    /// Adds a server of the dashboard: its host and port, such as `dashboard.internal:8080`, by
    /// default 80, and perhaps a path before `/registry/machine`, such as `10.0.0.7:8080/sentinel`.
    /// An `http://` before it is left out. No proxy is used, as in Sentinel.
    pub fn server(mut self, server: impl Into<String>) -> Self {
        self.servers.push(server.into());
        self
    }

    /// Sets the name of the machine: by default its host name.
    pub fn host_name(mut self, name: impl Into<String>) -> Self {
        self.host_name = name.into();
        self
    }

    /// Sets the address at which the dashboard finds the command centre: by default the one from
    /// which this machine reaches the server.
    pub const fn address(mut self, address: IpAddr) -> Self {
        self.address = Some(address);
        self
    }

    /// Sets the time between two heartbeats, by default ten seconds, and at least one second. A
    /// dashboard takes a service for gone after a minute.
    pub fn every(mut self, interval: Duration) -> Self {
        self.interval = interval.max(Duration::from_secs(1));
        self
    }

    /// Calls `on_change` when a server begins to have the service registered, and when none does.
    /// It is called by the thread of the heartbeat.
    pub fn on_change(mut self, on_change: impl FnMut(&HeartbeatState) + Send + 'static) -> Self {
        self.on_change = Some(Box::new(on_change));
        self
    }

    /// Starts a thread that registers the service now, and then again and again until the handle is
    /// dropped.
    ///
    /// # Errors
    ///
    /// Returns [`io::ErrorKind::InvalidInput`] if there is no server, and the error of the
    /// operating system if no thread can be started.
    pub fn start(self) -> io::Result<HeartbeatHandle> {
        if self.servers.is_empty() {
            let error = "a heartbeat needs a server of the dashboard; call `Heartbeat::server`";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, error));
        }
        let state = Arc::new(Mutex::new(HeartbeatState::Starting));
        let shared = Arc::clone(&state);
        let (stop, stopped) = sync_channel(0);
        let interval = self.interval;
        let mut beats = Beats::new(self.servers.len());
        let mut sender = Sender::new(self, shared);
        thread::Builder::new().name("sentinel-heartbeat".into()).spawn(move || {
            loop {
                let outcome = beats.beat(|server| sender.send(server));
                sender.tell(outcome);
                // Nothing is sent: the channel ends with the handle.
                if !matches!(stopped.recv_timeout(interval), Err(RecvTimeoutError::Timeout)) {
                    return;
                }
            }
        })?;
        Ok(HeartbeatHandle { state, _stop: stop })
    }
}

impl fmt::Debug for Heartbeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Heartbeat")
            .field("app", &self.app)
            .field("port", &self.port)
            .field("servers", &self.servers)
            .field("host_name", &self.host_name)
            .field("address", &self.address)
            .field("interval", &self.interval)
            .finish_non_exhaustive()
    }
}

/// A heartbeat that was started. It ends when this is dropped: the dashboard then takes the service
/// for gone after a minute.
#[derive(Debug)]
#[must_use = "the heartbeat ends when this is dropped"]
pub struct HeartbeatHandle {
    state: Arc<Mutex<HeartbeatState>>,
    _stop: SyncSender<()>,
}

impl HeartbeatHandle {
    /// Returns the state after the last heartbeat.
    #[must_use]
    pub fn state(&self) -> HeartbeatState {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Whether the dashboard knows the service.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeartbeatState {
    /// The first heartbeat has not ended.
    Starting,
    /// A server has accepted the last heartbeat.
    #[non_exhaustive]
    Registered {
        /// The server, as it was [added](Heartbeat::server).
        server: String,
    },
    /// No server has accepted the last heartbeat.
    #[non_exhaustive]
    Away {
        /// The number of heartbeats in a row that none has accepted.
        failures: u64,
        /// The servers, with what each of them has said the last time.
        errors: Vec<(String, HeartbeatError)>,
    },
}

impl fmt::Display for HeartbeatState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Starting => f.write_str("not asked yet"),
            Self::Registered { server } => write!(f, "registered with {server}"),
            Self::Away { errors, .. } => {
                f.write_str("not registered")?;
                errors.iter().try_for_each(|(server, error)| write!(f, "; {server}: {error}"))
            }
        }
    }
}

/// Why a server has not accepted a heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeartbeatError {
    /// It cannot be reached, or has not answered in time.
    Away(String),
    /// It has answered with another status than 200, for example of a proxy.
    Status(u16),
    /// Its answer is none of a dashboard.
    NoAnswer(String),
    /// It refuses the service, for example since the name of the application is empty or too long.
    #[non_exhaustive]
    Refused {
        /// The code: -1 for a field that is wrong.
        code: i64,
        /// The reason.
        message: String,
    },
    /// The address of this machine towards the server is not known.
    NoAddress,
}

impl fmt::Display for HeartbeatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Away(error) => write!(f, "it is away: {error}"),
            Self::Status(status) => write!(f, "it has answered with the status {status}"),
            Self::NoAnswer(error) => write!(f, "its answer is none of a dashboard: {error}"),
            Self::Refused { code, message } => write!(f, "it refuses: {message} (code {code})"),
            Self::NoAddress => {
                f.write_str("no address of this machine reaches it; call `Heartbeat::address`")
            }
        }
    }
}

impl std::error::Error for HeartbeatError {}

/// Which server is told: plain data.
struct Beats {
    servers: usize,
    /// The one that has accepted last.
    first: usize,
}

/// The server that has accepted, or what each of them has said.
type Outcome = Result<usize, Vec<(usize, HeartbeatError)>>;

impl Beats {
    const fn new(servers: usize) -> Self {
        Self { servers, first: 0 }
    }

    /// Asks the servers in turn, from the one that has accepted last, until one accepts.
    fn beat(&mut self, mut send: impl FnMut(usize) -> Result<(), HeartbeatError>) -> Outcome {
        let mut errors = Vec::new();
        for server in (0..self.servers).map(|it| (self.first + it) % self.servers) {
            match send(server) {
                Ok(()) => {
                    self.first = server;
                    return Ok(server);
                }
                Err(error) => errors.push((server, error)),
            }
        }
        Err(errors)
    }
}

/// Sends heartbeats, and tells what became of them.
struct Sender {
    heartbeat: Heartbeat,
    agent: Agent,
    state: Arc<Mutex<HeartbeatState>>,
}

/// The answer of a dashboard.
#[derive(Deserialize)]
struct Answer {
    success: bool,
    #[serde(default)]
    code: i64,
    msg: Option<String>,
}

impl Sender {
    fn new(heartbeat: Heartbeat, state: Arc<Mutex<HeartbeatState>>) -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            // A new connection each time: one that is kept ends between two heartbeats.
            .max_idle_connections(0)
            .timeout_global(Some(PATIENCE))
            .user_agent(concat!("leaparray-sentinel/", env!("CARGO_PKG_VERSION")));
        Self { heartbeat, agent: config.build().into(), state }
    }

    fn send(&self, server: usize) -> Result<(), HeartbeatError> {
        let Heartbeat { app, port, servers, host_name, address, .. } = &self.heartbeat;
        let server = servers[server].trim_end_matches('/');
        let server = server.strip_prefix("http://").unwrap_or(server);
        let host = server.split('/').next().unwrap_or_default();
        let without_port = || (host.trim_matches(['[', ']']), 80);
        let towards =
            || machine::address_towards(host).or_else(|| machine::address_towards(without_port()));
        let address = address.or_else(towards);
        let ip = address.ok_or(HeartbeatError::NoAddress)?.to_string();
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let form = [
            ("app", app.as_str()),
            ("app_type", "0"),
            ("hostname", host_name),
            ("ip", &ip),
            ("port", &port.to_string()),
            ("v", VERSION),
            ("version", &since_epoch.as_millis().to_string()),
        ];
        let away = |it: ureq::Error| HeartbeatError::Away(it.to_string());
        let request = self.agent.post(format!("http://{server}/registry/machine"));
        let mut response = request.send_form(form).map_err(away)?;
        if response.status() != 200 {
            return Err(HeartbeatError::Status(response.status().as_u16()));
        }
        let text = response.body_mut().with_config().limit(LONGEST).read_to_string();
        read(&text.map_err(away)?)
    }

    /// Keeps the state, and tells a change of it.
    fn tell(&mut self, outcome: Outcome) {
        let name = |server: usize| self.heartbeat.servers[server].clone();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let next = match outcome {
            Ok(server) => HeartbeatState::Registered { server: name(server) },
            Err(errors) => HeartbeatState::Away {
                failures: match &*state {
                    HeartbeatState::Away { failures, .. } => failures + 1,
                    _ => 1,
                },
                errors: errors.into_iter().map(|(server, it)| (name(server), it)).collect(),
            },
        };
        let is_change = match (&*state, &next) {
            // Its reasons may change each time.
            (HeartbeatState::Away { .. }, HeartbeatState::Away { .. }) => false,
            (before, next) => before != next,
        };
        state.clone_from(&next);
        drop(state);
        if is_change
            && let Some(on_change) = &mut self.heartbeat.on_change
            && catch_unwind(AssertUnwindSafe(|| on_change(&next))).is_err()
        {
            // It would panic again.
            self.heartbeat.on_change = None;
        }
    }
}

/// Reads the answer of a server.
fn read(text: &str) -> Result<(), HeartbeatError> {
    let answer: Answer =
        serde_json::from_str(text).map_err(|it| HeartbeatError::NoAnswer(it.to_string()))?;
    if answer.success {
        return Ok(());
    }
    let message = answer.msg.unwrap_or_default();
    Err(HeartbeatError::Refused { code: answer.code, message })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn away() -> HeartbeatError {
        HeartbeatError::Away("connection refused".into())
    }

    /// Beats once while these servers are there. Returns the servers that were asked, and the one
    /// that has accepted.
    fn beat(beats: &mut Beats, there: &[usize]) -> (Vec<usize>, Option<usize>) {
        let mut asked = Vec::new();
        let outcome = beats.beat(|server| {
            asked.push(server);
            if there.contains(&server) { Ok(()) } else { Err(away()) }
        });
        if let Err(errors) = &outcome {
            let servers: Vec<_> = errors.iter().map(|it| it.0).collect();
            assert_eq!(servers, asked, "each has its error");
        }
        (asked, outcome.ok())
    }

    #[test]
    fn server_that_accepts_is_told_until_it_is_away() {
        let mut beats = Beats::new(3);
        assert_eq!(beat(&mut beats, &[0, 1, 2]), (vec![0], Some(0)));
        assert_eq!(beat(&mut beats, &[2]), (vec![0, 1, 2], Some(2)));
        assert_eq!(beat(&mut beats, &[0, 2]), (vec![2], Some(2)), "not back to the first one");
        assert_eq!(beat(&mut beats, &[]), (vec![2, 0, 1], None));
        assert_eq!(beat(&mut beats, &[1]), (vec![2, 0, 1], Some(1)));
    }

    #[test]
    fn change_is_told_once() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let list = Arc::clone(&told);
        let heartbeat = Heartbeat::new("a", 1)
            .server("one")
            .server("two")
            .on_change(move |it| list.lock().unwrap().push(it.to_string()));
        let state = Arc::new(Mutex::new(HeartbeatState::Starting));
        let mut sender = Sender::new(heartbeat, Arc::clone(&state));
        let errors = || Err(vec![(0, away()), (1, HeartbeatError::Status(502))]);
        for outcome in [Ok(0), Ok(0), Ok(1), errors(), errors(), Ok(1)] {
            sender.tell(outcome);
        }
        assert_eq!(
            *told.lock().unwrap(),
            [
                "registered with one",
                "registered with two",
                "not registered; one: it is away: connection refused; two: it has answered with \
                 the status 502",
                "registered with two",
            ]
        );
        sender.tell(errors());
        sender.tell(errors());
        assert!(matches!(&*state.lock().unwrap(), HeartbeatState::Away { failures: 2, .. }));
    }

    #[test]
    fn refusal_of_a_dashboard_has_the_status_200() {
        assert_eq!(read(r#"{"success":true,"code":0,"msg":"success","data":null}"#), Ok(()));
        let refusal = read(r#"{"success":false,"code":-1,"msg":"invalid ip: a","data":null}"#);
        let refused = HeartbeatError::Refused { code: -1, message: "invalid ip: a".into() };
        assert_eq!(refusal, Err(refused));
        assert!(matches!(read("<html>"), Err(HeartbeatError::NoAnswer(_))));
    }

    #[test]
    fn heartbeat_needs_a_server() {
        let error = Heartbeat::new("a", 1).start().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
}
