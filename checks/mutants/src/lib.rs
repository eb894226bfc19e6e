//! Deliberate breakage of leaparray. A *mutant* is a small change that breaks one promise of
//! `docs/CORRECTNESS.md`. It names its *killer*, the test or model that must then fail. A mutant
//! that survives shows that no test checks what it breaks.
//!
//! `table.toml` lists the mutants that no tool can write: the order of two accesses, a step of a
//! protocol that is left out, a check-then-act race in place of a compare-exchange, a rule of a
//! message or of a script. Two tools write the others: `checks/mutants/orderings` weakens each
//! memory ordering, and `cargo mutants` replaces plain conditions, operators and results, as
//! `.cargo/mutants.toml` says.
//!
//! `cargo test -p leaparray-mutants` checks that each mutant still applies to the tree.
//! `cargo run -p leaparray-mutants` runs them.

#![forbid(unsafe_code)]

mod edit;
mod killer;
mod table;

pub use edit::{Edit, EditError};
pub use killer::{Build, Killer};
pub use table::{Mutant, Table, Timeout};

use std::path::{Path, PathBuf};

/// Returns the root of the repository that this crate is a part of.
///
/// # Panics
///
/// If the crate was moved out of the repository.
#[must_use]
pub fn root() -> PathBuf {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    crate_dir.ancestors().nth(2).expect("the crate lies in checks/mutants").to_path_buf()
}
