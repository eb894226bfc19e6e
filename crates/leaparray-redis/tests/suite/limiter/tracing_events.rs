//! The events of a limiter, as a subscriber writes them.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use crate::limiter::engine::{Network, Simulated, opened};

#[tokio::test(start_paused = true)]
async fn changes_of_the_state_are_events() {
    // Each event is registered before there is a subscriber: one that another test registers at the
    // same time as the subscriber may stay disabled.
    let clock = Simulated::start();
    opened(clock, &Network::new(clock)).await.close().await;
    let log = tempfile::NamedTempFile::new().unwrap();
    let subscriber = tracing_subscriber::fmt().without_time().with_ansi(false);
    let subscriber = subscriber.with_writer(Arc::new(log.reopen().unwrap())).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let network = Network::new(clock);
    let limiter = opened(clock, &network).await;
    network.set_away(true);
    limiter.acquire_many(50).await.unwrap_err();
    // Several asks fail.
    sleep(Duration::from_secs(10)).await;
    network.set_away(false);
    sleep(Duration::from_secs(2)).await;
    limiter.close().await;
    let text = fs::read_to_string(log.path()).unwrap();
    let lines: Vec<_> = text.lines().map(str::trim_start).collect();
    let expected = [
        ("WARN", "no leases are granted", "state=in quarantine until"),
        ("INFO", "the state of the leases has changed", "state=leasing"),
        ("WARN", "no leases are granted", "state=away since"),
        ("INFO", "the state of the leases has changed", "state=leasing"),
        ("INFO", "the state of the leases has changed", "state=closed"),
    ];
    assert_eq!(lines.len(), expected.len(), "{text}");
    for (line, (level, message, state)) in lines.into_iter().zip(expected) {
        assert!(line.starts_with(level) && line.contains(message), "{line}");
        assert!(line.contains(state) && line.contains("limit=\"orders\""), "{line}");
    }
}
