//! The client: calls every method, and counts how the calls end, without the crate.

use std::collections::HashMap;
use std::error::Error as _;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::http::uri::PathAndQuery;
use leaparray::flow::AdaptiveBreaker;
use leaparray::flow::breaker::AdaptiveBreakerConfig;
use leaparray::{Registry, Resource};
use leaparray_tower::{ByStatus, CallError, Fail, GrpcMethod, PerResource};
use leaparray_tower::{ResourceLayer, ResourceService};
use tokio::task::JoinSet;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint, Error};
use tonic::{Code, Request, Status};
use tower::Layer;

use crate::codec::Number;
use crate::{COUNT, DOUBLE, FAILING, LIMITED, UNKNOWN};

/// How a call ended, as its caller saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Ending {
    Status(Code),
    /// The caller dropped the stream before its end.
    Dropped,
    /// The breaker of the client refused the call.
    Refused,
}

/// The number of calls of each method for each ending.
pub(crate) type Tally = HashMap<(&'static str, Ending), u64>;

type Breakers = PerResource<fn(&Resource) -> Option<Arc<AdaptiveBreaker>>>;
type Client = Grpc<ResourceService<Channel, GrpcMethod, ByStatus, Breakers, Fail>>;

/// Makes `rounds` rounds of six calls in each of `tasks` tasks, over one connection. Returns the
/// counts of all.
pub(crate) async fn call(
    address: SocketAddr,
    registry: &Arc<Registry>,
    tasks: u64,
    rounds: u64,
) -> Result<Tally, Box<dyn std::error::Error>> {
    let layer = ResourceLayer::outbound(Arc::clone(registry), GrpcMethod)?;
    // Each method has a breaker, which refuses calls by chance while fewer than one in 1.2
    // succeeds.
    let breaker: fn(&Resource) -> _ = |resource| {
        let config = AdaptiveBreakerConfig::default().k(1.2).expect("1.2 is above 1");
        Some(Arc::new(AdaptiveBreaker::with_clock(config, resource.clock().clone())))
    };
    let layer = layer.limit_each(breaker).refuse(Fail);
    let channel = Endpoint::from_shared(format!("http://{address}"))?.connect().await?;
    let client = Grpc::new(layer.layer(channel));
    let drive = |task| drive(client.clone(), task * rounds..(task + 1) * rounds);
    let mut sum = Tally::new();
    for tally in (0..tasks).map(drive).collect::<JoinSet<_>>().join_all().await {
        for (key, calls) in tally {
            *sum.entry(key).or_default() += calls;
        }
    }
    Ok(sum)
}

async fn drive(mut client: Client, rounds: std::ops::Range<u64>) -> Tally {
    let mut tally = Tally::new();
    for round in rounds {
        // Like a scanner, each call of an unknown method has another name.
        let unknown = format!("{UNKNOWN}{round}");
        let endings = [
            (DOUBLE, unary(&mut client, DOUBLE).await),
            (FAILING, unary(&mut client, FAILING).await),
            (LIMITED, unary(&mut client, LIMITED).await),
            (UNKNOWN, unary(&mut client, &unknown).await),
            (COUNT, read(&mut client, 3, u64::MAX).await),
            // The client drops the stream after three messages.
            (COUNT, read(&mut client, u64::MAX, 3).await),
        ];
        for (method, ending) in endings {
            let ending = ending.unwrap_or_else(|status| ending_of(&status));
            *tally.entry((method, ending)).or_default() += 1;
        }
    }
    tally
}

async fn unary(client: &mut Client, method: &str) -> Result<Ending, Status> {
    client.ready().await.map_err(|error| Status::from_error(error.into()))?;
    let path = method.parse::<PathAndQuery>().expect("a path");
    client.unary::<u64, u64, _>(Request::new(21), path, Number).await?;
    Ok(Ending::Status(Code::Ok))
}

/// Calls for a stream of `length` messages, and reads at most `most` of them.
async fn read(client: &mut Client, length: u64, most: u64) -> Result<Ending, Status> {
    client.ready().await.map_err(|error| Status::from_error(error.into()))?;
    let path = PathAndQuery::from_static(COUNT);
    let response = client.server_streaming(Request::new(length), path, Number).await?;
    let mut numbers = response.into_inner();
    for _ in 0..most {
        let number: Option<u64> = numbers.message().await?;
        if number.is_none() {
            return Ok(Ending::Status(Code::Ok));
        }
    }
    Ok(Ending::Dropped)
}

fn ending_of(status: &Status) -> Ending {
    match status.source().and_then(|source| source.downcast_ref()) {
        Some(CallError::<Error>::Refused(_)) => Ending::Refused,
        _ => Ending::Status(status.code()),
    }
}
