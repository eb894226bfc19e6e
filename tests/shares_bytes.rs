//! The memory of the fair shares of many tenants.
//!
//! This is a separate file because the profiler counts the allocations of the whole process.

use std::sync::Arc;

use leaparray::flow::shares::FairShares;
use leaparray::flow::{ConcurrencyLimiter, LimiterExt};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

const TENANTS: usize = 250_000;

/// 32 bytes for each, as in the description of the type. Tenants that come and go, or are refused,
/// take nothing more, and those that hold a permit each are told apart.
#[test]
fn tenants_take_32_bytes_each_and_no_more_whatever_they_do() {
    let _profiler = dhat::Profiler::builder().testing().build();
    let bytes = || dhat::HeapStats::get().curr_bytes;
    let empty = bytes();
    let limit = ConcurrencyLimiter::MAX_LIMIT;
    let shares = FairShares::new(Arc::new(ConcurrencyLimiter::new(limit)), TENANTS).unwrap();
    let table = bytes() - empty;
    assert!((32 * TENANTS..32 * TENANTS + 4_096).contains(&table), "{table} bytes");

    let blocks = || dhat::HeapStats::get().total_blocks;
    let mut held = Vec::with_capacity(TENANTS);
    let before = blocks();
    held.extend((0..TENANTS).filter_map(|it| shares.tenant(&it, 1).try_acquire().at_once().ok()));
    assert_eq!((held.len(), shares.in_use()), (TENANTS, TENANTS as u64));
    drop(held);
    assert_eq!(blocks(), before, "no request allocates");

    // Each is refused, and so is hungry.
    let full = shares.limiter().try_acquire_many(limit);
    assert!(full.is_admitted());
    assert!((0..TENANTS).all(|it| shares.tenant(&it, 1).try_acquire().is_refused()));
    assert!(bytes() - empty <= table + 65_536, "{} bytes", bytes() - empty);
}
