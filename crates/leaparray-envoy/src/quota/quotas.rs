//! All budgets and streams.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use leaparray::Timestamp;

use super::budget::{Budget, Order, Share};
use super::config::QuotaConfig;
use super::messages::{
    Action, BucketId, BucketLimit, QuotaCounts, Refused, ShareAsk, StreamId, Usage,
};
use super::strategy::Strategy;

/// The budgets of all streams: see the [module](self::super).
///
/// Times only grow; an earlier `now` counts as one that was given.
///
/// ```
/// use leaparray::Timestamp;
/// use leaparray_envoy::quota::{
///     Action, BucketId, BucketLimit, QuotaConfig, Quotas, Strategy, Usage,
/// };
/// use std::time::Duration;
///
/// let limit = BucketLimit::Requests { requests: 100, window: Duration::from_secs(1) };
/// let mut quotas = Quotas::new(QuotaConfig::default());
/// let now = Timestamp::from_secs(60);
/// let stream = quotas.open().unwrap();
/// let usage = Usage { bucket: BucketId::new([("path", "/orders")]), allowed: 0, denied: 1 };
/// let actions = quotas.report(stream, "shop", [usage], now, &|_, _| limit)?;
/// let [(to, Action::Assign { strategy, .. })] = &actions[..] else { panic!("{actions:?}") };
/// assert_eq!(*to, stream);
/// // 2 at once, and 98 in a second.
/// let Strategy::TokenBucket { max_tokens, .. } = *strategy else { panic!("{strategy:?}") };
/// assert_eq!(max_tokens, 2);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Quotas {
    config: QuotaConfig,
    budgets: HashMap<Key, Entry>,
    streams: HashMap<StreamId, Stream>,
    next_stream: u64,
    subscriptions: usize,
    counts: QuotaCounts,
    now: Timestamp,
    shared: bool,
}

/// A domain and a bucket.
type Key = (Arc<str>, BucketId);

#[derive(Debug)]
enum Entry {
    Unlimited { streams: BTreeMap<StreamId, Timestamp> },
    Limited(Budget),
}

#[derive(Debug, Default)]
struct Stream {
    domain: Option<Arc<str>>,
    buckets: BTreeSet<BucketId>,
}

impl Quotas {
    /// Creates the state, without streams.
    #[must_use]
    pub fn new(config: QuotaConfig) -> Self {
        Self {
            config,
            budgets: HashMap::new(),
            streams: HashMap::new(),
            next_stream: 0,
            subscriptions: 0,
            counts: QuotaCounts::default(),
            now: Timestamp::from_nanos(0),
            shared: false,
        }
    }

    /// Creates the state of one of several instances. A budget has nothing until it gets a
    /// [share](Self::set_share) from the store of all instances.
    #[must_use]
    pub fn with_shares(config: QuotaConfig) -> Self {
        Self { shared: true, ..Self::new(config) }
    }

    /// Returns what each budget with clients asks of the store.
    #[must_use]
    pub fn asks(&self, now: Timestamp) -> Vec<ShareAsk> {
        let asks = self.budgets.iter().filter_map(|((domain, bucket), entry)| {
            let Entry::Limited(budget) = entry else { return None };
            let (least, wanted) = budget.wanted(now, &self.config);
            let lasts = self.config.ttl + self.config.delivery + budget.window();
            budget.is_used().then(|| ShareAsk {
                domain: Arc::clone(domain),
                bucket: bucket.clone(),
                limit: budget.whole(),
                window: budget.window(),
                least,
                wanted,
                lasts,
            })
        });
        asks.collect()
    }

    /// Gives a budget the share that answers an ask: `units` requests in an interval, until
    /// `until`, in place of the share before. The share before must not be given to another
    /// instance before its own end.
    ///
    /// The budget makes its assignments smaller, until they are charged `goal`. With fewer units
    /// than are charged, it would send none.
    ///
    /// If the limit has become lower since the ask, the budget has the same part of it. A share of
    /// another interval is ignored.
    pub fn set_share(&mut self, ask: &ShareAsk, units: u64, goal: u64, until: Timestamp) {
        let key = (Arc::clone(&ask.domain), ask.bucket.clone());
        if let Some(Entry::Limited(budget)) = self.budgets.get_mut(&key)
            && budget.window() == ask.window
        {
            budget.set_share(Share { units, goal, until }.lowered(ask.limit, budget.whole()));
        }
    }

