//! The promises of `leaparray`, each a model that loom explores.
//!
//! The models are in `tests/`, one file for each promise, and empty without `--cfg loom`:
//!
//! ```sh
//! RUSTFLAGS="--cfg loom" cargo test --release -p leaparray-loom-tests --target-dir target/loom
//! ```
//!
//! This is a crate of its own because `--cfg loom` reaches every crate that is compiled with it.

#[cfg(loom)]
mod node;
#[cfg(loom)]
mod ring;
#[cfg(loom)]
mod window;
#[cfg(loom)]
pub use node::{Node, enter, node, node_config};
#[cfg(loom)]
pub use ring::{LEN, OwnedPair, Ring, Tally, explore, explore_some, ring, start};
#[cfg(loom)]
pub use window::{Window, window};
