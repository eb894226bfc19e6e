//! The series: what a name has counted, over all resources that have had it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use leaparray::MetricEvent::{Block, Success};
use leaparray::flow::Reason;
use leaparray::node::Refusals;
use leaparray::registry::{RegistryCursor, SeriesKey, SeriesReader, Visited};
use leaparray::{
    Clock, HistogramConfig, ManualClock, NodeConfig, Registry, RegistryConfig, Resource,
    TrafficType,
};

use crate::registry::{SECOND, registry, registry_of, together};

type Tested = Registry<ManualClock>;

/// The successes of each series.
type Sums = BTreeMap<SeriesKey, u64>;

fn key(name: &str, context: Option<&str>) -> SeriesKey {
    SeriesKey::new(name, context, TrafficType::Inbound)
}

fn succeed(registry: &Tested, name: &str, requests: u32) {
    let resource = registry.resource(name).unwrap();
    (0..requests).for_each(|_| resource.enter().success());
}

fn sums(reader: &mut SeriesReader<ManualClock>, registry: &Tested) -> Sums {
    let reading = reader.read(registry);
    reading.iter().map(|it| (it.key().clone(), it.counts().totals.sum(Success))).collect()
}

/// Adds what is new in a reading to what was new in the earlier ones.
fn add_new(reader: &mut SeriesReader<ManualClock>, registry: &Tested, to: &mut Sums) {
    for series in &reader.read(registry) {
        *to.entry(series.key().clone()).or_default() += series.newly(Success);
    }
}

/// Asserts that each count is in one series, or dropped.
#[track_caller]
fn assert_conserved(reader: &mut SeriesReader<ManualClock>, registry: &Tested) {
    let reading = reader.read(registry);
    for traffic in [TrafficType::Inbound, TrafficType::Outbound] {
        assert_eq!(reading.lifetime(traffic), registry.lifetime_of(traffic), "{traffic:?}");
    }
}

/// The counts of a removed resource with a handle are in the readings of a reader that is made
/// after the removal, also once the handle is gone and the name is listed again.
#[test]
fn removed_resource_that_is_held_has_its_series_in_a_later_reader() {
    let (registry, _) = registry();
    succeed(&registry, "a", 5);
    let held = registry.resource("a").unwrap();
    assert!(registry.remove("a"));
    let mut reader = registry.series();
    let of_a = |reader: &mut SeriesReader<_>| sums(reader, &registry).get(&key("a", None)).copied();
    assert_eq!(of_a(&mut reader), Some(5));
    held.enter().success();
    assert_eq!(of_a(&mut reader), Some(6));
    drop(held);
    assert_eq!(of_a(&mut reader), Some(6));
    succeed(&registry, "a", 1);
    assert_eq!(of_a(&mut reader), Some(7));
    assert_conserved(&mut reader, &registry);
}

/// Resources are listed, recorded in, evicted, removed and read at random, by two readers. Handles
/// of some are kept, and record after the removal.
#[test]
fn each_count_is_in_its_series_once() {
    for seed in 0..50 {
        let (registry, clock) = registry();
        let mut random = Rng::with_seed(seed);
        let mut readers = [registry.series(), registry.series().without_histograms()];
        let mut new = [Sums::new(), Sums::new()];
        let (mut expected, mut kept) = (Sums::new(), Vec::<Resource<_>>::new());
        for _ in 0..300 {
            let traffic = [TrafficType::Inbound, TrafficType::Outbound][usize::from(random.bool())];
            let name = ["a", "b", "c"][random.usize(..3)];
            match random.u32(..12) {
                0 => drop(registry.evict_idle_at(registry.clock().now(), Duration::ZERO)),
                1 => drop(registry.remove(name)),
                2 => kept.truncate(random.usize(..3)),
                which @ (3 | 4) => {
                    let which = which as usize - 3;
                    add_new(&mut readers[which], &registry, &mut new[which]);
                }
                5 => clock.advance(SECOND),
                way => {
                    let mut resource = match kept.get(random.usize(..4)) {
                        Some(kept) => kept.without_context(),
                        None => registry.resource_with(name, traffic).unwrap(),
                    };
                    if way % 2 == 0 {
                        resource = resource.in_context("web").unwrap();
                    }
                    resource.enter().success();
                    *expected.entry(resource.series_key()).or_default() += 1;
                    if way == 6 {
                        kept.push(resource);
                    }
                }
            }
        }
        for (reader, mut new) in readers.iter_mut().zip(new) {
            add_new(reader, &registry, &mut new);
            new.retain(|_, sum| *sum > 0);
            assert_eq!(new, expected, "{seed}");
            let mut sums = sums(reader, &registry);
            sums.retain(|_, sum| *sum > 0);
            assert_eq!(sums, expected, "{seed}");
            assert_conserved(reader, &registry);
        }
    }
}

