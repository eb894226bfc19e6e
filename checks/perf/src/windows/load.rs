//! A fleet of simulated processes: each delivers a template in each second, by the system's clock.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leaparray::{EventCounts, MetricEvent};
use leaparray_redis::RedisEngine;
use leaparray_redis::engine::{EngineError, FleetEngine};
use leaparray_redis::fleet::{FleetConfig, FleetKeys, Outbox, ProcessId, ResourceKey};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::case::Case;
use super::template::{self, Template};

/// The processes share connections, which takes less memory of this program.
const CONNECTIONS: u32 = 16;
/// The most bytes of the seconds that wait in a process.
const WAITING: usize = 4 << 20;

/// A fleet.
pub(super) struct Load {
    pub(super) case: Case,
    pub(super) name: String,
    pub(super) keys: Vec<ResourceKey>,
    pub(super) templates: Vec<Template>,
}

/// A process delivers the seconds from `first` up to `end`.
struct Process {
    load: Arc<Load>,
    number: u32,
    engine: RedisEngine,
    end: u64,
}

/// Returns the time since the Unix epoch.
pub(super) fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970")
}

impl Load {
    /// Returns the template of a process in a second.
    fn template(&self, process: u32, second: u64) -> &Template {
        let number = (u64::from(process) + second) % self.templates.len() as u64;
        &self.templates[number as usize]
    }

    /// Returns the number of passes of all processes in a second.
    pub(super) fn passes(&self, second: u64) -> u64 {
        (0..self.case.processes).map(|it| self.template(it, second).totals[MetricEvent::Pass]).sum()
    }

    /// Runs the processes until the second `end`.
    ///
    /// # Errors
    ///
    /// Returns an error if the server does not answer, or has not taken all seconds.
    pub(super) async fn run(
        self: Arc<Self>,
        address: &str,
        end: u64,
    ) -> Result<(), Box<dyn Error>> {
        let mut engines = Vec::new();
        for _ in 0..CONNECTIONS {
            engines.push(RedisEngine::open(address)?);
        }
        let mut processes = JoinSet::new();
        let pause = Duration::from_secs(self.case.times.join) / self.case.processes;
        for number in 0..self.case.processes {
            let engine = engines[(number % CONNECTIONS) as usize].clone();
            processes.spawn(Process { load: Arc::clone(&self), number, engine, end }.run());
            sleep(pause).await;
        }
        while let Some(result) = processes.join_next().await {
            result??;
        }
        Ok(())
    }
}

impl Process {
    async fn run(self) -> Result<(), String> {
        let Self { load, number, engine, end } = self;
        let config = FleetConfig::default();
        let keys = FleetKeys::new(&load.name, &config).map_err(|it| it.to_string())?;
        let (first, name) = (now().as_secs(), format!("orders-{number}"));
        let mut outbox =
            Outbox::new(config, ProcessId(u64::from(number) + 1), &name, first, WAITING);
        template::add_names(&mut outbox, &load.keys);
        let phase = Duration::from_secs(1) * number / load.case.processes;
        let mut lifetime = EventCounts::default();
        let send = async |outbox: &mut Outbox| -> Result<(), EngineError> {
            while {
                let delivery = outbox.delivery(now().as_micros() as u64);
                let receipt = engine.deliver(&keys, &config, &delivery).await?;
                outbox.on_receipt(now().as_micros() as u64, &receipt)
            } {}
            Ok(())
        };
        let failed = |it: EngineError| format!("process {number}: {it}");
        send(&mut outbox).await.map_err(failed)?;
        for second in first..end {
            sleep((Duration::from_secs(second + 1) + phase).saturating_sub(now())).await;
            let template = load.template(number, second);
            lifetime += &template.totals;
            outbox.push(template.at(second));
            outbox.set_totals(lifetime, EventCounts::default());
            send(&mut outbox).await.map_err(failed)?;
        }
        let missed = outbox.record().missed.0;
        if missed > 0 {
            Err(format!("process {number} has missed {missed} seconds"))
        } else {
            Ok(())
        }
    }
}