    /// Opens a stream.
    ///
    /// # Errors
    ///
    /// Returns [`Refused::Streams`] if there are too many.
    pub fn open(&mut self) -> Result<StreamId, Refused> {
        if self.streams.len() >= self.config.max_streams {
            self.counts.refused += 1;
            return Err(Refused::Streams(self.config.max_streams));
        }
        let id = StreamId(self.next_stream);
        self.next_stream += 1;
        self.streams.insert(id, Stream::default());
        Ok(id)
    }

    /// Takes a report. Returns what to send, and to whom. `limit_of` returns the limit of a bucket
    /// of a domain; it is asked once for each budget, and again by [`reload`](Self::reload).
    ///
    /// # Errors
    ///
    /// Returns why the report is refused. Nothing of it is taken then, and the caller ends the
    /// stream.
    pub fn report(
        &mut self,
        stream: StreamId,
        domain: &str,
        usages: impl IntoIterator<Item = Usage>,
        now: Timestamp,
        limit_of: &dyn Fn(&str, &BucketId) -> BucketLimit,
    ) -> Result<Vec<(StreamId, Action)>, Refused> {
        let result = self.try_report(stream, domain, usages, now, limit_of);
        self.counts.refused += u64::from(result.is_err());
        result
    }

    fn try_report(
        &mut self,
        id: StreamId,
        domain: &str,
        usages: impl IntoIterator<Item = Usage>,
        now: Timestamp,
        limit_of: &dyn Fn(&str, &BucketId) -> BucketLimit,
    ) -> Result<Vec<(StreamId, Action)>, Refused> {
        self.now = self.now.max(now);
        let now = self.now;
        let stream = self.streams.get_mut(&id).ok_or(Refused::Closed)?;
        let domain = match &stream.domain {
            Some(known) if domain.is_empty() || domain == &**known => Arc::clone(known),
            Some(known) => return Err(Refused::OtherDomain(known.to_string())),
            None if domain.is_empty() => return Err(Refused::NoDomain),
            None => Arc::from(domain),
        };
        let usages: Vec<_> = usages.into_iter().collect();
        for usage in &usages {
            match usage.bucket.bytes() {
                None => return Err(Refused::EmptyBucket),
                Some(bytes) if bytes > BucketId::MAX_BYTES => return Err(Refused::LargeBucket),
                Some(_) => {}
            }
        }
        let is_new = |it: &&Usage| !stream.buckets.contains(&it.bucket);
        let new = usages.iter().filter(is_new).map(|it| it.bucket.clone());
        let new: BTreeSet<_> = new.collect();
        if self.subscriptions + new.len() > self.config.max_subscriptions {
            return Err(Refused::Subscriptions(self.config.max_subscriptions));
        }
        // A budget outlives its streams until its charges have ended.
        let max = self.config.max_subscriptions.saturating_mul(2);
        let is_unknown =
            |it: &&BucketId| !self.budgets.contains_key(&(Arc::clone(&domain), (*it).clone()));
        let unknown = new.iter().filter(is_unknown).count();
        if unknown > 0 && self.budgets.len() + unknown > max {
            return Err(Refused::Budgets(max));
        }
        self.subscriptions += new.len();
        stream.domain = Some(Arc::clone(&domain));
        stream.buckets.extend(new);
        let mut actions = Vec::new();
        for Usage { bucket, allowed, denied } in usages {
            self.counts.reports += 1;
            self.counts.allowed = self.counts.allowed.saturating_add(allowed);
            self.counts.denied = self.counts.denied.saturating_add(denied);
            let key = (Arc::clone(&domain), bucket.clone());
            let entry = self.budgets.entry(key);
            let entry =
                entry.or_insert_with(|| Entry::new(limit_of(&domain, &bucket), self.shared));
            let requests = allowed.saturating_add(denied);
            let order = match entry {
                Entry::Limited(budget) => budget.report(id, requests, now, &self.config),
                Entry::Unlimited { streams } => match streams.insert(id, now) {
                    Some(_) => None,
                    None => Some(Order::Assign(Strategy::AllowAll)),
                },
            };
            actions.extend(order.map(|it| (id, it.of(bucket, &self.config))));
        }
        self.counts.assignments += actions.len() as u64;
        Ok(actions)
    }

