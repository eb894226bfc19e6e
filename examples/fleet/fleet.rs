//! The run: the processes and the server, the faults, the table, and the audit at the end.

use std::collections::VecDeque;
use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, to_bytes};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use leaparray_redis::RedisEngine;
use leaparray_redis::lease::{LeaseConfig, LeaseKeys};
use tokio::time::{interval, timeout};

use crate::args::Args;
use crate::audit::Audit;
use crate::clock::{Offset, time_of_day};
use crate::events::{AWAY, MAX_DELAY, SERVER_AWAY, Step, steps, victim};
use crate::load::{self, Load};
use crate::notes::Notes;
use crate::process::Process;
use crate::report::{Report, report};
use crate::server::Server;
use crate::service::STATUS;
use crate::status::State;
use crate::table::{self, Seen};
use crate::watch::Watch;
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
        let start = |_| Process::start(server.address(), args.limit);
        let processes = (0..args.processes).map(start).collect::<Result<Vec<_>, _>>()?;
        let engine = RedisEngine::open(server.address())?;
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
        })
    }

    /// Runs the fleet to its end. Returns whether the limit held.
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
        for process in self.processes.drain(..) {
            process.close().await;
        }
        let endings = self.notes.lock().clone();
        let [uses, lost] = [&endings.uses, &endings.lost]
            .map(|it| it.iter().map(|it| self.offset.to_server(*it)).collect::<Vec<_>>());
        let audit = Audit::new(&self.config, uses, lost);
        let Report { text, failures } = report(&audit, &endings, self.watch.leasing(), began);
        say(&text);
        for failure in &failures {
            complain(format_args!("error: {failure}"));
        }
        Ok(failures.is_empty())
    }

    fn greeting(&self, rates: &[f64]) -> String {
        let limit = self.config.limit();
        let server =
            if self.server.is_own() { "which this program has started" } else { "which was named" };
        let each = rates.iter().map(|it| format!("{it:.0}")).collect::<Vec<_>>().join(", ");
        format!(
            "limit: {limit} requests in any ten buckets of 100 ms, of all processes together\n\
             server: Redis at {}, {server}\n\
             load: {:.1} times the limit, {each} requests a second to each process\n{}",
            self.server.host(),
            load::DEMAND,
            table::heading(rates.len(), limit)
        )
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

    /// Takes the steps whose time has come. `seen`: the processes, at the last reading.
    fn take_due(
        &mut self,
        steps: &mut VecDeque<(Duration, Step)>,
        seen: &[Seen],
    ) -> Result<(), Box<dyn Error>> {
        let now = self.begin.elapsed();
        let Some(&(at, step)) = steps.front().filter(|it| it.0 <= now) else { return Ok(()) };
        let victim = victim(self.processes.len());
        let (number, in_hand) = (victim + 1, seen.get(victim).map_or(0, Seen::in_hand));
        // The worst moments: permits in hand are lost with a process, and permits that were just used are what a server might grant
        // again that has lost its state.
        let is_worst = match step {
            Step::KillProcess => in_hand > 0,
            Step::KillServer => self.is_burst(),
            Step::StartProcess | Step::StartServer | Step::LeaveServer => true,
        };
        if !is_worst && now < at + MAX_DELAY {
            return Ok(());
        }
        steps.pop_front();
        match step {
            Step::KillProcess => {
                self.processes[victim].kill();
                self.say(&format!(
                    "process {number} is killed, with some {in_hand} permits in hand"
                ));
                steps.push_front((now + AWAY, Step::StartProcess));
            }
            Step::StartProcess => {
                self.processes[victim].start_again()?;
                self.say(&format!("process {number} starts again"));
            }
            Step::KillServer => {
                self.watch.end(self.server_time());
                self.server.kill();
                self.say("the server is killed: the processes go on with the permits in hand");
                steps.push_front((now + SERVER_AWAY, Step::StartServer));
            }
            Step::StartServer => {
                self.server.start_again()?;
                self.say("the server starts again, blank");
            }
            Step::LeaveServer => {
                let host = self.server.host();
                self.say(&format!(
                    "the server at {host} is not killed: this program has not started it"
                ));
            }
        }
        Ok(())
    }

    /// Returns whether the fleet has just admitted many requests: 40 % of the limit in 300 ms.
    fn is_burst(&self) -> bool {
        let since = time_of_day() - 300_000;
        let notes = self.notes.lock();
        let recent = notes.uses.iter().rev().take_while(|it| it.latest > since).count() as u64;
        recent * 5 > self.config.limit() * 2
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

    /// Reads the states of the processes.
    async fn see(&self) -> Vec<Seen> {
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

    /// Returns the requests in the last window whose answers have arrived. The present bucket is not over, and answers of the one
    /// before may be in flight.
    fn in_window(&self) -> u64 {
        let end = self.server_time() / self.config.bucket_micros() - 1;
        let first = end - u64::from(self.config.buckets());
        let since = (first - 10) * self.config.bucket_micros();
        let notes = self.notes.lock();
        let uses = notes.uses.iter().rev().map(|it| self.offset.to_server(*it));
        Audit::new(&self.config, uses.take_while(|it| it.latest > since), []).window(first).certain
    }

    fn server_time(&self) -> u64 {
        self.offset.server_time(time_of_day())
    }

    /// Prints the state of all processes.
    fn say_state(&self, state: State) {
        match state {
            State::Leasing => self.say("all processes lease"),
            State::Quarantine => self.say(&format!(
                "quarantine: a blank server grants nothing for {:?}, as earlier leases may be in use",
                self.config.quarantine()
            )),
            State::Away => self.say("the server is away for all processes"),
            State::Connecting | State::Other => {}
        }
    }

    fn say_row(&self, seen: &[Seen]) {
        say(&table::row(self.begin.elapsed(), seen, self.in_window()));
    }

    fn say(&self, event: &str) {
        say(&table::event(self.begin.elapsed(), event));
    }
}
