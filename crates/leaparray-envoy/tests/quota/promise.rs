//! Never over the limit.

use std::time::Duration;

use leaparray_envoy::quota::QuotaConfig;
use proptest::prelude::*;

use crate::client::Load;
use crate::world::World;

/// What happens to a client in a step.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// The server notices that the stream is gone; the client opens another one, and keeps what it
    /// has.
    Reconnect,
    /// The client is gone, and the server notices it.
    Leave,
    /// The client sends no more reports.
    FallSilent,
    Load(Load),
    Join(Load),
}

fn loads() -> impl Strategy<Value = Load> {
    prop_oneof![
        (1_u64..300).prop_map(Load::Steady),
        (20_u64..400).prop_map(Load::Saved),
        Just(Load::None),
    ]
}

fn events() -> impl Strategy<Value = Event> {
    prop_oneof![
        2 => Just(Event::Reconnect),
        1 => Just(Event::Leave),
        1 => Just(Event::FallSilent),
        3 => loads().prop_map(Event::Load),
        3 => loads().prop_map(Event::Join),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..Default::default() })]

    #[test]
    fn no_interval_has_more_than_the_limit(
        limit in prop_oneof![1_u32..6, 10_u32..200, 1_000_u32..5_000],
        window in prop_oneof![Just(1_u64), Just(4)],
        first in prop::collection::vec(loads(), 1..4),
        events in prop::collection::vec((0_u64..2_500, any::<prop::sample::Index>(), events()), 0..25),
        delays in prop::collection::vec(prop::option::weighted(0.97, 0_u64..400), 1..50),
    ) {
        let delivery = Duration::from_millis(400);
        let config = QuotaConfig::default()
            .with_ttl(Duration::from_secs(2))
            .with_delivery(delivery)
            .with_silence(Duration::from_secs(3))
            .with_idle(Duration::from_secs(5));
        let mut world = World::new(config, limit, window);
        for load in first {
            world.add(load);
        }
        let mut delays = delays.into_iter().map(|it| it.map(Duration::from_millis)).cycle();
        for step in 0..2_500 {
            for &(time, index, event) in &events {
                if time == step {
                    happen(&mut world, index, event);
                }
            }
            world.step(&mut || delays.next().flatten());
        }
        prop_assert!(world.most() <= limit.into(), "{} of {limit}", world.most());
    }
}

fn happen(world: &mut World, index: prop::sample::Index, event: Event) {
    let index = index.index(world.clients.len());
    match event {
        Event::Join(load) => drop(world.add(load)),
        Event::Load(load) => world.clients[index].load = load,
        Event::FallSilent => world.clients[index].reports = false,
        Event::Reconnect | Event::Leave => {
            let Some(stream) = world.clients[index].stream else { return };
            world.quotas.close(stream);
            let new = matches!(event, Event::Reconnect).then(|| world.quotas.open().unwrap());
            world.clients[index].stream = new;
            world.clients[index].is_broken = false;
        }
    }
}
