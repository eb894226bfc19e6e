//! Decisions: limiters, pacing, warm-up and a breaker.
//!
//! A *controller* decides on each request. It returns a [`Decision`]: the request is
//! [admitted](Decision::Admitted), may go ahead after a [wait](Decision::Wait), or is
//! [refused](Decision::Refused), with a [reason](Reason) and the earliest time at which asking
//! again can succeed.
//!
//! The check and the taking of permits are one atomic step: if threads race for the last permit,
//! one of them gets it, and no permit is taken and then given back, except by an [`AllOf`]. No
//! controller makes its caller wait. A [`Keyed`] limiter decides under a lock, which is held for
//! one decision, and all others decide without one. To wait for a decision that says how long, use
//! [`Decision::sleep`], or [`Delayed::sleep_with`] with the timers of any runtime. To wait for a
//! permit, in turn with other requests and up to a timeout, put the limiter into a [`WaitQueue`].
//!
//! | to | use |
//! |---|---|
//! | limit the requests of any interval | [`SlidingWindowLimiter`] |
//! | limit the requests from one full interval to the next | [`FixedWindowLimiter`] |
//! | space requests evenly | [`LeakyBucket`] |
//! | admit at a rate, and bursts up to a size | [`TokenBucket`] |
//! | let a cold service warm up | [`WarmUp`] |
//! | limit the requests in flight | [`ConcurrencyLimiter`] |
//! | limit the requests in flight to what a backend can serve | [`AdaptiveLimiter`] |
//! | limit each client, tenant or address | [`Keyed`] |
//! | wait for any of them, in turn | [`WaitQueue`] |
//! | drop requests that a failing backend would reject | [`AdaptiveBreaker`] |
//! | refuse all requests while a backend fails, and probe it | [`CircuitBreaker`] |
//! | bound retries by a share of the requests | [`budget`] |
//! | let classes of requests give way to each other | [`priority`] |
//! | give tenants fair shares of a limit in flight | [`shares`] |
//! | combine limiters: all of them, or none | [`AllOf`] |
//! | limit a cost that is known only afterwards | [`settle::CostLimiter`] |
//! | try a limit before it is enforced | [`shadow::Shadow`] |
//! | keep values of your own, bucket by bucket | [`RollingWindow`](crate::rolling_window::RollingWindow) |
//!
//! Every time is a [`Timestamp`](crate::Timestamp) of one clock, and every operation has a form
//! that takes the time. Give a controller the clock of the registry or of the nodes that it limits:
//! with `new`, all of them have the one [`MonotonicClock`](crate::MonotonicClock) of the process.
//!
//! A request may have a stale `now`, because its thread has stalled. A limiter with a window
//! decides on such a request in the newest bucket for which any thread has asked. A leaky bucket or
//! a token bucket compares `now` with its own stored time, which is then further ahead. An adaptive
//! breaker uses `now` as it is. A circuit breaker bounds the times of its transitions and probes by
//! its lead.
//!
//! # Changes in place
//!
//! Every controller is changed while other threads ask it, by `reconfigure`. It takes what `new`
//! takes, without the parts that cannot change, and it returns the error that `new` returns. Where
//! the result depends on the time, there is also `reconfigure_at`. A combination of limiters has no
//! settings of its own: its parts are changed. Other settings have verbs of their own:
//! the mode of a [`shadow::Shadow`] is changed by `set_mode`, and a key of a [`Keyed`] limiter gets
//! settings of its own by `set_own_limit`.
//!
//! - Nothing is forgotten: permits that were taken stay taken, and a breaker stays open.
//! - Nothing is forgiven: a change gives no permits that a limiter with the new settings from the
//!   beginning would not give.
//! - A decision that begins after the change is by the new settings. One beside it is by the former
//!   or by the new ones, never by a mixture.
//! - No decision waits for a change, except where decisions are made under a lock: those of
//!   [`Keyed`] limiters and of a [`settle::CostLimiter`]. Threads that change the settings at the
//!   same time take turns.

pub mod budget;
mod combined;
mod contract;
mod feedback;
pub mod keyed;
mod limiters;
mod permits;
pub mod priority;
#[cfg(feature = "serde")]
mod serde_config;
mod share;
pub mod shares;
pub mod watch;

pub use crate::node::Reason;
#[doc(hidden)]
pub use combined::Outlook;
pub use combined::{AllOf, QueuePermit, WaitQueue};
pub use combined::{settle, shadow};
pub use contract::{
    Account, Ask, BoxLimiter, BoxPermit, Decision, Delayed, LimitError, Limiter, LimiterExt, Named,
    Passed, Quota, QuotaUnit, Rate, RateError, Refusal, Retry,
};
pub use feedback::adaptive::{self, AdaptiveLimiter};
pub use feedback::breaker::{self, AdaptiveBreaker};
pub use feedback::circuit::{self, CircuitBreaker, CircuitConfig};
pub use feedback::{Feedback, FeedbackPermit};
pub use keyed::Keyed;
pub use limiters::{
    ConcurrencyLimiter, ConcurrencyPermit, FixedWindowLimiter, LeakyBucket, SlidingWindowLimiter,
    TokenBucket, WarmUp, WarmUpConfig, WarmUpError,
};
pub use permits::BucketPermits;
