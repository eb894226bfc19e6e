//! The page, and how it is configured.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use leaparray::{Clock, MonotonicClock, Registry};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::access::Access;
use crate::closer::Closer;
use crate::document::DOCUMENT;
use crate::format::{Fleet, RuleList};
use crate::headers;
use crate::hub::{Hub, Identity, Viewers};
use crate::service::PageService;
use crate::source::{FleetSource, RuleSource};
use crate::{snapshot, stream};

/// How long [`Page::serve`] waits for its connections after it was closed.
const GRACE: Duration = Duration::from_millis(500);

/// A live page of a [`Registry`], and its stream for other programs.
///
/// It shows the limiters that the registry [watches](Registry::watch), at the resources with their
/// names. A limiter without a resource of its name has a row of its own. A limiter without numbers
/// is not shown.
///
/// ```
/// use axum::Router;
/// use leaparray::Registry;
/// use leaparray::flow::{CircuitBreaker, CircuitConfig, ConcurrencyLimiter};
/// use leaparray_web::{Access, Page, Token};
/// use std::sync::Arc;
///
/// let registry = Arc::new(Registry::new());
/// let token = Token::random();
/// let breaker = Arc::new(CircuitBreaker::new(CircuitConfig::default()));
/// registry.watch("GET /orders", Arc::new(ConcurrencyLimiter::new(20)))?;
/// registry.watch("POST /pay", breaker)?;
/// let page = Page::new(Arc::clone(&registry), Access::token(&token))
///     .name("orders-api")
///     .max_viewers(16);
/// let closer = page.closer();
/// let app: Router = Router::new().nest_service("/leaparray", page.into_service());
/// println!("live page: {}", token.url("http://127.0.0.1:3000/leaparray"));
/// # let _ = (app, closer);
/// # Ok::<_, leaparray::registry::WatchError>(())
/// ```
pub struct Page<C = MonotonicClock> {
    registry: Arc<Registry<C>>,
    identity: Identity,
    fleet: FleetSource,
    rules: RuleSource,
    metrics: Option<Metrics>,
    access: Access,
    viewers: Arc<Viewers>,
    max_viewers: usize,
    life: Duration,
}

/// The text of `/metrics`.
#[derive(Clone)]
struct Metrics {
    content_type: HeaderValue,
    /// The turn of a request: many requests take no more than one thread.
    turn: Arc<Semaphore>,
    text: Arc<dyn Fn() -> String + Send + Sync>,
}

