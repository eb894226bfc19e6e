//! The limit of the fleet.

use std::time::Duration;

use leaparray_redis::lease::{LeaseConfig, LeaseConfigError};

/// The name of the limit. Processes that start it by this name share it.
pub(crate) const NAME: &str = "example-fleet";

/// Returns the parameters of the limit: `limit` requests in any ten consecutive buckets of 100 ms.
pub(crate) fn config(limit: u64) -> Result<LeaseConfig, LeaseConfigError> {
    LeaseConfig::of_buckets(limit, 10, Duration::from_secs(1))
}
