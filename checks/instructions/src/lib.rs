//! What the benches share whose instructions `.ci/instructions` counts. A bench runs
//!
//! - `--operations`: prints the names of its operations, a line each;
//! - `--count OPERATION TIMES`: repeats one of them;
//! - otherwise, as from `cargo test` and `cargo bench`: each operation twice.
//!
//! ```console
//! $ .ci/instructions
//! ```

#![forbid(unsafe_code)]

use std::env;

use leaparray::Timestamp;

/// The time of each operation.
pub const NOW: Timestamp = Timestamp::from_secs(1_540_629_300);

/// More requests than an operation is repeated.
pub const PLENTY: u64 = 1_000_000_000;

/// An operation's name in the baseline, and a function that repeats it.
pub type Operation = (&'static str, fn(u64));

/// Does what the arguments of the process say.
///
/// # Panics
///
/// If the arguments name no operation, or no number.
pub fn main(operations: &[Operation]) {
    let args: Vec<_> = env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--operations"] => operations.iter().for_each(|(name, _)| println!("{name}")),
        ["--count", operation, times] => {
            let found = operations.iter().find(|(name, _)| *name == operation);
            let (_, run) = found.expect("one of `--operations`");
            run(times.parse().expect("a number"));
        }
        _ => operations.iter().for_each(|(_, run)| run(2)),
    }
}