    /// Returns what to send, and to whom, in the order of the streams. Call it a few times in a
    /// second: shares follow the demand, and assignments are sent again, only by this.
    pub fn tick(&mut self, now: Timestamp) -> Vec<(StreamId, Action)> {
        self.now = self.now.max(now);
        let now = self.now;
        let mut actions = Vec::new();
        for ((_, bucket), entry) in &mut self.budgets {
            let orders = match entry {
                Entry::Limited(budget) => budget.plan(now, &self.config),
                Entry::Unlimited { streams } => {
                    let is_due =
                        |sent: Timestamp| now.saturating_since(sent) >= self.config.ttl / 2;
                    let due = streams.iter_mut().filter(|(_, sent)| is_due(**sent));
                    due.map(|(&stream, sent)| {
                        *sent = now;
                        (stream, Order::Assign(Strategy::AllowAll))
                    })
                    .collect()
                }
            };
            for (stream, order) in orders {
                match order {
                    Order::Assign(_) => self.counts.assignments += 1,
                    Order::Abandon => {
                        self.counts.abandoned += 1;
                        self.subscriptions -= 1;
                        if let Some(stream) = self.streams.get_mut(&stream) {
                            stream.buckets.remove(bucket);
                        }
                    }
                }
                actions.push((stream, order.of(bucket.clone(), &self.config)));
            }
        }
        self.budgets.retain(|_, it| !it.is_over());
        actions.sort_by_key(|&(stream, _)| stream);
        actions
    }

    /// Closes a stream. Its assignments are free for the others once they have ended.
    pub fn close(&mut self, stream: StreamId) {
        let Some(Stream { domain: Some(domain), buckets }) = self.streams.remove(&stream) else {
            return;
        };
        self.subscriptions -= buckets.len();
        for bucket in buckets {
            match self.budgets.get_mut(&(Arc::clone(&domain), bucket)) {
                Some(Entry::Limited(budget)) => budget.remove(stream, &self.config),
                Some(Entry::Unlimited { streams }) => drop(streams.remove(&stream)),
                None => {}
            }
        }
    }

    /// Asks for the limit of each budget again, after a change of the configuration. A lower limit
    /// is in force when what was assigned by the higher one has ended. If the interval of a budget
    /// changes, or it gets or loses its limit, its clients get new assignments after their next
    /// reports. A client that had no limit admits all requests until its assignment has ended.
    pub fn reload(&mut self, limit_of: &dyn Fn(&str, &BucketId) -> BucketLimit) {
        for ((domain, bucket), entry) in &mut self.budgets {
            match (limit_of(domain, bucket), &mut *entry) {
                (BucketLimit::Unlimited, Entry::Unlimited { .. }) => {}
                (BucketLimit::Requests { requests, window }, Entry::Limited(budget))
                    if budget.window() == whole_seconds(window) =>
                {
                    budget.set_limit(requests.into());
                }
                (BucketLimit::Requests { requests, window }, Entry::Limited(old)) => {
                    let (limit, window) = (requests.into(), whole_seconds(window));
                    *old = Budget::in_place_of(old, limit, window, self.now, &self.config);
                }
                (limit, entry) => *entry = Entry::new(limit, self.shared),
            }
        }
    }

    /// Returns the counts.
    #[must_use]
    pub fn counts(&self) -> QuotaCounts {
        let (streams, budgets) = (self.streams.len(), self.budgets.len());
        QuotaCounts { streams, budgets, subscriptions: self.subscriptions, ..self.counts }
    }

    /// Returns what is charged to the budget of a bucket at the last time that was given; at most
    /// its limit.
    #[must_use]
    pub fn charged(&self, domain: &str, bucket: &BucketId) -> u64 {
        match self.budgets.get(&(Arc::from(domain), bucket.clone())) {
            Some(Entry::Limited(budget)) => budget.charged(),
            _ => 0,
        }
    }
}

impl Entry {
    fn new(limit: BucketLimit, shared: bool) -> Self {
        match limit {
            BucketLimit::Unlimited => Self::Unlimited { streams: BTreeMap::new() },
            BucketLimit::Requests { requests, window } => {
                Self::Limited(Budget::new(requests.into(), whole_seconds(window), shared))
            }
        }
    }

    fn is_over(&self) -> bool {
        match self {
            Self::Unlimited { streams } => streams.is_empty(),
            Self::Limited(budget) => budget.is_over(),
        }
    }
}

impl Order {
    const fn of(self, bucket: BucketId, config: &QuotaConfig) -> Action {
        match self {
            Self::Assign(strategy) => Action::Assign { bucket, strategy, ttl: config.ttl() },
            Self::Abandon => Action::Abandon { bucket },
        }
    }
}

/// Returns the whole seconds, at least one.
fn whole_seconds(window: Duration) -> Duration {
    Duration::from_secs(window.as_secs().max(1))
}
