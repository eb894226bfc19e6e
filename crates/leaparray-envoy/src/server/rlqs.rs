//! RLQS: the streams around [`Quotas`].

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use envoy_types::pb::envoy::service::rate_limit_quota::v3 as pb;
use leaparray::Timestamp;
use pb::rate_limit_quota_service_server::RateLimitQuotaService;
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;
use tonic::codegen::tokio_stream::Stream;
use tonic::{Request, Response, Status, Streaming};

use super::convert;
#[cfg(feature = "redis")]
use crate::quota::ShareAsk;
use crate::quota::{
    Action, BucketId, BucketLimit, QuotaConfig, QuotaCounts, Quotas, Refused, StreamId,
};
use crate::service::{EntryLimit, Service};

/// The time between two plans.
const TICK: Duration = Duration::from_millis(250);

/// The messages to a client that are not sent yet. A client that does not read them is given up.
const QUEUE: usize = 16;

/// The longest bucket whose entries are tried in each order.
const MAX_ORDERED: usize = 5;

/// The service of RLQS. Clones are cheap.
#[derive(Clone, Debug)]
pub(super) struct QuotaServer {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    service: Service,
    config: QuotaConfig,
}

#[derive(Debug)]
struct State {
    quotas: Quotas,
    outboxes: HashMap<StreamId, mpsc::Sender<Message>>,
}

/// A message to a client, with the time at which it was decided.
type Message = Result<(Timestamp, pb::RateLimitQuotaResponse), Status>;

impl QuotaServer {
    /// Creates the service, of an instance that is alone, or that gets shares.
    pub(super) fn new(config: QuotaConfig, service: Service, is_alone: bool) -> Self {
        let quotas = if is_alone { Quotas::new(config) } else { Quotas::with_shares(config) };
        let state = State { quotas, outboxes: HashMap::new() };
        Self { inner: Arc::new(Inner { state: Mutex::new(state), service, config }) }
    }

    /// Plans again and again.
    pub(super) async fn run(&self) {
        let mut interval = tokio::time::interval(TICK);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            interval.tick().await;
            let mut state = self.inner.lock();
            let now = self.inner.service.now();
            let actions = state.quotas.tick(now);
            state.send(now, actions);
        }
    }

    /// Takes the limits of a new configuration.
    pub(super) fn reload(&self) {
        self.inner.lock().quotas.reload(&|domain, bucket| self.inner.limit(domain, bucket));
    }

    #[cfg(feature = "redis")]
    pub(super) fn asks(&self) -> Vec<ShareAsk> {
        let now = self.now();
        self.inner.lock().quotas.asks(now)
    }

    #[cfg(feature = "redis")]
    pub(super) fn set_share(&self, ask: &ShareAsk, units: u64, goal: u64, until: Timestamp) {
        self.inner.lock().quotas.set_share(ask, units, goal, until);
    }

    #[cfg(feature = "redis")]
    pub(super) fn now(&self) -> Timestamp {
        self.inner.service.now()
    }

    /// Ends all streams, so that their clients go to another instance.
    pub(super) fn stop(&self) {
        for outbox in self.inner.lock().outboxes.values() {
            let _ = outbox.try_send(Err(Status::unavailable("the service stops")));
        }
    }

    pub(super) fn counts(&self) -> QuotaCounts {
        self.inner.lock().quotas.counts()
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the limit of a bucket: that of the descriptor with these entries, in the order in
    /// which the tree has them. The entries of a bucket have none. A limit in the shadow refuses
    /// nothing.
    fn limit(&self, domain: &str, bucket: &BucketId) -> BucketLimit {
        let mut entries = bucket.entries().to_vec();
        let count = if entries.len() > MAX_ORDERED { 1 } else { (1..=entries.len()).product() };
        for number in 0..count {
            match self.service.limit(domain, &entries) {
                Some(EntryLimit::Enforced { requests, unit }) => {
                    return BucketLimit::Requests { requests, window: unit.interval() };
                }
                Some(EntryLimit::Open) => return BucketLimit::Unlimited,
                None => {}
            }
            permute(&mut entries, number + 1);
        }
        BucketLimit::Unlimited
    }

    /// Takes a report, and sends what follows from it.
    fn report(
        &self,
        stream: StreamId,
        message: pb::RateLimitQuotaUsageReports,
    ) -> Result<(), Refused> {
        let usages = convert::usages(message.bucket_quota_usages);
        let mut state = self.lock();
        let now = self.service.now();
        let limit_of = |domain: &str, bucket: &BucketId| self.limit(domain, bucket);
        let actions = state.quotas.report(stream, &message.domain, usages, now, &limit_of)?;
        state.send(now, actions);
        Ok(())
    }
}

/// Makes the next of all orders: number k of n! swaps two elements (factorial number system, as in
/// Heap's algorithm).
fn permute<T>(elements: &mut [T], number: usize) {
    let (mut rest, mut index) = (number, 1);
    while index < elements.len() && rest.is_multiple_of(index + 1) {
        rest /= index + 1;
        index += 1;
    }
    if index < elements.len() {
        let other = if index.is_multiple_of(2) { 0 } else { rest % (index + 1) - 1 };
        elements.swap(index, other);
    }
}

