//! Controllers over other limiters: all of them at once, and requests that wait in turn.

mod all_of;
mod queue;
pub mod settle;
pub mod shadow;

pub use all_of::{AllOf, Outlook};
pub use queue::{QueuePermit, WaitQueue};
