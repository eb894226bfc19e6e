//! The page and its stream, by real clients over loopback, with a clock that is set by hand.

mod access;
mod client;
mod counts;
mod document;
mod fleet;
mod limits;
mod program;
mod proxies;
mod resume;
mod rules;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use leaparray::{
    HistogramConfig, ManualClock, NodeConfig, Registry, RegistryConfig, Resource, Timestamp,
};
use leaparray_web::{Access, Closer, Page};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use client::Stream;

const SECOND: Duration = Duration::from_secs(1);

/// A time just before the end of a second: the server reads it 51 ms later.
const START: Timestamp = Timestamp::from_millis(1_000_999);

/// The second of [`START`].
const FIRST: u64 = 1_000;

/// A registry and its page on a listener of its own.
struct Server {
    clock: ManualClock,
    registry: Arc<Registry<ManualClock>>,
    address: SocketAddr,
    closer: Closer,
    task: JoinHandle<std::io::Result<()>>,
}

fn registry() -> (Arc<Registry<ManualClock>>, ManualClock) {
    let clock = ManualClock::new(START);
    let node = NodeConfig::default().with_histogram(HistogramConfig::default());
    let config = RegistryConfig::default().node(node);
    (Arc::new(Registry::with_clock(config, clock.clone())), clock)
}

impl Server {
    async fn start() -> Self {
        Self::with(|page| page).await
    }

    async fn with(configure: impl FnOnce(Page<ManualClock>) -> Page<ManualClock>) -> Self {
        let (registry, clock) = registry();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let page = configure(Page::new(Arc::clone(&registry), Access::anyone()).name("tested"));
        let closer = page.closer();
        let task = tokio::spawn(page.serve(listener));
        Self { clock, registry, address, closer, task }
    }

    fn resource(&self, name: &str) -> Resource<ManualClock> {
        self.registry.resource(name).unwrap()
    }

    async fn lines(&self, query: &str) -> Stream {
        Stream::open(self.address, &format!("/stream{query}"), &[]).await
    }

    async fn events(&self, query: &str, headers: &[(&str, &str)]) -> Stream {
        let accept = [("accept", "text/event-stream")];
        let headers: Vec<_> = accept.into_iter().chain(headers.iter().copied()).collect();
        Stream::open(self.address, &format!("/stream{query}"), &headers).await
    }

    fn end_second(&self) {
        self.clock.advance(SECOND);
    }
}
