//! Searches for a case in which the window and the oracle differ.

#![no_main]

#[path = "../../../tests/suite/oracle/case/mod.rs"]
mod case;

use case::Case;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| Case::from_bytes(bytes).check());
