#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
// On docs.rs, which compiles with a nightly toolchain: each item says which feature it needs.
#![cfg_attr(docsrs, feature(doc_cfg), doc(auto_cfg(hide(doc, doctest))))]

mod body;
mod class;
mod context;
mod deadline;
mod ending;
#[cfg(feature = "tracing")]
mod events;
mod first_byte;
mod found;
mod future;
mod grpc;
mod hedge;
mod in_flight;
mod lanes;
mod layer;
mod limit;
mod media_type;
mod name;
mod parts;
mod refusal;
mod resources;
#[cfg(feature = "retry")]
mod retry;
mod service;
mod streams;
mod unconfirmed;
mod upload;

pub use body::ResponseBody;
pub use class::{ByHead, ByStatus, Classify, End};
pub use first_byte::FirstByte;
pub use future::{HttpService, LayerOf, ResponseFuture};
pub use hedge::{Hedge, HedgeFuture, HedgeLayer};
pub use layer::ResourceLayer;
pub use limit::{Chosen, Limits, PerResource, SharedLimiter, Unlimited};
#[cfg(feature = "tonic")]
pub use name::GrpcMethod;
#[cfg(feature = "axum")]
pub use name::MatchedRoute;
pub use name::{Name, OTHER, OTHER_OUTBOUND, method_name};
#[cfg(feature = "problem")]
pub use refusal::Problem;
pub use refusal::{Answer, CallError, Fail, Refuse, Refused, Spread};
#[cfg(feature = "retry")]
pub use retry::{AtOnce, RetryLive, RetryWithin, TowerBudget};
pub use service::ResourceService;
pub use streams::open_streams;

/// The guide's code for axum, which the core does not depend on.
#[cfg(all(doctest, feature = "axum"))]
#[doc = include_str!("../tests/guide.md")]
struct Guide;