#[test]
fn no_series_decreases_while_others_evict_and_remove() {
    const ROUNDS: u64 = 500;
    let (registry, _) = registry();
    let (registry, done) = (&registry, &AtomicBool::new(false));
    let mut readers = [registry.series(), registry.series()];
    thread::scope(|scope| {
        scope.spawn(move || {
            while !done.load(Ordering::Relaxed) {
                registry.evict_idle_at(registry.clock().now(), Duration::ZERO);
                registry.remove("b");
            }
        });
        let reading = readers.each_mut().map(|reader| {
            scope.spawn(move || {
                let (mut last, mut new) = (Sums::new(), Sums::new());
                while !done.load(Ordering::Relaxed) {
                    for series in &reader.read(registry) {
                        let sum = series.counts().totals.sum(Success);
                        let before = last.insert(series.key().clone(), sum).unwrap_or(0);
                        assert!(sum >= before, "{series:?} had {before}");
                        *new.entry(series.key().clone()).or_default() += series.newly(Success);
                    }
                }
                new
            })
        });
        together(|_| {
            for name in (0..ROUNDS).flat_map(|_| ["a", "b", "c"]) {
                let resource = registry.resource(name).unwrap();
                resource.enter().success();
                resource.in_context("web").unwrap().enter().success();
            }
        });
        done.store(true, Ordering::Relaxed);
        for (thread, reader) in reading.into_iter().zip(["one", "other"]) {
            let new = thread.join().unwrap();
            assert!(new.values().sum::<u64>() <= 24 * ROUNDS, "{reader}");
        }
    });
    for reader in &mut readers {
        let sums = sums(reader, registry);
        assert_eq!(sums.len(), 6);
        assert!(sums.values().all(|sum| *sum == 4 * ROUNDS), "{sums:?}");
        assert_conserved(reader, registry);
    }
}

#[test]
fn refusals_and_response_times_survive_the_node() {
    let scale =
        |scale| NodeConfig::default().with_histogram(HistogramConfig::with_scale(scale).unwrap());
    let (registry, clock) = registry();
    let mut reader = registry.series();
    for config in [scale(6), NodeConfig::default(), scale(2), scale(6)] {
        let orders = registry.resource_with("orders", config).unwrap();
        orders.refuse(Reason::QueueFull);
        let entry = orders.enter();
        clock.advance(Duration::from_millis(9));
        entry.success();
        assert!(registry.remove("orders"));
    }
    let reading = reader.read(&registry);
    let orders = reading.iter().next().unwrap().counts();
    assert_eq!((orders.refusals[Reason::QueueFull], orders.totals.rt_count()), (4, 4));
    let scales: Vec<_> = orders.histograms().iter().map(|it| (it.scale(), it.count())).collect();
    assert_eq!(scales, [(6, 2), (2, 1)]);
    assert_eq!(orders.rt_count_without_histogram(), 1);
    let merged = orders.histogram().unwrap();
    assert_eq!((merged.scale(), merged.count()), (2, 3));
}

#[test]
fn series_counts_since_its_first_resource() {
    let (registry, clock) = registry();
    let mut reader = registry.series();
    let made = clock.now();
    drop(registry.resource("orders").unwrap());
    for _ in 0..3 {
        clock.advance(SECOND);
        assert!(registry.remove("orders"));
        succeed(&registry, "orders", 1);
        let reading = reader.read(&registry);
        assert_eq!(reading.iter().next().unwrap().since(), made);
    }
    // The one that was made later departs first.
    let held = registry.resource_with("held", TrafficType::Outbound).unwrap();
    let made = clock.now();
    assert!(registry.remove("held"));
    clock.advance(SECOND);
    drop(registry.resource_with("held", TrafficType::Outbound).unwrap());
    assert_eq!(registry.evict_idle_at(registry.clock().now(), Duration::ZERO), 2);
    let since = |reader: &mut SeriesReader<_>| {
        let reading = reader.read(&registry);
        reading.iter().find(|it| &*it.key().name == "held").unwrap().since()
    };
    assert_eq!([since(&mut reader), since(&mut registry.series())], [made; 2]);
    drop(held);
    assert_eq!(since(&mut registry.series()), made);
}