impl<C: Clock + Clone + Send + Sync + 'static> Page<C> {
    /// Creates a page of all resources of `registry`, for the readers that `access` allows.
    #[must_use]
    pub fn new(registry: Arc<Registry<C>>, access: Access) -> Self {
        let identity = Identity::new(registry.clock().now());
        Self {
            registry,
            viewers: Arc::new(Viewers::new(identity.started.as_secs())),
            identity,
            fleet: FleetSource::default(),
            rules: RuleSource::default(),
            metrics: None,
            access,
            max_viewers: 64,
            life: Duration::from_secs(20),
        }
    }

    /// Sets the name of the service. The default is the name of the program.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.identity.name = name.into();
        self
    }

    /// Shows the fleet that `fleet` returns: all processes of the service together, as another
    /// crate reads them from a server to which they report. `None` means that there are no figures
    /// of it now.
    ///
    /// While there are viewers, the function is called once a second, on a thread that may block,
    /// and for each `/snapshot`. No lock is held then. It should return what is in memory: the next
    /// second waits for it. If it panics, there are no figures.
    ///
    /// ```
    /// use leaparray::Registry;
    /// use leaparray_web::format::{Fleet, FleetProcess, FleetProcessState};
    /// use leaparray_web::{Access, Page};
    /// use std::sync::Arc;
    ///
    /// let read = || {
    ///     let mut fleet = Fleet::new("orders");
    ///     fleet.server = "connected".into();
    ///     fleet.processes.push(FleetProcess::new(
    ///         "00000000000000ff",
    ///         "web-1",
    ///         FleetProcessState::Live,
    ///     ));
    ///     Some(fleet)
    /// };
    /// assert_eq!(read().unwrap().processes.len(), 1);
    /// let page = Page::new(Arc::new(Registry::new()), Access::anyone()).fleet(read);
    /// let service = page.into_service();
    /// # let _ = service;
    /// ```
    #[must_use]
    pub fn fleet(mut self, fleet: impl Fn() -> Option<Fleet> + Send + Sync + 'static) -> Self {
        self.fleet = FleetSource::new(fleet);
        self
    }

    /// Shows the rules that `rules` returns, as another crate applies them: `leaparray-rules` has
    /// such a function, with its feature `web`. `None` means that they are not known now.
    ///
    /// It is called as the function of the [fleet](Self::fleet) is.
    ///
    /// ```
    /// use leaparray::Registry;
    /// use leaparray_web::format::{RuleList, RuleRow};
    /// use leaparray_web::{Access, Page};
    /// use std::sync::Arc;
    ///
    /// let read = || {
    ///     let mut rules = RuleList::default();
    ///     let mut rule = RuleRow::new("orders", "GET /orders", "1000 per second");
    ///     rule.state = "12 of 1000 left".into();
    ///     rules.rules.push(rule);
    ///     Some(rules)
    /// };
    /// assert_eq!(read().unwrap().rules[0].name, "orders");
    /// let page = Page::new(Arc::new(Registry::new()), Access::anyone()).rules(read);
    /// let service = page.into_service();
    /// # let _ = service;
    /// ```
    #[must_use]
    pub fn rules(mut self, rules: impl Fn() -> Option<RuleList> + Send + Sync + 'static) -> Self {
        self.rules = RuleSource::new(rules);
        self
    }

    /// Answers `/metrics` by the text that `text` returns, such as an encoded registry of
    /// Prometheus, on a thread that may block. One request at a time is answered, and others wait.
    ///
    /// # Panics
    ///
    /// Panics if the content type contains a control character.
    #[must_use]
    pub fn metrics(
        mut self,
        content_type: &str,
        text: impl Fn() -> String + Send + Sync + 'static,
    ) -> Self {
        let content_type =
            HeaderValue::from_str(content_type).expect("a content type is one line of text");
        let turn = Arc::new(Semaphore::new(1));
        self.metrics = Some(Metrics { content_type, turn, text: Arc::new(text) });
        self
    }

    /// Sets the maximum number of streams that are open at a time. The default is 64. A further one
    /// is refused with the status 503. The light streams of hidden tabs, `/stream?only=totals`,
    /// have a limit of their own of the same size.
    #[must_use]
    pub const fn max_viewers(mut self, max: usize) -> Self {
        self.max_viewers = max;
        self
    }

    /// Sets how long a stream lives, up to a tenth less. The default is 20 seconds. A browser
    /// connects again, and misses no second. Without a [`closer`](Self::closer), a graceful
    /// shutdown takes up to this time, which by default is less than service managers wait.
    #[must_use]
    pub const fn stream_life(mut self, life: Duration) -> Self {
        self.life = life;
        self
    }

    /// Returns a handle that ends all streams of this page.
    #[must_use]
    pub fn closer(&self) -> Closer {
        Closer { viewers: Arc::clone(&self.viewers) }
    }

    /// Returns the service of the page: `/`, `/stream`, `/snapshot`, and `/metrics` if [there is a
    /// text](Self::metrics) for it. Nest it in the router of the application by `nest_service`.
    #[must_use]
    pub fn into_service(self) -> PageService {
        PageService::new(self.router())
    }

    fn router(self) -> Router {
        let metrics = self.metrics;
        let access = self.access;
        let hub = Hub::new(
            self.registry,
            self.identity,
            self.fleet,
            self.viewers,
            self.max_viewers,
            self.life,
        )
        .with_rules(self.rules);
        let mut router = Router::new()
            .route("/", get(document))
            .route("/stream", get(stream::get::<C>))
            .route("/snapshot", get(snapshot::get::<C>))
            .with_state(Arc::new(hub));
        if let Some(metrics) = metrics {
            router = router.route("/metrics", get(move || exposition(metrics)));
        }
        router.layer(middleware::from_fn_with_state(access, guard))
    }

    /// Serves the page on a listener of its own, until it is [closed](Self::closer). Connections
    /// that are still open half a second later are dropped.
    ///
    /// # Errors
    ///
    /// Returns an error if the listener fails.
    ///
    /// ```no_run
    /// # #[tokio::main] async fn main() -> std::io::Result<()> {
    /// use leaparray::Registry;
    /// use leaparray_web::{Access, Page, Token};
    /// use std::sync::Arc;
    /// use tokio::net::TcpListener;
    ///
    /// let token = Token::random();
    /// let listener = TcpListener::bind("127.0.0.1:7171").await?;
    /// println!("live page: {}", token.url("http://127.0.0.1:7171/"));
    /// Page::new(Arc::new(Registry::new()), Access::token(&token)).serve(listener).await
    /// # }
    /// ```
    pub async fn serve(self, listener: TcpListener) -> io::Result<()> {
        let closer = self.closer();
        let signal = closer.clone();
        let signal = async move { signal.closed().await };
        let served = axum::serve(listener, self.router()).with_graceful_shutdown(signal);
        tokio::select! {
            result = served.into_future() => result,
            () = closer.closed_for(GRACE) => Ok(()),
        }
    }
}

