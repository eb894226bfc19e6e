//! The monitor, which prints a reading of the registry once a second.

use std::io::{self, Write};
use std::time::Duration;

use leaparray::{Clock, Registry};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::reading::{Reading, Show};

const PERIOD: Duration = Duration::from_secs(1);

/// Prints a reading every second, until printing fails.
pub(crate) async fn print_readings(registry: &Registry, show: Show) -> io::Error {
    let start = registry.clock().now();
    let mut ticks = interval_at(Instant::now() + PERIOD, PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut reading = Reading::default();
    loop {
        ticks.tick().await;
        reading.renew_at(registry.clock().now(), registry, start);
        if let Err(error) = io::stdout().write_all(show(&reading).as_bytes()) {
            return error;
        }
    }
}
