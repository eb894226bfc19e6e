//! The events of a limiter, as a subscriber writes them.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::sleep;

use crate::engine::{Network, Simulated, opened};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn changes_of_the_state_are_events() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().without_time().with_ansi(false);
    let subscriber = subscriber.with_writer(move || writer.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let clock = Simulated::start();
    let network = Network::new(clock);
    let limiter = opened(clock, &network).await;
    network.set_away(true);
    limiter.acquire_many(50).await.unwrap_err();
    // Several asks fail.
    sleep(Duration::from_secs(10)).await;
    network.set_away(false);
    sleep(Duration::from_secs(2)).await;
    limiter.close().await;
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
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
