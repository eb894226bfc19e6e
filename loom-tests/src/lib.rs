//! Models of the promises of `leaparray`, which loom explores.
//!
//! The models are in `tests/`, one file for each promise. Without `--cfg loom`, these files are
//! empty. To run them all, or one of them:
//!
//! ```sh
//! .ci/models all
//! RUSTFLAGS="--cfg loom" cargo test --release -p leaparray-loom-tests --target-dir target/loom \
//!   --test gauge three_threads_balance
//! ```
//!
//! This is a crate of its own because `--cfg loom` applies to every crate of a build: in the tests
//! of `leaparray`, it would apply to all dev-dependencies.

#[cfg(loom)]
mod node;
#[cfg(loom)]
mod registry;
#[cfg(loom)]
mod ring;
#[cfg(loom)]
mod window;
#[cfg(loom)]
pub use node::{Node, enter, node, node_config};
#[cfg(loom)]
pub use registry::{RegistryModel, blocks, evict_all, registry};
#[cfg(loom)]
pub use ring::{LEN, OwnedPair, Ring, Tally, explore, explore_some, ring, start};
#[cfg(loom)]
pub use window::{LONG, SHORT, Window, histogram_window, window};
