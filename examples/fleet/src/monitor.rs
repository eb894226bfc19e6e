//! The live page and the metrics of the fleet: `/` and `/metrics`.

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use leaparray::Registry;
use leaparray_redis::{FleetCollector, FleetReader};
use leaparray_web::{Access, Closer, Page, Token};
use prometheus_client::encoding::text::encode;
use tokio::net::TcpListener;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A server on loopback, which ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Monitor {
    address: SocketAddr,
    token: Token,
    closer: Closer,
}

impl Monitor {
    /// Serves what the reader has read, on a free port.
    pub(crate) async fn start(reader: &Arc<FleetReader>) -> Result<Self, Box<dyn Error>> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let mut metrics = prometheus_client::registry::Registry::default();
        metrics.register_collector(Box::new(FleetCollector::new(Arc::clone(reader))));
        let text = move || {
            let mut text = String::new();
            encode(&mut text, &metrics).expect("a string takes any text");
            text
        };
        let reader = Arc::clone(reader);
        // This process handles no requests: the page has the fleet only.
        let token = Token::random();
        let page = Page::new(Arc::new(Registry::new()), Access::token(&token))
            .name("fleet")
            .fleet(move || Some(reader.to_web()))
            .metrics(OPEN_METRICS, text);
        let closer = page.closer();
        tokio::spawn(page.serve(listener));
        Ok(Self { address, token, closer })
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The token, without which there is the page, but no data.
    pub(crate) const fn token(&self) -> &Token {
        &self.token
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.closer.close();
    }
}
