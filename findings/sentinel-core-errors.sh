#!/usr/bin/env bash
# sentinel-core: an error is counted as a completion only, and a dropped entry stays in flight
#
# Guess: `set_err` on an entry counts `MetricEvent::Error`, and an entry that goes out of scope
# leaves, as a guard does.
# Behaviour: the event exists, and no statistic counts it. An entry has no `Drop`: after an early
# return, or in a cancelled future, its request is in flight until the process ends.
# Version: sentinel-core 0.1.3.
# Here: an `Entry` ends once, as a success, an exception or cancelled, also if it is dropped.
. "$(dirname "$0")/lib.sh"

cargo_dependencies <<'END'
sentinel-core = "=0.1.3"
END

program() { cargo_program <<'END'; }
use sentinel_core::base::{ConcurrencyStat, MetricEvent, ReadStat, TrafficType};
use sentinel_core::{EntryBuilder, Error, init_default, stat};

fn main() {
    init_default().unwrap();
    let enter = || EntryBuilder::new("orders".into()).with_traffic_type(TrafficType::Inbound).build();
    for number in 0..10 {
        let entry = enter().unwrap();
        if number < 4 {
            entry.set_err(Error::msg("the backend is down"));
        }
        entry.exit();
    }
    let is_early = || -> Option<()> {
        let entry = enter().unwrap();
        None?;
        entry.exit();
        Some(())
    };
    is_early();
    let node = stat::get_resource_node(&"orders".to_string()).unwrap();
    for event in [MetricEvent::Pass, MetricEvent::Complete, MetricEvent::Error] {
        println!("{event:?}: {}", node.sum(event));
    }
    println!("in flight: {}", node.current_concurrency());
}
END

expect program <<'END'
Pass: 11
Complete: 10
Error: 0
in flight: 1
END
