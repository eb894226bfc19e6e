#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod access;
mod center;
mod command;
mod heartbeat;
mod lines;
mod log;
mod machine;
mod nodes;
mod rule_book;
mod seconds;
mod serve;

pub use access::{Access, Network, NetworkError};
pub use center::CommandCenter;
pub use heartbeat::{Heartbeat, HeartbeatError, HeartbeatHandle, HeartbeatState};
pub use log::{MetricLog, MetricLogHandle, MetricLogState, MetricLogWriter};
pub use rule_book::{RuleBook, SetError};
pub use serve::{PORT, bind};
