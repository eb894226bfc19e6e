//! Quotas: limits that Envoy decides on by itself (RLQS), as a state machine without input and
//! output.
//!
//! A client, such as an Envoy, opens a stream and reports what it has admitted and refused in its
//! *buckets*. The server answers with *assignments*: a token bucket, and a time to live. The client
//! decides each request by its assignment, without a question to the server.
//!
//! # The promise
//!
//! A budget is a limit of L requests in any interval of length W. All clients of a budget together
//! admit at most L requests in any interval of that length, by the time of the server, under two
//! assumptions:
//!
//! - An assignment that was sent is applied within the [delivery
//!   time](QuotaConfig::with_delivery) δ, or never. The time to live T begins when it is applied.
//! - A client without an assignment admits nothing: in Envoy, `no_assignment_behavior` and
//!   `expired_assignment_behavior` are `DENY_ALL`. Requests that it admits otherwise are beyond the
//!   limit.
//!
//! A stream delivers its messages in order, and none after one that is lost, as gRPC does. The
//! promise holds whichever streams break, and whether clients report or not: reports only say who
//! gets how much.
//!
//! # Why it holds
//!
//! An assignment has b tokens of burst and a rate r = (q + 1 − ε) / W, for whole numbers b and q.
//! While only it is in force, the client admits at most ⌊b + r W⌋ = b + q in an interval of length
//! W. It is in force until T + δ after it was sent, at most: its *end*. If several assignments
//! are in force one after another within such an interval, the client admits at most the sum of
//! their b, since each begins with a full bucket, and the largest q.
//!
//! The server charges each assignment with b + q until its end + W. So at each time, the charges of
//! a client cover each assignment that was in force in the interval of length W that ends there.
//! When an assignment replaces another one, the server charges b and the part of q beyond the q
//! of the other one. The b of the other one, and the part of its q beyond the new q, are charged
//! until its own end + W, and not less: the new assignment may be lost with the stream, and the
//! client then keeps the old one. So the q that are charged are never less than the largest of
//! them.
//!
//! The server sends an assignment only if the sum of all charges is then at most L. The charges of
//! a client never fall below what it can have admitted, so the sum of what all have admitted
//! is at most L.
//!
//! An assignment that is sent again extends the time to live of the one in force. Envoy keeps the
//! tokens then, if it still has the assignment. If it may have ended, the new one is charged with a
//! burst of its own.
//!
//! # Several instances
//!
//! With [`Quotas::with_shares`], the limit of a budget is divided among instances by a store. An
//! instance has a share of some requests until a given time, and renews it before that. It sends an
//! assignment only if the charges of it end by then. So the charges of all instances together are
//! at most the sum of their shares, which is at most L. The share of an instance that is lost is
//! free for the others once it has ended.
//!
//! # Who gets how much
//!
//! - The shares are max-min fair by the reported demand. The rest of the limit is shared in
//!   proportion to the demand.
//! - A client that reports no requests keeps one request, so that its next one finds a permit, as
//!   long as the others leave one. After the [idle time](QuotaConfig::with_idle) its bucket is
//!   abandoned, and its client subscribes again with its next request.
//! - A client that no longer reports gets no further assignments after the [time of
//!   silence](QuotaConfig::with_silence).
//! - If there are more clients with demand than requests in L, they take turns.
//! - The requests that a client gives up, or had when it was lost, are free for the others W after
//!   the end of its assignment: after at most T + δ + W.
//!
//! # What Envoy does
//!
//! Observed with Envoy 1.40. `requests_per_time_unit` is not implemented: such an assignment is
//! ignored. A token bucket begins full, or as full as the one that it replaces, and fills evenly by
//! `tokens_per_fill` ÷ `fill_interval`, whatever the interval is, of which it takes whole seconds
//! only; so a rate is written here as tokens in a long interval. The same holds for the time to
//! live. Two token buckets are the same if `max_tokens`, `tokens_per_fill` and the *nanoseconds* of
//! `fill_interval` are, so the nanoseconds say here what W is. `time_elapsed` of a report has whole
//! seconds only, so the server measures the time itself.

mod budget;
mod charges;
mod config;
mod messages;
mod quotas;
mod shares;
mod strategy;

pub use config::QuotaConfig;
pub use messages::{
    Action, BucketId, BucketLimit, QuotaCounts, Refused, ShareAsk, StreamId, Usage,
};
pub use quotas::Quotas;
pub use strategy::Strategy;
