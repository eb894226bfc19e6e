//! The lease protocol: its parameters, its messages and the state of a node. Nothing here does I/O
//! or reads a clock.
//!
//! A *limit* is L permits in any n consecutive buckets of the server's time. Where the buckets but
//! one are as long as an interval, no interval touches more of them, so it has at most L permits,
//! wherever it begins. The server keeps one number per bucket: the permits *charged* in it. A
//! node *asks* for permits. The server grants them as a *lease* that ends with a bucket, and
//! charges them in that bucket, the last one in which they can be used. The node decides from the
//! permits in hand. With its next ask, the node *moves* charges: permits that were used are charged
//! in the bucket of their use instead, and permits that will not be used are charged nowhere.
//!
//! The sum of all charges never exceeds L. A permit that was used in bucket u is, from its grant
//! on, charged in a bucket ≥ u. Take any window of n buckets and the last grant of a permit that
//! was used in it. At that grant, each other permit that was or will be used in the window was
//! charged in a bucket of the window or later, or is not granted yet, which the choice of the grant
//! rules out. So the sum counted them all, and the window has at most L uses.
//!
//! A node whose requests wait is also granted permits [ahead](Ahead): they may be used from the
//! start of a bucket on, when those of a bucket at the other end of the window have left it. Such a
//! permit counts in no window that ends before its start. The sum is therefore kept for each window
//! to come. The node uses the permit when the server has certainly reached its bucket: it counts
//! from the arrival of the answer that grants the permit, by the slowest rate of the server's
//! clock. It does not return the permit before, so that each permit that begins later is charged in
//! a later bucket.
//!
//! The server's clock may step back after that grant. Then the permit is used before the server has
//! reached its bucket s, but no earlier than without the step. Permits that were used before the
//! grant and have left the window by s were used a window earlier by a clock that does not step. A
//! permit that is granted after the step is charged in the bucket of the grant or later. The server
//! grants ahead for less than n buckets, so that does not leave the window by s.
//!
//! Take any window, and the last grant of a permit that was used in it. The permit begins in the
//! window or before. At that grant, the sum of the window that ends with the beginning of the
//! permit or with a later bucket is at most L, and each other permit that was or will be used in
//! the window is in that sum.
//!
//! A permit that begins in bucket s may also *follow* one that the same node has used, and that is
//! charged in bucket s - n: that charge leaves the window when s begins. The node may then use the
//! permit one interval after the last use that is charged there, by its own clock, whether or not
//! the server has reached s. So the time that messages take costs nothing of the rate. It charges
//! the permit in s - 1 or later if the window has a bucket more than the interval, and in s or
//! later otherwise, and does not return it before the server has certainly reached s. Each use is
//! followed once.
//!
//! Take any interval, and the window that ends with its last bucket. If a permit is used in the
//! interval that begins after this window, then the use that it follows is not in the interval, and
//! its charge is in the window. So the sum of the window has one permit for each use in the
//! interval, and the argument above holds with the charge of the followed use in place of the
//! permit. That charge is counted there: the permit of the followed use begins in the window or
//! before. It begins in s - n + 1 at the latest, by the bucket of its charge, and the server grants
//! ahead for less than n buckets, so it has reached s - n + 1 before the grant of the permit that
//! begins in s.
//!
//! Each [`Answer`] names an [`Epoch`] of the server's state. When state may have been lost, the
//! server begins a new epoch, and grants nothing until all leases of earlier epochs have ended and
//! their uses have left the window.
//!
//! | type | what it is |
//! |---|---|
//! | [`LeaseConfig`], [`LeaseKeys`] | the parameters, and the keys of a limit |
//! | [`Ask`], [`Move`], [`Answer`], [`Ahead`], [`Epoch`] | the messages |
//! | [`Holdings`] | the permits in hand: what a node must do for the limit to hold |
//! | [`Node`] | when to ask, and for how much: what a node should do to be quick and to leave permits to others |
//!
//! All times are whole microseconds in a `u64`. Times of the server count from the Unix epoch, and
//! times of a node from any moment, by a monotonic clock that also runs while the machine is
//! suspended. Permits, times of the server, sequence numbers and the names of nodes are below 2^53,
//! so that the numbers of a Lua script, which are doubles, hold them exactly.

mod config;
mod holdings;
mod keys;
mod ledger;
mod message;
mod node;

pub use config::{LeaseConfig, LeaseConfigError};
pub use holdings::Holdings;
pub use keys::{LeaseKeys, LeaseNameError};
pub use ledger::{Group, Ledger};
pub use message::{Ahead, Answer, Ask, Epoch, MAX_EXACT, MAX_MOVES, Move};
pub use node::{Decided, Node};
