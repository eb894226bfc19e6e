//! The settings of quotas.

use std::time::Duration;

/// The settings of [`Quotas`](super::Quotas).
///
/// ```
/// use leaparray_envoy::quota::QuotaConfig;
/// use std::time::Duration;
///
/// let config = QuotaConfig::default().with_ttl(Duration::from_millis(2_500));
/// // Envoy takes whole seconds.
/// assert_eq!(config.ttl(), Duration::from_secs(2));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaConfig {
    /// The time to live that was set.
    set_ttl: Duration,
    /// It, or the least one that can be renewed.
    pub(super) ttl: Duration,
    pub(super) delivery: Duration,
    pub(super) silence: Duration,
    pub(super) idle: Duration,
    pub(super) max_streams: usize,
    pub(super) max_subscriptions: usize,
}

impl Default for QuotaConfig {
    /// Assignments of 3 s, that are delivered within a second; 16,384 streams with 65,536 buckets
    /// in all.
    fn default() -> Self {
        Self {
            set_ttl: Duration::from_secs(3),
            ttl: Duration::from_secs(3),
            delivery: Duration::from_secs(1),
            silence: Duration::from_secs(30),
            idle: Duration::from_secs(60),
            max_streams: 1 << 14,
            max_subscriptions: 1 << 16,
        }
    }
}

impl QuotaConfig {
    /// The time in which an assignment is renewed: two plans of the server.
    const RENEWAL: Duration = Duration::from_millis(500);

    /// Sets the time to live of assignments: whole seconds, from one to a day. A fraction of a
    /// second is cut off. The share of a lost client is missing for about so long.
    ///
    /// It is at least half a second longer than the [delivery](Self::with_delivery): an assignment
    /// that may have ended before it is renewed costs a further burst.
    #[must_use]
    pub fn with_ttl(self, ttl: Duration) -> Self {
        Self { set_ttl: Duration::from_secs(ttl.as_secs().clamp(1, 86_400)), ..self }.renewable()
    }

    /// Sets the longest time from when an assignment is sent until the client has applied it: a
    /// millisecond to a minute.
    #[must_use]
    pub fn with_delivery(self, delivery: Duration) -> Self {
        let delivery = delivery.clamp(Duration::from_millis(1), Duration::from_secs(60));
        Self { delivery, ..self }.renewable()
    }

    fn renewable(self) -> Self {
        let least = self.delivery + Self::RENEWAL;
        let seconds = least.as_secs() + u64::from(least.subsec_nanos() > 0);
        Self { ttl: self.set_ttl.max(Duration::from_secs(seconds)), ..self }
    }

    /// The age at which an assignment is sent again: as long before the last moment at which it
    /// certainly has not ended.
    pub(super) fn renewal(&self) -> Duration {
        self.ttl.saturating_sub(self.delivery) / 2
    }

    /// Sets the time after its last report for which a client gets assignments: more than the
    /// longest reporting interval of the clients, which is a setting of Envoy.
    #[must_use]
    pub const fn with_silence(self, silence: Duration) -> Self {
        Self { silence, ..self }
    }

    /// Sets the time after the last request of a client after which its bucket is abandoned.
    #[must_use]
    pub const fn with_idle(self, idle: Duration) -> Self {
        Self { idle, ..self }
    }

    /// Sets how many streams may be open.
    #[must_use]
    pub const fn with_max_streams(self, max_streams: usize) -> Self {
        Self { max_streams, ..self }
    }

    /// Sets how many buckets all streams together may have. There are at most twice as many
    /// budgets, with those of closed streams, which stay until their charges have ended.
    #[must_use]
    pub const fn with_max_subscriptions(self, max_subscriptions: usize) -> Self {
        Self { max_subscriptions, ..self }
    }

    /// Returns the time to live of assignments.
    #[must_use]
    pub const fn ttl(&self) -> Duration {
        self.ttl
    }

    /// Returns the longest time of delivery.
    #[must_use]
    pub const fn delivery(&self) -> Duration {
        self.delivery
    }
}
