//! The view of the fleet, as it is printed.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use leaparray::MetricEvent;
use tokio::time::timeout;

use super::Fleet;
use crate::audit::Audit;
use crate::clock::time_of_day;
use crate::service::STATUS;
use crate::status::State;
use crate::table::{self, LastSecond, Seen};
use crate::{load, say};

impl Fleet {
    pub(super) fn greeting(&self, rates: &[f64]) -> String {
        let limit = self.config.limit();
        let server =
            if self.server.is_own() { "which this program has started" } else { "which was named" };
        let (monitor, token) = (self.monitor.address(), self.monitor.token());
        let page = token.url(format_args!("http://{monitor}/"));
        let token = token.as_str();
        let each = rates.iter().map(|it| format!("{it:.0}")).collect::<Vec<_>>().join(", ");
        format!(
            "limit: {limit} requests in any ten buckets of 100 ms, of all processes together\n\
             server: Redis at {}, {server}\n\
             load: {:.1} times the limit, {each} requests a second to each process\n\
             page of the fleet: {page}&view=fleet\n\
             its metrics: curl -H 'Authorization: Bearer {token}' http://{monitor}/metrics\n{}",
            self.server.host(),
            load::DEMAND,
            table::heading(rates.len(), limit)
        )
    }

    /// Reads the states of the processes.
    pub(super) async fn see(&self) -> Vec<Seen> {
        let mut seen = Vec::new();
        for process in &self.processes {
            let status = async {
                let uri = format!("http://{}{STATUS}", process.address()).parse().ok()?;
                let body = self.client.get(uri).await.ok()?.into_body();
                let text = to_bytes(Body::new(body), 1_000).await.ok()?;
                str::from_utf8(&text).ok()?.parse().ok()
            };
            seen.push(if process.is_running() {
                let status = timeout(Duration::from_millis(500), status).await;
                status.ok().flatten().map_or(Seen::Silent, Seen::Status)
            } else {
                Seen::Killed
            });
        }
        seen
    }

    /// Returns the requests in the last window whose answers have arrived. The present bucket is
    /// not over, and answers of the one before may be in flight.
    fn in_window(&self) -> u64 {
        let end = self.server_time() / self.config.bucket_micros() - 1;
        let first = end - u64::from(self.config.buckets());
        let since = (first - 10) * self.config.bucket_micros();
        let notes = self.notes.lock();
        let uses = notes.uses.iter().rev().map(|it| self.offset.to_server(*it));
        Audit::new(&self.config, uses.take_while(|it| it.latest > since), []).window(first).certain
    }

    /// Returns the newest second that is final, of all processes.
    fn last_second(&self) -> Option<LastSecond> {
        let window = self.reader.last_second()?;
        let counts = &window.total.metrics.counts;
        Some(LastSecond {
            ago: (time_of_day() / 1_000_000).saturating_sub(window.seconds.end),
            admitted: counts[MetricEvent::Pass],
            refused: counts[MetricEvent::Block],
            processes: window.presence,
        })
    }

    /// Prints the state of all processes.
    pub(super) fn say_state(&self, state: State) {
        match state {
            State::Leasing => self.say("all processes lease"),
            State::Quarantine => self.say(&format!(
                "quarantine: a blank server grants nothing for {:.1} s, as earlier leases may be in use",
                self.config.quarantine().as_secs_f64()
            )),
            State::Away => self.say("the server is away for all processes"),
            State::Connecting | State::Other => {}
        }
    }

    pub(super) fn say_row(&self, seen: &[Seen]) {
        say(&table::row(self.begin.elapsed(), seen, self.in_window(), self.last_second()));
    }

    pub(super) fn say(&self, event: &str) {
        say(&table::event(self.begin.elapsed(), event));
    }
}
