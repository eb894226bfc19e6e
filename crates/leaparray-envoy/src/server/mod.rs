//! The servers: RLS v3 and RLQS over gRPC, and HTTP.
//!
//! ```
//! use leaparray_envoy::config::Config;
//! use leaparray_envoy::server::Server;
//! use leaparray_envoy::service::{Service, Store};
//! use tokio::net::TcpListener;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let service = Service::new(&Config::default(), &Store::Memory);
//! let grpc = TcpListener::bind("127.0.0.1:0").await?;
//! let http = TcpListener::bind("127.0.0.1:0").await?;
//! // A real server awaits a signal.
//! let shutdown = std::future::ready(());
//! Server::new(service).serve(grpc, http, shutdown).await?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

mod bounds;
mod convert;
mod follow;
mod http;
mod metrics;
mod rlqs;
mod rls;
#[cfg(feature = "redis")]
mod rounds;
#[cfg(feature = "redis")]
mod shares;

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::service::rate_limit_quota::v3::rate_limit_quota_service_server::RateLimitQuotaServiceServer;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_server::RateLimitServiceServer;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tonic::transport::server::TcpIncoming;

use crate::quota::QuotaConfig;
use crate::service::Service;
pub use bounds::Bounds;
pub use follow::{ConfigFiles, FollowError};
use metrics::Counts;
use rlqs::QuotaServer;
use rls::RateLimits;

/// The descriptors of the two services, for clients that ask for them by reflection. Made in the
/// folder `proto` of the package envoy-types 0.7.7 by `protoc -I data-plane-api -I googleapis -I
/// protoc-gen-validate -I xds --include_imports --descriptor_set_out=descriptors.bin
/// envoy/service/ratelimit/v3/rls.proto envoy/service/rate_limit_quota/v3/rlqs.proto`.
const DESCRIPTORS: &[u8] = include_bytes!("descriptors.bin");

/// How long requests that are in flight at the shutdown may take.
const GRACE: Duration = Duration::from_secs(5);

/// A service of limits over gRPC and HTTP.
#[derive(Debug)]
#[must_use = "it serves nothing"]
pub struct Server {
    service: Service,
    quotas: QuotaConfig,
    bounds: Bounds,
    headers: bool,
    page: Option<leaparray_web::Access>,
    files: Option<ConfigFiles>,
    #[cfg(feature = "redis")]
    shares: Option<shares::Shares>,
}

impl Server {
    /// Creates a server of a service, without headers in its responses, and without a page.
    pub fn new(service: Service) -> Self {
        Self {
            service,
            quotas: QuotaConfig::default(),
            bounds: Bounds::default(),
            headers: false,
            page: None,
            files: None,
            #[cfg(feature = "redis")]
            shares: None,
        }
    }

    /// Sets the settings of quotas.
    pub const fn with_quotas(mut self, quotas: QuotaConfig) -> Self {
        self.quotas = quotas;
        self
    }

    /// Sets the bounds of streams and messages.
    pub const fn with_bounds(mut self, bounds: Bounds) -> Self {
        self.bounds = bounds;
        self
    }

    /// Sets whether responses have headers for the client of Envoy: `RateLimit-Limit`,
    /// `RateLimit-Remaining` and `RateLimit-Reset` of the descriptor that is nearest to its limit.
    pub const fn with_headers(mut self, headers: bool) -> Self {
        self.headers = headers;
        self
    }

    /// Serves the live page at `/leaparray` of the HTTP server, to the readers that `access`
    /// allows.
    pub fn with_page(mut self, access: leaparray_web::Access) -> Self {
        self.page = Some(access);
        self
    }

    /// Follows the files of the configuration: a change of them is in force within two seconds.
    pub fn with_files(mut self, files: ConfigFiles) -> Self {
        self.files = Some(files);
        self
    }

    /// Divides the limits of quotas among the instances of the service `name`, which have the same
    /// Redis server and the same time to live of quotas. Without it, each instance assigns the
    /// whole limit of each bucket.
    ///
    /// # Errors
    ///
    /// Returns what is wrong with the address. The server may be away.
    #[cfg(feature = "redis")]
    pub fn with_quota_shares(mut self, address: &str, name: &str) -> Result<Self, ShareError> {
        self.shares = Some(shares::Shares::new(address, name).map_err(ShareError)?);
        Ok(self)
    }

