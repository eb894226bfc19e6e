//! A simulated service with a fast and a slow mode, such as one whose cache misses 5 % of the
//! requests.

use std::collections::BTreeMap;
use std::time::Duration;

use fastrand::Rng;
use leaparray::{
    Clock, Entry, HistogramConfig, LatencyHistogram, ManualClock, NodeConfig, ResourceNode,
    Timestamp,
};

const START: Timestamp = Timestamp::from_secs(60);
const MINUTE: Duration = Duration::from_secs(60);
/// The time between two requests.
const GAP: Duration = Duration::from_millis(5);

const FAST: Duration = Duration::from_millis(2);
const SLOW: Duration = Duration::from_millis(400);
/// The share of requests in the slow mode, in percent.
const SLOW_PERCENT: u8 = 5;

/// The requests in flight, by the time of their end and by their number.
type InFlight<'a> = BTreeMap<(Timestamp, u32), Entry<&'a ResourceNode<ManualClock>, ManualClock>>;

/// Simulates a minute, and returns the histogram of the node's long window at its end.
pub(crate) fn response_times_of_a_minute() -> LatencyHistogram {
    let clock = ManualClock::new(START);
    let config = NodeConfig::default().with_histogram(HistogramConfig::default());
    let node = ResourceNode::with_clock(config, clock.clone());
    let mut random = Rng::with_seed(18);
    let mut in_flight = InFlight::new();
    // The last nanosecond of the minute, in which the window still has the whole minute.
    let end = START.saturating_add(MINUTE).saturating_sub(Duration::from_nanos(1));
    let mut number = 0;
    while clock.now() < end {
        let (start, rt) = (clock.now(), response_time(&mut random));
        in_flight.insert((start.saturating_add(rt), number), node.enter());
        number += 1;
        end_until(&mut in_flight, &clock, start.saturating_add(GAP).min(end));
    }
    node.now().long().histogram().expect("the node has a histogram")
}

/// Ends the requests that end up to `now`, each at its time, and sets the clock to `now`.
fn end_until(in_flight: &mut InFlight<'_>, clock: &ManualClock, now: Timestamp) {
    while let Some(first) = in_flight.first_entry() {
        let &(end, _) = first.key();
        if end > now {
            break;
        }
        clock.set(end);
        first.remove().success();
    }
    clock.set(now);
}

fn response_time(random: &mut Rng) -> Duration {
    let mean = if random.u8(..100) < SLOW_PERCENT { SLOW } else { FAST };
    around(mean, random)
}

/// Returns a time from half to one and a half times the mean, more often near the mean.
fn around(mean: Duration, random: &mut Rng) -> Duration {
    let quarter = u64::try_from(mean.as_nanos() / 4).expect("the means are short");
    mean / 2 + Duration::from_nanos((0..4).map(|_| random.u64(..=quarter)).sum())
}
