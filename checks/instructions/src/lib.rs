//! The operations whose instructions `.ci/instructions` counts: `benches/core.rs` has those of
//! `leaparray`, and `benches/tower.rs` those of `leaparray-tower`. Their baselines are beside them.
#![forbid(unsafe_code)]
