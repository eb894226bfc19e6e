//! The state of limiters: words and windows of words, from which permits are taken in one step.

mod bucket_permits;
mod direct_passes;
mod horizon;
mod live;
mod metered;
mod packed_bucket;
mod permit_window;
mod rule;
mod stripes;

pub use bucket_permits::BucketPermits;
pub(in crate::flow) use direct_passes::DirectPasses;
pub(in crate::flow) use horizon::Horizon;
use live::{Live, Version};
pub(in crate::flow) use metered::Metered;
pub(in crate::flow) use packed_bucket::{Layout, PackedBucket};
pub(in crate::flow) use permit_window::{FullWindow, PermitWindow, Ration, Usage};
pub(in crate::flow) use rule::{Back, CLOSED, NotAdmitted, Rule, Take, Taken};
pub(in crate::flow) use stripes::{STRIPES, Shares, Stripes};
