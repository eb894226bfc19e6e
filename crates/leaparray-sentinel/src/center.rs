//! The command centre: the service that a dashboard calls.

use std::fmt::{self, Write};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use leaparray::metric::{MetricLine, SecondMetrics};
use leaparray::{MetricEvent, MonotonicClock, Registry};
use leaparray_rules::{RuleClock, SentinelKind};
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::access::{self, Access};
use crate::command::{Command, Parameters};
use crate::machine::{self, Load};
use crate::nodes;
use crate::rule_book::RuleBook;
use crate::seconds::{Seconds, number_of, start_of_second};

/// The version of Sentinel that is spoken: of the client whose answers were captured. From it, a
/// dashboard tells that `setRules` is called by `POST`, with a character set.
pub(crate) const VERSION: &str = "1.8.9";

/// The largest form: the rules of a kind.
const MAX_FORM: usize = 4 << 20;

/// How long a client may send its form.
const FORM_TIME: Duration = Duration::from_secs(5);

/// The most commands at a time. Further ones wait.
const MAX_COMMANDS: usize = 4;

/// The most lines of `/metric` without `endTime`, by default and at most.
const LINES: (u64, u64) = (6_000, 12_000);

/// The name of the line with the mean number of runnable threads of the last minute.
const LOAD: &str = "__system_load__";

/// The name of the line with the share of the time for which the processors were busy.
const CPU: &str = "__cpu_usage__";

/// Answers the commands of Sentinel's dashboard for the resources of a [`Registry`].
///
/// By default it is for this machine only, and can be read only: [`access`](Self::access) allows
/// other addresses, and [`accept_rules`](Self::accept_rules) has a dashboard replace rules.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use leaparray::Registry;
/// use leaparray_rules::Rules;
/// use leaparray_sentinel::{CommandCenter, RuleBook, bind};
/// use std::net::Ipv4Addr;
/// use std::sync::Arc;
///
/// let registry = Arc::new(Registry::new());
/// let book = Arc::new(RuleBook::new(Rules::new(Arc::clone(&registry))));
/// let center = CommandCenter::new(registry).rules(book).accept_rules();
/// let listener = bind(Ipv4Addr::LOCALHOST.into()).await?;
/// assert!(listener.local_addr()?.port() >= 8719);
/// let serving = tokio::spawn(center.serve(listener));
/// # serving.abort();
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct CommandCenter<C: RuleClock = MonotonicClock> {
    seconds: Seconds<C>,
    rules: Option<Arc<RuleBook<C>>>,
    accepts_rules: bool,
    pub(crate) access: Access,
    address: Option<IpAddr>,
    load: Load,
    turn: Arc<Semaphore>,
}

impl<C: RuleClock> CommandCenter<C> {
    /// Creates a command centre. From now on, the registry keeps the seconds of resources that are
    /// evicted until they were read, as far as its long window reaches.
    pub fn new(registry: Arc<Registry<C>>) -> Self {
        Self {
            seconds: Seconds::new(registry),
            rules: None,
            accepts_rules: false,
            access: Access::default(),
            address: None,
            load: Load::default(),
            turn: Arc::new(Semaphore::new(MAX_COMMANDS)),
        }
    }

    /// Shows the rules of a book. Without one, there are none.
    pub fn rules(mut self, book: Arc<RuleBook<C>>) -> Self {
        self.rules = Some(book);
        self
    }

    /// Has each client that is [allowed](Self::access) replace the rules of the book, and switch
    /// them off. Otherwise such commands are refused.
    pub const fn accept_rules(mut self) -> Self {
        self.accepts_rules = true;
        self
    }

    /// Sets the addresses from which requests are answered: by default those of this machine.
    pub fn access(mut self, access: Access) -> Self {
        self.access = access;
        self
    }

    /// Sets the address that `/basicInfo` tells: by default the address of this machine in its
    /// network.
    pub const fn address(mut self, address: IpAddr) -> Self {
        self.address = Some(address);
        self
    }

