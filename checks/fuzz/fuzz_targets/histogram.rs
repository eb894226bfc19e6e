//! Searches for a case in which a histogram and the sorted response times differ.

#![no_main]

#[path = "../../../tests/suite/histogram/case/mod.rs"]
mod case;

use case::Case;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| Case::from_bytes(bytes).check());