    /// Serves gRPC and HTTP until `shutdown` is ready, and then ends open requests for up to 5 s.
    ///
    /// gRPC: RLS v3 (`ShouldRateLimit`), RLQS (`StreamRateLimitQuotas`), health and reflection.
    /// HTTP: `POST /json`, `GET /healthcheck`, `GET /metrics`, and the page.
    ///
    /// # Errors
    ///
    /// Returns the error of a listener.
    pub async fn serve(
        self,
        grpc: TcpListener,
        http: TcpListener,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<()> {
        let counts = Arc::new(Counts::default());
        let bounds = self.bounds;
        let registry = Arc::clone(self.service.registry());
        #[cfg(feature = "redis")]
        let shares = self.shares;
        #[cfg(not(feature = "redis"))]
        let shares: Option<std::convert::Infallible> = None;
        let quotas = QuotaServer::new(self.quotas, self.service.clone(), shares.is_none());
        let limits = RateLimits::new(self.service.clone(), Arc::clone(&counts), self.headers);
        let metrics = metrics::exposition(&registry, &counts, &quotas);
        let (stop, stopped) = watch::channel(false);

        let (health, health_service) = tonic_health::server::health_reporter();
        // The name that stands for the whole server is healthy from the beginning.
        health.set_serving::<RateLimitServiceServer<RateLimits>>().await;
        health.set_serving::<RateLimitQuotaServiceServer<QuotaServer>>().await;
        let reflection = || {
            let builder = tonic_reflection::server::Builder::configure();
            builder.register_encoded_file_descriptor_set(DESCRIPTORS)
        };
        let reflection_v1 = reflection().build_v1().map_err(io::Error::other)?;
        let reflection_v1alpha = reflection().build_v1alpha().map_err(io::Error::other)?;
        // Their default is 4 MiB for each stream.
        let max = bounds.max_request;
        let routes = tonic::transport::Server::builder()
            // A client that is lost is noticed after 20 s.
            .http2_keepalive_interval(Some(Duration::from_secs(10)))
            .http2_keepalive_timeout(Some(Duration::from_secs(10)))
            .max_concurrent_streams(Some(bounds.max_streams))
            .add_service(RateLimitServiceServer::new(limits.clone()).max_decoding_message_size(max))
            .add_service(
                RateLimitQuotaServiceServer::new(quotas.clone())
                    .max_decoding_message_size(bounds.max_report),
            )
            .add_service(health_service.max_decoding_message_size(max))
            .add_service(reflection_v1.max_decoding_message_size(max))
            .add_service(reflection_v1alpha.max_decoding_message_size(max));

        let grpc = {
            let mut stopped = stopped.clone();
            let incoming = TcpIncoming::from(grpc).with_nodelay(Some(true));
            let stop = async move { drop(stopped.wait_for(|it| *it).await) };
            routes.serve_with_incoming_shutdown(incoming, stop)
        };
        let app = http::router(limits, bounds, metrics, self.page, registry, stopped.clone());
        let http = {
            let mut stopped = stopped.clone();
            let stop = async move { drop(stopped.wait_for(|it| *it).await) };
            axum::serve(http, app).with_graceful_shutdown(stop).into_future()
        };
        let background = {
            let files = follow::run(self.files, self.service, quotas.clone(), counts);
            let quotas = quotas.clone();
            let divided = quotas.clone();
            let shares = async move {
                #[cfg(feature = "redis")]
                if let Some(shares) = shares {
                    shares.run(&divided).await;
                }
                #[cfg(not(feature = "redis"))]
                drop((shares, divided));
            };
            async move { tokio::join!(quotas.run(), files, shares) }
        };
        let overdue = async {
            shutdown.await;
            health.set_service_status("", tonic_health::ServingStatus::NotServing).await;
            let _ = stop.send(true);
            // A graceful shutdown waits for open streams.
            quotas.stop();
            tokio::time::sleep(GRACE).await;
        };
        let both = async {
            let grpc = async { grpc.await.map_err(io::Error::other) };
            tokio::try_join!(grpc, http).map(drop)
        };
        tokio::select! {
            result = both => result,
            _ = background => Ok(()),
            () = overdue => Ok(()),
        }
    }
}

/// The address of a store of shares is wrong.
#[cfg(feature = "redis")]
#[derive(Debug)]
pub struct ShareError(redis::RedisError);

#[cfg(feature = "redis")]
impl std::fmt::Display for ShareError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(feature = "redis")]
impl std::error::Error for ShareError {}