/// Answers allowed requests, and adds the headers of all responses.
async fn guard(State(access): State<Access>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let mut response = if parts.method != Method::GET {
        (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, "GET")]).into_response()
    } else if let Err(denied) = access.check(&parts) {
        denied.into_response()
    } else {
        next.run(Request::from_parts(parts, body)).await
    };
    headers::secure(response.headers_mut());
    response
}

async fn document() -> impl IntoResponse {
    let document = &*DOCUMENT;
    let policy = [(header::CONTENT_SECURITY_POLICY, document.policy.as_str())];
    (policy, Html(document.html.as_str()))
}

async fn exposition(metrics: Metrics) -> Response {
    let Metrics { content_type, turn, text } = metrics;
    let Ok(turn) = turn.acquire_owned().await else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    let text = spawn_blocking(move || {
        let _turn = turn;
        text()
    });
    match text.await {
        Ok(text) => ([(header::CONTENT_TYPE, content_type)], text).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

impl<C> fmt::Debug for Page<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Page")
            .field("registry", &self.registry)
            .field("identity", &self.identity)
            .field("fleet", &self.fleet)
            .field("rules", &self.rules)
            .field("has_metrics", &self.metrics.is_some())
            .field("access", &self.access)
            .field("max_viewers", &self.max_viewers)
            .field("life", &self.life)
            .finish_non_exhaustive()
    }
}

/// Returns the service of a page with the default configuration: see [`Page::into_service`].
///
/// ```
/// use axum::Router;
/// use leaparray::Registry;
/// use leaparray_web::{Access, Token};
/// use std::sync::Arc;
///
/// let registry = Arc::new(Registry::new());
/// let token = Token::random();
/// let page = leaparray_web::service(registry, Access::token(&token));
/// let app: Router = Router::new().nest_service("/leaparray", page);
/// println!("live page: {}", token.url("http://127.0.0.1:3000/leaparray"));
/// # let _ = app;
/// ```
#[must_use]
pub fn service<C>(registry: Arc<Registry<C>>, access: Access) -> PageService
where
    C: Clock + Clone + Send + Sync + 'static,
{
    Page::new(registry, access).into_service()
}
