//! The run: the processes and the server, the faults, the table, and the audit at the end.

mod faults;
mod view;
mod window_audit;

use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use leaparray_redis::lease::{LeaseConfig, LeaseKeys};
use leaparray_redis::{FleetReader, RedisEngine};
use tokio::task::JoinSet;
use tokio::time::interval;

use crate::args::Args;
use crate::audit::Audit;
use crate::clock::{Offset, time_of_day};
use crate::events::steps;
use crate::load::{self, Load};
use crate::monitor::Monitor;
use crate::notes::Notes;
use crate::process::Process;
use crate::report::{Report, Times, report};
use crate::server::Server;
use crate::status::State;
use crate::table;
use crate::watch::Watch;
use crate::windows::{self, Ending};
use crate::{complain, limit, say};

/// How often the states of the processes are read.
const TICK: Duration = Duration::from_millis(50);

/// A fleet that runs.
pub(crate) struct Fleet {
    seconds: u32,
    config: LeaseConfig,
    /// Before the server, so that the processes are ended first.
    processes: Vec<Process>,
    server: Server,
    offset: Offset,
    client: Client<HttpConnector, Body>,
    interrupted: Pin<Box<dyn Future<Output = ()>>>,
    begin: Instant,
    watch: Watch,
    notes: Arc<Notes>,
    engine: RedisEngine,
    /// Reads the windows of the fleet. Each run has a fleet of its own, so that it sees no process
    /// of an earlier run.
    name: String,
    reader: Arc<FleetReader>,
    /// Shows what the reader has read.
    monitor: Monitor,
    /// The processes that have ended.
    endings: Vec<Ending>,
}

impl Fleet {
    /// Starts the processes.
    pub(crate) async fn start(
        args: &Args,
        interrupted: Pin<Box<dyn Future<Output = ()>>>,
    ) -> Result<Self, Box<dyn Error>> {
        let config = limit::config(args.limit)?;
        let server = match &args.redis {
            Some(address) => Server::named(address).await?,
            None => Server::start().await?,
        };
        let name = format!("example-fleet-{:08x}", fastrand::u32(..));
        let start = |number| Process::start(number, &name, server.address(), args.limit);
        let processes = (1..=args.processes).map(start).collect::<Result<Vec<_>, _>>()?;
        let engine = RedisEngine::open(server.address())?;
        let reader = Arc::new(windows::reader(&name, engine.clone())?);
        let monitor = Monitor::start(&reader).await?;
        for warning in engine.warnings(&LeaseKeys::new(limit::NAME, &config)?).await? {
            complain(format_args!("warning: {warning}"));
        }
        Ok(Self {
            seconds: args.seconds,
            config,
            processes,
            offset: server.offset().await?,
            server,
            client: Client::builder(TokioExecutor::new()).build_http(),
            interrupted,
            begin: Instant::now(),
            watch: Watch::default(),
            notes: Arc::default(),
            engine,
            name,
            reader,
            monitor,
            endings: Vec::new(),
        })
    }

    /// Runs the fleet to its end. Returns whether the limit held, and whether the windows have all
    /// requests.
    pub(crate) async fn run(mut self) -> Result<bool, Box<dyn Error>> {
        let rates = load::rates(self.config.limit(), self.processes.len());
        say(&self.greeting(&rates));
        let addresses: Vec<_> = self.processes.iter().map(Process::address).collect();
        let began = self.server_time();
        self.begin = Instant::now();
        let load = Load::start(&addresses, &rates, &self.notes);
        self.observe().await?;
        self.watch.end(self.server_time());
        load.stop().await;
        // The offset may have changed a little.
        self.offset = self.offset.and(self.server.offset().await?);
        self.close().await;
        let endings = self.notes.lock().clone();
        let [uses, lost] = [&endings.uses, &endings.lost]
            .map(|it| it.iter().map(|it| self.offset.to_server(*it)).collect::<Vec<_>>());
        let audit = Audit::new(&self.config, uses, lost);
        let times = Times { began, error: self.offset.error(), leasing: self.watch.leasing() };
        let Report { text, failures } = report(&audit, &endings, &times);
        say(&text);
        let windows = self.audit_windows(&endings).await?;
        say(&windows.text);
        for failure in failures.iter().chain(&windows.failures) {
            complain(format_args!("error: {failure}"));
        }
        Ok(failures.is_empty() && windows.failures.is_empty())
    }

    /// Closes the processes, all at one time: each one delivers its last second.
    async fn close(&mut self) {
        let mut closing = JoinSet::new();
        for process in self.processes.drain(..) {
            if process.is_running() {
                self.endings.push(Ending { name: process.name().to_owned(), is_killed: false });
            }
            closing.spawn(process.close());
        }
        closing.join_all().await;
    }

    /// Takes the steps, and prints the table.
    async fn observe(&mut self) -> Result<(), Box<dyn Error>> {
        let mut steps = steps(self.seconds, self.server.is_own());
        let mut ticks = interval(TICK);
        let (mut rows, mut seen) = (0, Vec::new());
        while rows < self.seconds {
            tokio::select! {
                () = &mut self.interrupted => {
                    say(&table::event(self.begin.elapsed(), "interrupted"));
                    return Ok(());
                }
                _ = ticks.tick() => {}
            }
            self.take_due(&mut steps, &seen)?;
            self.check()?;
            seen = self.see().await;
            let change = self.watch.see(&seen, self.server_time());
            if let Some(state) = change {
                self.say_state(state);
            }
            let is_due = self.begin.elapsed().as_secs() > rows.into();
            rows += u32::from(is_due);
            // Too short to be seen otherwise.
            if is_due || change == Some(State::Away) {
                self.say_row(&seen);
            }
        }
        Ok(())
    }

    /// Fails if a process or the server has ended that should run.
    fn check(&mut self) -> Result<(), Box<dyn Error>> {
        for (process, number) in self.processes.iter_mut().zip(1..) {
            if let Some(status) = process.ending()? {
                return Err(format!("process {number} has ended: {status}").into());
            }
        }
        self.server.ending()?.map_or(Ok(()), |ending| Err(ending.into()))
    }

    fn server_time(&self) -> u64 {
        self.offset.server_time(time_of_day())
    }
}
