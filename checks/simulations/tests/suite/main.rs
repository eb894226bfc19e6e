//! The simulations hold their goals. One program, since each further one takes time to build.
#![forbid(unsafe_code)]

mod controllers;
mod fleet;
mod headroom;
mod histories;
mod leases;
mod quotas;
mod rule_histories;
mod shares;
mod storms;
mod windows;
