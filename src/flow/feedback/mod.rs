//! Controllers that learn from the outcomes of the requests that they admit.

pub mod adaptive;
pub mod breaker;
pub mod circuit;
mod feedback_permit;
mod in_force;
mod outcomes;

pub use feedback_permit::{Feedback, FeedbackPermit};