#[test]
fn reading_has_handles_and_leaves_none() {
    let (registry, _) = registry();
    let mut reader = registry.series();
    succeed(&registry, "orders", 1);
    let reading = reader.read(&registry);
    assert_eq!(reading.iter().next().unwrap().resource().unwrap().name(), "orders");
    assert_eq!(registry.evict_idle_at(registry.clock().now(), Duration::ZERO), 0);
    drop(reading);
    assert_eq!(registry.evict_idle_at(registry.clock().now(), Duration::ZERO), 1);
    let reading = reader.read(&registry);
    let orders = reading.iter().next().unwrap();
    assert!(orders.resource().is_none() && !orders.has_changed() && !orders.is_first());
}

#[test]
fn forgotten_series_are_accounted_for_and_begin_at_0() {
    const KEPT: usize = 3;
    let (registry, _) = registry_of(RegistryConfig::default().max_resources(KEPT));
    let mut reader = registry.series();
    let names: Vec<_> = (0..2 * KEPT).map(|number| number.to_string()).collect();
    for name in &names {
        succeed(&registry, name, 1);
        registry.resource(name).unwrap().in_context("web").unwrap().block();
        assert!(registry.remove(name));
        assert_conserved(&mut reader, &registry);
    }
    let reading = reader.read(&registry);
    let found: Vec<_> = reading.iter().map(|it| it.key().clone()).collect();
    let of = |name: &String| [key(name, None), key(name, Some("web"))];
    assert_eq!(found, names[KEPT..].iter().flat_map(of).collect::<Vec<_>>());
    assert_eq!(reading.dropped().series, 2 * KEPT as u64);
    let totals = &reading.dropped().inbound;
    assert_eq!([Success, Block].map(|event| totals.sum(event)), [KEPT as u64; 2]);
    drop(reading);

    succeed(&registry, &names[0], 2);
    succeed(&registry, &names[KEPT], 2);
    let reading = reader.read(&registry);
    for (name, sum, is_first) in [(&names[0], 2, true), (&names[KEPT], 3, false)] {
        let series = reading.iter().find(|it| *it.key() == key(name, None)).unwrap();
        assert_eq!((series.counts().totals.sum(Success), series.is_first()), (sum, is_first));
        assert_eq!(series.newly(Success), 2, "{name}");
    }
}

/// Otherwise, its later counts would begin at 0 while the earlier ones were read by the reader.
#[test]
fn series_of_a_removed_resource_with_handles_is_not_forgotten() {
    let (registry, _) = registry_of(RegistryConfig::default().max_resources(1));
    let mut reader = registry.series();
    succeed(&registry, "held", 5);
    assert!(registry.remove("held"));
    let held = registry.resource("held").unwrap();
    held.enter().success();
    assert!(registry.remove("held"));
    let mut new = Sums::new();
    for name in ["a", "b", "c"] {
        add_new(&mut reader, &registry, &mut new);
        succeed(&registry, name, 1);
        assert!(registry.remove(name));
        held.enter().success();
    }
    add_new(&mut reader, &registry, &mut new);
    assert_eq!(new[&key("held", None)], 9);
    assert_conserved(&mut reader, &registry);
}

/// The context of the present resource was read under the identity that it has from then on.
#[test]
fn context_that_a_removed_resource_gets_late_continues_its_series() {
    let (registry, _) = registry();
    let mut reader = registry.series();
    let former = registry.resource("orders").unwrap();
    assert!(registry.remove("orders"));
    let present = registry.resource("orders").unwrap().in_context("web").unwrap();
    let mut new = Sums::new();
    present.enter().success();
    add_new(&mut reader, &registry, &mut new);
    former.in_context("web").unwrap().enter().success();
    add_new(&mut reader, &registry, &mut new);
    drop(former);
    present.enter().success();
    add_new(&mut reader, &registry, &mut new);
    assert_eq!(new[&key("orders", Some("web"))], 3);
}

