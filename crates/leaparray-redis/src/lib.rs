//! One limit over a fleet: the processes that share it lease its permits in chunks from one server, and admit requests
//! locally while they hold some.
//!
//! **In any n consecutive buckets of the server's time, the processes together use at most the limit**, also if processes
//! crash, messages are lost, delayed or doubled, and the server restarts with nothing or with an older state.
//!
//! This crate has the protocol so far, without a connection and without a clock: every call takes its time.
//!
//! - [`Node`] is one process: its permits, and its messages to the server.
//! - [`Ledger`] is the server: the rules by which a limit is leased. A script of a real server has to agree with it.
//!
//! ```
//! use leaparray_redis::{Ledger, LeaseConfig, Node, NodeId, RunId};
//! use std::time::Duration;
//!
//! let config = LeaseConfig::new(100, 10, Duration::from_secs(1))?;
//! let (mut ledger, mut node) = (Ledger::new(config), Node::new(config, NodeId(1)));
//! // The server has just started: leases of a server before it may be in use, so it grants nothing for a while.
//! let run = RunId([0; 20]);
//! let mut now = Duration::from_secs(100);
//! for _ in 0..50 {
//!     assert!(!node.take(now, 5));
//!     if let Some(ask) = node.next_ask(now) {
//!         let answer = ledger.lease(now.as_micros() as u64, run, &ask);
//!         node.on_answer(now, now, &answer);
//!     }
//!     now += Duration::from_millis(100);
//!     if node.held(now) > 0 {
//!         break;
//!     }
//! }
//! assert!(node.take(now, 5), "without asking again");
//! # Ok::<_, leaparray_redis::LeaseConfigError>(())
//! ```

#![forbid(unsafe_code)]

mod config;
mod ledger;
mod message;
mod node;

pub use config::{LeaseConfig, LeaseConfigError};
pub use ledger::Ledger;
pub use message::{Answer, Ask, Epoch, Move, NodeId, RunId};
pub use node::Node;