    /// Returns a router of all commands, for a service that has its own listener. A dashboard calls
    /// the commands without a prefix, so the router is best the fallback of the service's routes.
    ///
    /// The [address](Access) of the connection has to be known.
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> std::io::Result<()> {
    /// use axum::{Router, routing::get};
    /// use leaparray::Registry;
    /// use leaparray_sentinel::CommandCenter;
    /// use std::net::SocketAddr;
    /// use std::sync::Arc;
    /// use tokio::net::TcpListener;
    ///
    /// let center = CommandCenter::new(Arc::new(Registry::new()));
    /// let app: Router = Router::new()
    ///     .route("/orders", get(async || "orders"))
    ///     .fallback_service(center.into_router());
    /// let listener = TcpListener::bind("127.0.0.1:3000").await?;
    /// axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await
    /// # }
    /// ```
    pub fn into_router(self) -> Router {
        let of_router = |State(center): State<Arc<Self>>, request| answer(center, request);
        Router::new().fallback(of_router).with_state(Arc::new(self))
    }

    /// Answers a command by a text, or refuses it with one.
    fn run(&self, command: Command, parameters: &Parameters) -> Result<String, String> {
        let registry = self.seconds.registry();
        Ok(match command {
            Command::Version => VERSION.to_owned(),
            Command::Api => {
                let entry = |it: Command| json!({"desc": it.description(), "url": format!("/{}", it.name())});
                serde_json::Value::from_iter(Command::ALL.map(entry)).to_string()
            }
            Command::BasicInfo => self.basic_info(),
            Command::Metric => return self.metric(parameters),
            Command::ClusterNode => {
                let kind = parameters.get("type").unwrap_or_default();
                nodes::cluster(registry, kind.eq_ignore_ascii_case("notZero"))
            }
            Command::ClusterNodeById => match parameters.get("id") {
                Some(id) => nodes::cluster_of(registry, id),
                None => return Err("Invalid parameter: empty clusterNode name".into()),
            },
            Command::JsonTree => nodes::tree(registry),
            Command::SystemStatus => nodes::status(registry),
            Command::GetClusterMode => CLUSTER_MODE.to_owned(),
            Command::GetRules => self.json(parameters.kind()?),
            Command::GetParamFlowRules => self.json(SentinelKind::ParamFlow),
            Command::SetRules => return self.set(parameters.kind()?, parameters),
            Command::SetParamFlowRules => return self.set(SentinelKind::ParamFlow, parameters),
            Command::GetSwitch => {
                let is_on = self.rules.as_ref().is_none_or(|it| it.is_on());
                format!("Sentinel switch value: {is_on}")
            }
            Command::SetSwitch => return self.switch(parameters),
        })
    }

    fn basic_info(&self) -> String {
        let ip = self.address.unwrap_or_else(machine::address).to_string();
        let [machine, ip] = [machine::host_name(), ip].map(|it| json!(it));
        format!("{{\n\t\"machine\": {machine},\n\t\"ip\": {ip}\n}}")
    }

    fn metric(&self, parameters: &Parameters) -> Result<String, String> {
        let Some(start) = parameters.number("startTime")? else { return Ok(String::new()) };
        let identity = parameters.get("identity");
        let (end, most) = match parameters.number("endTime")? {
            Some(end) => (end, u64::MAX),
            None => (u64::MAX, parameters.number("maxLines")?.unwrap_or(LINES.0).min(LINES.1)),
        };
        let most = most.try_into().unwrap_or(usize::MAX);
        let numbers = number_of(start)..=number_of(end);
        let mut text = self.seconds.lines(&numbers, identity, most);
        if identity.is_none() {
            self.add_load(&mut text);
        }
        Ok(text)
    }

    /// Adds the lines of the machine, as of now. A load of 0 has no line.
    fn add_load(&self, text: &mut String) {
        let second = start_of_second(self.seconds.registry().clock().now());
        for (name, value) in [(LOAD, Load::average()), (CPU, self.load.cpu())] {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "not negative"
            )]
            let pass = (value.unwrap_or_default() * 10_000.0) as u64;
            if pass > 0 {
                let mut metrics = SecondMetrics::new(second);
                metrics.counts[MetricEvent::Pass] = pass;
                let line = MetricLine::new(name, 0, &metrics);
                writeln!(text, "{}", line.thin()).expect("a string takes any text");
            }
        }
    }

    fn json(&self, kind: SentinelKind) -> String {
        self.rules.as_ref().map_or_else(|| "[]".to_owned(), |it| it.json(kind))
    }

    /// Returns the book if rules may be replaced.
    fn writable(&self) -> Result<&RuleBook<C>, String> {
        let why = match &self.rules {
            None => "This service has no rules that a dashboard can replace",
            Some(_) if !self.accepts_rules => {
                "The rules of this service can only be read: it has not called `accept_rules`"
            }
            Some(book) => return Ok(book),
        };
        Err(why.to_owned())
    }

    fn set(&self, kind: SentinelKind, parameters: &Parameters) -> Result<String, String> {
        let book = self.writable()?;
        let data = parameters.get("data").ok_or("Bad data: the parameter `data` is missing")?;
        if data.contains(char::REPLACEMENT_CHARACTER) {
            return Err("Bad data: it is not in UTF-8".into());
        }
        book.set(kind, data).map_err(|it| it.to_string())?;
        Ok("success".to_owned())
    }

    fn switch(&self, parameters: &Parameters) -> Result<String, String> {
        let value = parameters.get("value").unwrap_or_default();
        let is_on = match value.to_ascii_lowercase().as_str() {
            "true" => true,
            "false" => false,
            _ => return Err(format!("value is {value:?}; write true or false")),
        };
        self.writable()?.set_on(is_on).map_err(|it| it.to_string())?;
        Ok(format!("Sentinel set switch value: {value}"))
    }
}

