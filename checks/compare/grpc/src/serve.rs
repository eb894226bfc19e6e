//! The servers of RLS v3.

use std::collections::HashMap;
use std::future::{Future, pending};
use std::net::Ipv4Addr;

use envoy_types::pb::envoy::service::ratelimit::v3 as pb;
use leaparray_envoy::config::Config;
use leaparray_envoy::server::Server;
use leaparray_envoy::service::{Leases, Service, Store};
use leaparray_redis::RedisEngine;
use limitador::limit::{Context, Limit, Namespace, Predicate};
use limitador::storage::AsyncCounterStorage;
use limitador::storage::redis::{AsyncRedisStorage, CachedRedisStorage};
use limitador::{AsyncRateLimiter, RateLimiter};
use pb::rate_limit_response::Code;
use pb::rate_limit_service_server::{RateLimitService, RateLimitServiceServer};
use tokio::net::TcpListener;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

use crate::Result;
use crate::fleet::Kind;

/// A limit that no load reaches.
pub(crate) const WITHOUT_REFUSALS: u32 = 4_000_000;

/// Serves until the process is killed.
#[tokio::main]
pub(crate) async fn run(kind: Kind, port: u16, redis: &str, limit: u32) -> Result<()> {
    let redis = format!("redis://127.0.0.1:{redis}/");
    match kind {
        Kind::Memory => ours(&Store::Memory, port, limit).await,
        Kind::Redis => {
            let leases = Leases::new("compare", RedisEngine::open(&redis)?)?;
            ours(&Store::Redis(leases), port, limit).await
        }
        Kind::LimitadorMemory => {
            let limiter = RateLimiter::new(100_000);
            for limit in limits(limit)? {
                limiter.add_limit(limit);
            }
            least(port, InMemory(limiter)).await
        }
        Kind::LimitadorRedis => {
            let storage = AsyncRedisStorage::new(&redis).await?;
            least(port, OverRedis::new(Box::new(storage), limit)?).await
        }
        Kind::LimitadorCached => {
            let storage = CachedRedisStorage::new(&redis).await?;
            least(port, OverRedis::new(Box::new(storage), limit)?).await
        }
        Kind::Nothing => least(port, Nothing).await,
    }
}

async fn ours(store: &Store, port: u16, limit: u32) -> Result<()> {
    let rate = format!("rate_limit: {{ unit: second, requests_per_unit: {limit} }}");
    let config = Config::from_yaml(&format!(
        "domain: shop\ndescriptors:\n- key: path\n  value: /buy\n  {rate}\n- key: client\n  {rate}\n"
    ))?;
    let grpc = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    let http = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    Ok(Server::new(Service::new(&config, store)).serve(grpc, http, pending()).await?)
}

fn limits(limit: u32) -> Result<[Limit; 2]> {
    let path: Predicate = "descriptors[0]['path'] == '/buy'".try_into()?;
    let client = "descriptors[1].client".try_into()?;
    Ok([
        Limit::new("shop", limit.into(), 1, [path], []),
        Limit::new("shop", limit.into(), 1, [], [client]),
    ])
}

/// Serves RLS alone.
async fn least(port: u16, limits: impl RateLimitService) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let server = tonic::transport::Server::builder();
    let mut server = server.max_concurrent_streams(Some(1_024));
    Ok(server
        .add_service(RateLimitServiceServer::new(limits))
        .serve_with_incoming(incoming)
        .await?)
}

struct InMemory(RateLimiter);

struct OverRedis(AsyncRateLimiter);

struct Nothing;

impl OverRedis {
    fn new(storage: Box<dyn AsyncCounterStorage>, limit: u32) -> Result<Self> {
        let limiter = AsyncRateLimiter::new_with_storage(storage);
        for limit in limits(limit)? {
            limiter.add_limit(limit);
        }
        Ok(Self(limiter))
    }
}

/// Returns what limitador decides by, as its server makes it.
fn context(message: pb::RateLimitRequest) -> (Namespace, Context<'static>, u64) {
    let maps = message.descriptors.into_iter().map(|descriptor| {
        let entries = descriptor.entries.into_iter().map(|it| (it.key, it.value));
        entries.collect::<HashMap<_, _>>()
    });
    let mut context = Context::default();
    context.list_binding("descriptors".to_owned(), maps.collect());
    (Namespace::from(message.domain), context, message.hits_addend.max(1).into())
}

fn answer(is_limited: bool) -> Response<pb::RateLimitResponse> {
    let code = if is_limited { Code::OverLimit } else { Code::Ok };
    Response::new(pb::RateLimitResponse { overall_code: code.into(), ..Default::default() })
}

impl RateLimitService for InMemory {
    fn should_rate_limit<'s, 'a>(&'s self, request: Request<pb::RateLimitRequest>) -> Answer<'a>
    where
        's: 'a,
        Self: 'a,
    {
        Box::pin(async move {
            let (namespace, context, hits) = context(request.into_inner());
            let checked = self.0.check_rate_limited_and_update(&namespace, &context, hits);
            Ok(answer(checked.map_err(failed)?.limited))
        })
    }
}

impl RateLimitService for OverRedis {
    fn should_rate_limit<'s, 'a>(&'s self, request: Request<pb::RateLimitRequest>) -> Answer<'a>
    where
        's: 'a,
        Self: 'a,
    {
        Box::pin(async move {
            let (namespace, context, hits) = context(request.into_inner());
            let checked = self.0.check_rate_limited_and_update(&namespace, &context, hits);
            Ok(answer(checked.await.map_err(failed)?.limited))
        })
    }
}

impl RateLimitService for Nothing {
    fn should_rate_limit<'s, 'a>(&'s self, _request: Request<pb::RateLimitRequest>) -> Answer<'a>
    where
        's: 'a,
        Self: 'a,
    {
        Box::pin(async { Ok(answer(false)) })
    }
}

/// As `async_trait` writes it.
type Answer<'a> = std::pin::Pin<
    Box<
        dyn Future<Output = std::result::Result<Response<pb::RateLimitResponse>, Status>>
            + Send
            + 'a,
    >,
>;

#[expect(clippy::needless_pass_by_value, reason = "an argument of `map_err`")]
fn failed(error: limitador::errors::LimitadorError) -> Status {
    Status::unavailable(error.to_string())
}
