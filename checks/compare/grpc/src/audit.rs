//! The requests that are admitted in the fullest second.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::Code;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient;

use crate::Result;
use crate::fleet::{Kind, Redis, Server};
use crate::load::request;

/// The limit in a second.
pub(crate) const LIMIT: u32 = 1_000;

/// The time of the load.
const TIME: Duration = Duration::from_secs(5);

/// The requests of an instance that are in flight at once.
const AT_ONCE: usize = 16;

/// When an admitted request was sent and answered.
type Use = (Instant, Instant);

/// Returns whether a server admits a request.
#[tokio::main(flavor = "current_thread")]
pub(crate) async fn is_admitted(port: u16) -> Result<bool> {
    let mut client = RateLimitServiceClient::connect(format!("http://127.0.0.1:{port}")).await?;
    let answer = client.should_rate_limit(request("client-7")).await?;
    Ok(answer.into_inner().overall_code() == Code::Ok)
}

/// Asks for far more than the limit, and returns how many requests were certainly admitted within a
/// second: the admitted requests that were sent and answered in it.
pub(crate) fn fullest_second(kind: Kind, folder: &Path) -> Result<usize> {
    let redis = Redis::start(folder)?;
    let instances = if kind.is_over_redis() { 2 } else { 1 };
    let servers: Vec<Server> =
        (0..instances).map(|_| Server::start(kind, &redis, LIMIT)).collect::<Result<_>>()?;
    for server in &servers {
        server.wait_until_it_admits()?;
    }
    let mut uses = ask(servers.iter().map(|it| it.port))?;
    uses.sort_unstable();
    let fullest = uses.iter().enumerate().map(|(index, (start, _))| {
        let end = *start + Duration::from_secs(1);
        let within = uses[index..].iter().take_while(|(start, _)| *start < end);
        within.filter(|(_, answered)| *answered < end).count()
    });
    Ok(fullest.max().unwrap_or(0))
}

#[tokio::main]
async fn ask(ports: impl Iterator<Item = u16>) -> Result<Vec<Use>> {
    let uses = Arc::new(Mutex::new(Vec::new()));
    let end = Instant::now() + TIME;
    let mut tasks = Vec::new();
    for port in ports {
        let client = RateLimitServiceClient::connect(format!("http://127.0.0.1:{port}")).await?;
        for _ in 0..AT_ONCE {
            let (mut client, uses) = (client.clone(), Arc::clone(&uses));
            tasks.push(tokio::spawn(async move {
                while Instant::now() < end {
                    let start = Instant::now();
                    let answer = client.should_rate_limit(request("client-7")).await;
                    // An error admits nothing.
                    let Ok(answer) = answer else { continue };
                    if answer.into_inner().overall_code() == Code::Ok {
                        let mut uses = uses.lock().expect("no task panics with it");
                        uses.push((start, Instant::now()));
                    }
                }
            }));
        }
    }
    for task in tasks {
        task.await?;
    }
    Ok(std::mem::take(&mut *uses.lock().expect("all tasks have ended")))
}