impl<C: RuleClock> fmt::Debug for CommandCenter<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandCenter")
            .field("registry", self.seconds.registry())
            .field("rules", &self.rules)
            .field("accepts_rules", &self.accepts_rules)
            .field("access", &self.access)
            .finish_non_exhaustive()
    }
}

/// A service without a part in a cluster.
const CLUSTER_MODE: &str =
    r#"{"mode":-1,"clientAvailable":false,"serverAvailable":false,"lastModified":-1}"#;

/// Why a request is not answered by its command.
struct Refused(StatusCode, String);

impl Refused {
    fn bad(text: impl Into<String>) -> Self {
        Self(StatusCode::BAD_REQUEST, text.into())
    }
}

/// Answers a request.
pub(crate) async fn answer<C: RuleClock>(
    center: Arc<CommandCenter<C>>,
    request: Request,
) -> Response {
    let is_head = request.method() == Method::HEAD;
    let (status, text) = match run(center, request).await {
        Ok(text) => (StatusCode::OK, text),
        Err(Refused(status, text)) => (status, text),
    };
    let length = text.len();
    let mut response = Response::new(if is_head { Body::empty() } else { text.into() });
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_LENGTH, length.into());
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    // There is no Content-Type, as in Sentinel. A browser is not to guess one.
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if status == StatusCode::METHOD_NOT_ALLOWED {
        headers.insert(header::ALLOW, HeaderValue::from_static("GET, HEAD, POST"));
    }
    response
}

async fn run<C: RuleClock>(
    center: Arc<CommandCenter<C>>,
    request: Request,
) -> Result<String, Refused> {
    let (parts, body) = request.into_parts();
    let denied = |it: &str| Refused(StatusCode::FORBIDDEN, it.to_owned());
    center.access.check(&parts).map_err(denied)?;
    let command = match parts.uri.path().trim_start_matches('/') {
        "" => return Err(Refused::bad("Invalid command")),
        name => {
            Command::of(name).ok_or_else(|| Refused::bad(format!("Unknown command `{name}`")))?
        }
    };
    if command.is_change() {
        access::check_change(&parts.headers).map_err(denied)?;
    }
    let mut parameters = Parameters::default();
    parameters.add(parts.uri.query().unwrap_or_default().as_bytes());
    match parts.method {
        Method::GET => {}
        Method::HEAD if !command.is_change() => {}
        Method::POST => parameters.add(&form(&parts.headers, body).await?),
        _ => return Err(Refused(StatusCode::METHOD_NOT_ALLOWED, String::new())),
    }
    // A registry of many resources takes its time, and so does a file. A change that has begun
    // ends, also if its client goes away.
    let turn = Arc::clone(&center.turn).acquire_owned().await;
    let run = move || {
        let _turn = turn;
        center.run(command, &parameters)
    };
    match spawn_blocking(run).await {
        Ok(answer) => answer.map_err(Refused::bad),
        Err(_) => Err(Refused(StatusCode::INTERNAL_SERVER_ERROR, "Command server error".into())),
    }
}

/// Reads a form.
async fn form(headers: &HeaderMap, body: Body) -> Result<Vec<u8>, Refused> {
    let text = |name| headers.get(name).map(|it: &HeaderValue| it.to_str().unwrap_or_default());
    let is_form = |it: &str| {
        let kind = it.split(';').next().unwrap_or_default().trim();
        kind.eq_ignore_ascii_case("application/x-www-form-urlencoded")
    };
    if !text(header::CONTENT_TYPE).is_none_or(is_form) {
        let text = "Only form-encoded post request is supported";
        return Err(Refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, text.into()));
    }
    let length = text(header::CONTENT_LENGTH).and_then(|it| it.parse::<usize>().ok());
    match length.filter(|&it| it > 0) {
        None => Err(Refused(StatusCode::LENGTH_REQUIRED, "No legal Content-Length".into())),
        Some(length) if length > MAX_FORM => {
            let text = format!("The form has {length} bytes; at most {MAX_FORM} are read");
            Err(Refused(StatusCode::PAYLOAD_TOO_LARGE, text))
        }
        Some(_) => match timeout(FORM_TIME, to_bytes(body, MAX_FORM)).await {
            Ok(Ok(form)) => Ok(form.into()),
            Ok(Err(error)) => Err(Refused::bad(format!("The form cannot be read: {error}"))),
            Err(_) => Err(Refused(StatusCode::REQUEST_TIMEOUT, "The form is not here".into())),
        },
    }
}
