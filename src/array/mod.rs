//! The ring of buckets, generic over its bucket.
//!
//! # Roles
//!
//! - A **writer** asks for the bucket of `now`. It *pins* the wrap in the slot, and adds to its
//!   bucket. If the wrap belongs to an earlier bucket, the writer becomes a rotator.
//! - A **rotator** replaces a stale wrap: it puts the wrap on the list of retired wraps, gets a
//!   fresh wrap, and swaps that into the slot by one compare-exchange against the stale wrap. This
//!   compare-exchange is the linearization point; if it fails, another rotator was first. A
//!   try-lock and a few yields keep most threads from doing the same work at once. No thread
//!   depends on them.
//! - A **reader** adds up buckets. It pins wraps, or it reads without a pin and validates the start
//!   of each wrap afterwards, as with a seqlock.
//!
//! # The life of a wrap
//!
//! Wraps live in a pool that only grows, so a thread may dereference an
//! index that it read at any earlier time.
//!
//! 1. *In its slot*: it has a start, and writers add to it.
//! 2. *Pending* on the list of retired wraps: it has left its slot, or is about to leave
//!    it. Writers that pinned it before may still add to it.
//! 3. *Reclaimed*, once no thread has it pinned: its counts are in the total of the list, and its
//!    index is free.
//! 4. *Recycled*: a rotator has taken its index from the list, has emptied the bucket, and has
//!    given it another start.
//!
//! # Orderings
//!
//! - A slot: a swap releases, and a load acquires. A thread that finds an index finds the start of
//!   the wrap, its empty counters, and the replaced wrap on the list.
//! - A wrap: see the module `wrap`.
//! - The list (behind one atomic word): a swap releases, and a load acquires. A thread
//!   that finds a list finds the final counts of the wraps that are reclaimed in it.
//! - The rotation lock orders only the spare list that its holder reuses.

mod bucket;
mod guard;
mod leap_array;
mod ledger;
mod retired;
mod ring;
mod wrap;

pub use bucket::Bucket;
pub use guard::{BucketGuard, CurrentBucket};
pub use leap_array::LeapArray;
pub use ledger::Ledger;
pub use wrap::BucketWrap;
