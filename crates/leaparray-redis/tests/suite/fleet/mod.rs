//! The protocol of a window over a fleet, without a server: time is given.

mod budget;
mod conservation;
mod delivery;
mod parts;
mod random;
mod reading;
mod rows;
mod skew;
