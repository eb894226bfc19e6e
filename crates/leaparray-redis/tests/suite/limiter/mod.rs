//! The limiter with an engine in memory, in simulated time: the runtime advances it when all tasks
//! wait.

mod away;
mod close;
mod crossed;
mod engine;
mod fleet;
mod queue;
mod requests;
mod settling;
mod sizes;
mod threads;
#[cfg(feature = "tracing")]
mod tracing_events;
