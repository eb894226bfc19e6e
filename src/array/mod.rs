//! The ring of buckets that a thread rotates by one compare-exchange, generic over its bucket.

mod account;
mod bucket;
mod guard;
mod leap_array;
mod retired;
mod ring;
mod wrap;

pub use account::Account;
pub use bucket::Bucket;
pub use guard::{BucketGuard, CurrentBucket};
pub use leap_array::LeapArray;
pub use wrap::BucketWrap;