impl State {
    /// Sends actions, which are in the order of the streams, in one message for each.
    fn send(&mut self, now: Timestamp, actions: Vec<(StreamId, Action)>) {
        let mut actions = actions.into_iter().peekable();
        while let Some((stream, action)) = actions.next() {
            let mut bucket_action = vec![convert::action(action)];
            while let Some((_, action)) = actions.next_if(|(next, _)| *next == stream) {
                bucket_action.push(convert::action(action));
            }
            let message = (now, pb::RateLimitQuotaResponse { bucket_action });
            let Some(outbox) = self.outboxes.get(&stream) else { continue };
            // A client that does not read ends.
            if outbox.try_send(Ok(message)).is_err() {
                self.outboxes.remove(&stream);
                self.quotas.close(stream);
            }
        }
    }
}

/// A stream that is closed when this is dropped.
struct Opened {
    inner: Arc<Inner>,
    stream: StreamId,
}

impl Drop for Opened {
    fn drop(&mut self) {
        let mut state = self.inner.lock();
        state.outboxes.remove(&self.stream);
        state.quotas.close(self.stream);
    }
}

/// The messages to a client.
pub(super) struct Outbox {
    messages: mpsc::Receiver<Message>,
    inner: Arc<Inner>,
}

impl Stream for Outbox {
    type Item = Result<pb::RateLimitQuotaResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let message = ready!(self.messages.poll_recv(context));
        let now = self.inner.service.now();
        let late = self.inner.config.delivery() / 2;
        Poll::Ready(message.map(|message| {
            let (sent, response) = message?;
            // It could be applied after the time for which it is charged.
            if now.saturating_since(sent) > late {
                self.messages.close();
                return Err(Status::unavailable("the client reads too slowly"));
            }
            Ok(response)
        }))
    }
}

#[tonic::async_trait]
impl RateLimitQuotaService for QuotaServer {
    type StreamRateLimitQuotasStream = Outbox;

    async fn stream_rate_limit_quotas(
        &self,
        request: Request<Streaming<pb::RateLimitQuotaUsageReports>>,
    ) -> Result<Response<Outbox>, Status> {
        let inner = &self.inner;
        let (sender, messages) = mpsc::channel(QUEUE);
        let opened = {
            let mut state = inner.lock();
            let stream = state.quotas.open();
            let stream = stream.map_err(|it| Status::resource_exhausted(it.to_string()))?;
            state.outboxes.insert(stream, sender.clone());
            Opened { inner: Arc::clone(inner), stream }
        };
        tokio::spawn(async move {
            let mut reports = request.into_inner();
            loop {
                let report = tokio::select! {
                    report = reports.message() => report,
                    () = sender.closed() => return,
                };
                let report = match report {
                    Ok(Some(report)) => report,
                    Ok(None) => return,
                    // Such as a report that is too long.
                    Err(status) => {
                        let _ = sender.try_send(Err(status));
                        return;
                    }
                };
                let result = opened.inner.report(opened.stream, report);
                if let Err(refused) = result {
                    let text = refused.to_string();
                    let status = match refused {
                        Refused::Subscriptions(_) | Refused::Budgets(_) => {
                            Status::resource_exhausted(text)
                        }
                        Refused::Closed => Status::unavailable("the client reads too slowly"),
                        _ => Status::invalid_argument(text),
                    };
                    let _ = sender.try_send(Err(status));
                    return;
                }
            }
        });
        Ok(Response::new(Outbox { messages, inner: Arc::clone(inner) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn bucket_has_the_limit_of_its_descriptor_and_none_in_the_shadow() {
        let limit = "rate_limit: { unit: minute, requests_per_unit: 7 }";
        let config = crate::config::Config::from_yaml(&format!(
            "domain: shop\ndescriptors:\n\
             - key: path\n  descriptors:\n  - key: client\n    {limit}\n\
             - key: shadow\n  {limit}\n  shadow_mode: true\n\
             - key: open\n  rate_limit: {{ unlimited: true }}\n"
        ));
        let service = Service::new(&config.unwrap(), &crate::service::Store::Memory);
        let server = QuotaServer::new(QuotaConfig::default(), service, true);
        let limit = |domain: &str, keys: &[&str]| {
            server.inner.limit(domain, &BucketId::new(keys.iter().map(|key| (*key, "a"))))
        };
        let window = Duration::from_secs(60);
        let enforced = BucketLimit::Requests { requests: 7, window };
        assert_eq!(limit("shop", &["client", "path"]), enforced);
        for open in [&["shadow"][..], &["open"], &["path"], &["unknown"]] {
            assert_eq!(limit("shop", open), BucketLimit::Unlimited, "{open:?}");
        }
        assert_eq!(limit("mall", &["client", "path"]), BucketLimit::Unlimited);
        assert_eq!(server.inner.service.keys(), 0, "a look has no state");
    }

    #[test]
    fn each_order_comes_once() {
        for length in 1..=MAX_ORDERED {
            let mut elements: Vec<_> = (0..length).collect();
            let count: usize = (1..=length).product();
            let mut orders = BTreeSet::new();
            for number in 0..count {
                orders.insert(elements.clone());
                permute(&mut elements, number + 1);
            }
            assert_eq!(orders.len(), count);
        }
    }
}