#[test]
fn first_reader_begins_the_series_and_all_find_the_same() {
    let (registry, _) = registry();
    succeed(&registry, "orders", 5);
    assert!(registry.remove("orders"));
    let mut first = registry.series();
    succeed(&registry, "orders", 1);
    assert!(registry.remove("orders"));
    let mut second = registry.series();
    for reader in [&mut first, &mut second] {
        assert_eq!(sums(reader, &registry), Sums::from([(key("orders", None), 1)]));
        let reading = reader.read(&registry);
        assert_eq!((reading.dropped().series, reading.dropped().inbound.sum(Success)), (0, 5));
    }
    // Without a reader, nothing is kept.
    drop((first, second));
    succeed(&registry, "orders", 1);
    assert!(registry.remove("orders"));
    let mut third = registry.series();
    assert!(sums(&mut third, &registry).is_empty());
    assert_conserved(&mut third, &registry);
}

/// The registry keeps one series of a resource that is not listed.
#[test]
fn refusals_are_visited_before_their_series_is_forgotten() {
    let (registry, clock) = registry_of(RegistryConfig::default().max_resources(1));
    let cursor = RegistryCursor::new();
    let visit = || {
        let mut new = 0;
        registry.at(clock.now()).visit_seconds(&cursor, |visited| {
            if let Visited::DelistedRefusals(_, refused) = visited {
                new += refused.sum();
            }
        });
        new
    };
    visit();
    for name in ["a", "b", "c"] {
        registry.resource(name).unwrap().refuse(Reason::Failing);
        assert!(registry.remove(name));
    }
    assert_eq!(visit(), 0, "without a second");
    clock.advance(SECOND);
    assert_eq!(visit(), 3);
    // One is left, and nothing is new in it.
    clock.advance(SECOND);
    assert_eq!(visit(), 0);
}

#[test]
#[should_panic(expected = "this reader is of another registry")]
fn reader_of_another_registry_is_not_read() {
    let [(one, _), (other, _)] = [registry(), registry()];
    let mut reader = one.series();
    drop(reader.read(&one));
    drop(reader.read(&other));
}

#[test]
fn visit_has_the_new_refusals_of_each_series() {
    let (registry, clock) = registry();
    let cursor = RegistryCursor::new();
    let visit = || {
        let mut new = BTreeMap::new();
        let mut add = |key: SeriesKey, refused: Refusals| {
            if refused.sum() > 0 {
                assert!(new.insert(key, refused).is_none(), "each series once");
            }
        };
        registry.at(clock.now()).visit_seconds(&cursor, |visited| match visited {
            Visited::Node(it) => {
                let (name, context) = (it.name.clone(), it.context.cloned());
                add(SeriesKey::new(name, context, it.traffic_type), it.refused);
            }
            Visited::DelistedRefusals(key, refused) => add(key.clone(), refused),
            _ => {}
        });
        new
    };
    let refuse = |permits, reason| {
        registry.resource("orders").unwrap().refuse_many_at(clock.now(), permits, reason);
    };
    let expect = |counts: &[(Reason, u64)]| {
        let refused = counts.iter().fold(Refusals::default(), |mut sum, &(reason, count)| {
            sum[reason] = count;
            sum
        });
        BTreeMap::from([(key("orders", None), refused)])
    };
    refuse(7, Reason::Failing);
    // Before a second is over: the first visit has them nevertheless.
    assert_eq!(visit(), expect(&[(Reason::Failing, 7)]));
    refuse(1, Reason::Failing);
    assert!(visit().is_empty(), "without a second");
    let held = registry.resource("orders").unwrap();
    assert!(registry.remove("orders"));
    refuse(2, Reason::LimitReached);
    held.refuse(Reason::LimitReached);
    clock.advance(SECOND);
    assert_eq!(visit(), expect(&[(Reason::Failing, 1), (Reason::LimitReached, 3)]));
    held.refuse(Reason::QueueFull);
    drop(held);
    refuse(1, Reason::QueueFull);
    assert_eq!(registry.evict_idle_at(registry.clock().now(), Duration::ZERO), 1);
    clock.advance(SECOND);
    assert_eq!(visit(), expect(&[(Reason::QueueFull, 2)]), "not listed");
    refuse(1, Reason::Failing);
    clock.advance(SECOND);
    assert_eq!(visit(), expect(&[(Reason::Failing, 1)]));
    clock.advance(SECOND);
    assert!(visit().is_empty());
}
