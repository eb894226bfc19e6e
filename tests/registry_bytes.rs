//! What 100,000 resources take that are not in use: never used, used once, and used for a minute.
//!
//! A file of its own: the profiler counts what the whole process allocates.

use std::time::Duration;

use leaparray::{ManualClock, Registry, RegistryConfig, Timestamp};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

const RESOURCES: usize = 100_000;
const FEW: usize = 500;
const BUCKET: Duration = Duration::from_millis(500);

fn bytes() -> usize {
    dhat::HeapStats::get().curr_bytes
}

#[test]
fn a_hundred_thousand_idle_resources_stay_within_their_budget() {
    let _profiler = dhat::Profiler::builder().testing().build();
    let clock = ManualClock::new(Timestamp::MIN);
    let config = RegistryConfig::default().max_resources(RESOURCES);
    let names: Vec<_> = (0..RESOURCES).map(|i| format!("GET /service/{i:06}")).collect();

    let before = bytes();
    let registry = Registry::with_clock(config, clock.clone());
    for name in &names {
        registry.resource(name).unwrap();
    }
    let each = |resources| (bytes() - before) / resources;
    let never = each(RESOURCES);
    for name in &names {
        registry.resource(name).unwrap().enter().success();
    }
    let once = each(RESOURCES);
    println!("never used {never}, once {once}");
    assert!(never <= 560, "never used: {never} bytes for each");
    assert!(once <= 1_850, "used once: {once} bytes for each");

    clock.advance(BUCKET * 240);
    assert_eq!(registry.evict_idle(BUCKET * 120), RESOURCES);
    // The table that the names were in; and what this thread keeps in hand, of the last 1,024.
    let evicted = each(RESOURCES);
    println!("evicted {evicted}");
    assert!(evicted <= 60, "evicted: {evicted} bytes for each that there was");

    // All that a resource takes when it has been busy and is not any more.
    let before = bytes();
    for name in &names[..FEW] {
        let resource = registry.resource(name).unwrap();
        for _ in 0..120 {
            clock.advance(BUCKET);
            resource.enter().success();
        }
    }
    let minute_long = (bytes() - before) / FEW;
    println!("used for a minute {minute_long}");
    assert!(minute_long <= 18_500, "used for a minute: {minute_long} bytes for each");
}
