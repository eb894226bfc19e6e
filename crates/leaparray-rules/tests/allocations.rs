//! A decision by several rules allocates nothing. Alone in its binary: the allocator counts the
//! whole process.

use std::sync::Arc;

use leaparray::flow::{Ask, LimiterExt};
use leaparray::{ManualClock, Registry, RegistryConfig, Timestamp};
use leaparray_rules::{Caller, RuleSet, Rules};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

const PACE: &str = "pace = \"1 per second\"\nmax_wait = \"3h\"";

/// Returns the number of allocations of 1,000 requests, after some that make what is made once.
fn allocations(limiters: &[&str], caller: &impl Caller) -> u64 {
    let clock = ManualClock::new(Timestamp::from_secs(3_600));
    let registry = Arc::new(Registry::with_clock(RegistryConfig::default(), clock));
    let rules = Rules::new(Arc::clone(&registry));
    let text = limiters.iter().enumerate().map(|(index, limiter)| {
        format!("[[rule]]\nname = \"rule-{index}\"\nresource = \"/api/*\"\n{limiter}\n")
    });
    rules.apply(&RuleSet::parse(&text.collect::<String>()).unwrap());
    let resource = registry.resource("GET /api/orders").unwrap();
    let ask = Ask::at(Timestamp::from_secs(3_600));
    let request = || {
        // It waits if a rule paces.
        drop(rules.ask(&resource, caller, &ask));
        if let Ok(entry) = rules.limiter(&resource, caller).try_enter_at(&*resource, ask) {
            entry.success();
        }
        if let Ok(entry) = rules.try_enter_at(resource.clone(), caller, ask) {
            entry.success();
        }
    };
    (0..10).for_each(|_| request());
    let blocks = || dhat::HeapStats::get().total_blocks;
    let before = blocks();
    (0..1_000).for_each(|_| request());
    blocks() - before
}

#[test]
fn decision_by_several_rules_allocates_nothing() {
    let _profiler = dhat::Profiler::builder().testing().build();
    let all = [
        "limit = \"5000 per minute\"",
        "key = \"header:x-api-key\"\nlimit = \"7000 per minute, bursts of 7000\"",
        "in_flight = 3",
        "breaker = \"adaptive\"",
    ];
    for rules in 1..=4 {
        assert_eq!(allocations(&all[..rules], &"ann"), 0, "{rules} rules");
    }
    // The most rules that decide without an `AllOf`, of which four make the request wait.
    let many =
        [["limit = \"5000 per minute, bursts of 5000\""; 28].as_slice(), &[PACE; 4]].concat();
    assert_eq!(allocations(&many, &"ann"), 0, "32 rules");
    let tenants = [all[0], "in_flight = 64\ntenant = \"header:x-api-key\"\nmax_keys = 100"];
    assert_eq!(allocations(&tenants, &"ann"), 0, "tenants");
    let classes = "in_flight = 64\nkey = \"header:x-api-key\"\npriority = \"header:x-api-key\"\n\
                   shares = { \"*\" = \"100 %\" }";
    assert_eq!(allocations(&[all[0], classes], &"ann"), 0, "classes of a key");
    let refused = ["limit = \"5 per minute\"", all[1], all[2]];
    assert_eq!(allocations(&refused, &"ann"), 0, "refusals");
    let ending = [all[2], all[3], "in_flight = 4"];
    assert!(allocations(&ending, &"ann") > 0, "three permits that end are in a `Vec`");
    #[cfg(feature = "tower")]
    {
        let client = leaparray_rules::ClientAddress([10, 1, 2, 3].into());
        let keys = leaparray_rules::RequestKeys::default().with("tenant", "acme");
        let request = http::Request::builder().extension(client).extension(keys);
        let request = request.header("x-api-key", "ann").body(()).unwrap();
        let keyed = [
            "key = \"header:x-api-key\"\nlimit = \"5000 per minute, bursts of 5000\"",
            "key = \"client/24\"\nlimit = \"7000 per minute, bursts of 7000\"",
            "key = \"extension:tenant\"\nlimit = \"7000 per minute, bursts of 7000\"",
        ];
        assert_eq!(allocations(&keyed[..2], &request), 0);
        assert_eq!(allocations(&keyed[1..], &request), 0);
        assert_eq!(allocations(&keyed, &request), 0);
    }
}
