//! The loop of a run.

use std::collections::HashMap;
use std::sync::Arc;

use fastrand::Rng;
use leaparray_redis::fleet::ProcessId;

use super::finals::Poll;
use super::network::{Network, PROCESS_TIME_OUT, READER_TIME_OUT};
use super::process::{Message, Next, Process};
use super::reader::{Ask, Reader, Reply};
use super::server::{Answer, Server};
use super::truth::Truth;
use super::{After, Faults, MICROS, Observed, START, Scenario, shown};
use crate::queue::Queue;

/// An event. Processes and readers are named by their numbers, and requests of them too.
#[derive(Debug)]
enum Event {
    Start,
    Read(usize),
    Send(usize),
    Arrive(Arc<Message>),
    Answer(usize, u64, Arc<Answer>),
    TimeOut(usize, u64),
    Crash,
    Close,
    Away,
    Replicate,
    Back(After),
    Poll(usize),
    Ask(usize, u64, Ask),
    Reply(usize, u64, Reply),
    AskAgain(usize, u64),
}

/// How many seconds before the end of a run its last second is that counts in the shares: after the
/// deadline.
const TAIL: u64 = 40;
/// After which time a process that leaves asks again, in microseconds.
const SOON: u64 = 100_000;
/// The number of processes from which on the seconds that were final are not checked at each poll.
const MANY: usize = 50;

struct Run {
    scenario: Scenario,
    seed: u64,
    time: u64,
    end: u64,
    queue: Queue<Event>,
    truth: Truth,
    network: Network,
    random: Rng,
    processes: Vec<Process>,
    numbers: HashMap<ProcessId, usize>,
    running: Vec<usize>,
    server: Server,
    readers: Vec<Reader>,
    observed: Observed,
}

/// Simulates a scenario, with all checks.
#[must_use]
pub fn simulate(scenario: &Scenario, seed: u64) -> Observed {
    let mut run = Run::new(scenario, seed);
    while let Some((time, event)) = run.queue.next()
        && time < run.end
    {
        run.time = time;
        run.handle(event);
    }
    run.observed()
}

impl Run {
    fn new(scenario: &Scenario, seed: u64) -> Self {
        let start = START * MICROS;
        let mut random = Rng::with_seed(seed);
        let mut queue = Queue::new();
        for _ in 0..scenario.processes {
            queue.add(start + random.u64(..3 * MICROS), Event::Start);
        }
        let Faults { crashes, leaves, .. } = scenario.faults;
        for (rate, event) in [(crashes, Event::Crash), (leaves, Event::Close)] {
            if rate > 0.0 {
                queue.add(start, event);
            }
        }
        for outage in &*scenario.faults.outages {
            let at = start + outage.at * MICROS;
            if let After::Replica(lag) = outage.after {
                queue.add(at - lag * 1_000, Event::Replicate);
            }
            queue.add(at, Event::Away);
            queue.add(at + outage.secs * MICROS, Event::Back(outage.after));
        }
        // The second reader comes in the middle.
        let begins = [start + random.u64(..MICROS), start + scenario.secs * MICROS / 2];
        let readers = begins.iter().enumerate().map(|(number, &since)| {
            queue.add(since, Event::Poll(number));
            Reader::new(scenario.config, since)
        });
        let readers = readers.collect();
        Self {
            scenario: scenario.clone(),
            seed,
            time: start,
            end: start + scenario.secs * MICROS,
            queue,
            truth: Truth::new(seed, scenario.resources),
            network: Network::new(&scenario.faults, random.fork()),
            random,
            processes: Vec::new(),
            numbers: HashMap::new(),
            running: Vec::new(),
            server: Server::new(scenario),
            readers,
            observed: Observed::default(),
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Start => self.start(),
            Event::Read(process) => self.read(process),
            Event::Send(process) => self.send(process),
            Event::Arrive(message) => self.arrive(&message),
            Event::Answer(process, request, answer) => self.answer(process, request, &answer),
            Event::TimeOut(process, request) => {
                if let Some(wait) = self.processes[process].give_up(self.time, request) {
                    self.queue.add(self.time + wait, Event::Send(process));
                }
            }
            Event::Crash => {
                self.again(self.scenario.faults.crashes, Event::Crash);
                if let Some(process) = self.stop_any() {
                    self.processes[process].crash(self.time);
                }
            }
            Event::Close => {
                self.again(self.scenario.faults.leaves, Event::Close);
                if let Some(process) = self.stop_any() {
                    self.processes[process].close();
                }
            }
            Event::Away => self.server.go_away(self.time),
            Event::Replicate => self.server.replicate(),
            Event::Back(after) => {
                self.server.come_back(self.time, after, &self.processes, &self.truth);
            }
            Event::Poll(reader) => self.poll(reader),
            Event::Ask(reader, request, ask) => {
                if !self.server.is_away {
                    let reply = ask.answer(self.time, self.server.archive());
                    self.observed.read_bytes += reply.bytes();
                    if let Some(delay) = self.network.near_arrival() {
                        self.queue.add(self.time + delay, Event::Reply(reader, request, reply));
                    }
                }
            }
            Event::Reply(reader, request, reply) => self.reply(reader, request, &reply),
            Event::AskAgain(reader, request) => {
                if let Some((request, ask)) = self.readers[reader].again(request) {
                    self.ask(reader, request, ask);
                }
            }
        }
    }

    /// Adds the next event of a kind that comes at random, at a rate for each process.
    fn again(&mut self, rate: f64, event: Event) {
        #[expect(clippy::cast_precision_loss, reason = "a small number")]
        let per_second = rate * self.scenario.processes as f64;
        let gap = crate::fleet::gap(&mut self.random, per_second);
        self.queue.add(self.time + gap, event);
    }

    /// Takes any running process from the list. Another one starts soon.
    fn stop_any(&mut self) -> Option<usize> {
        if self.running.is_empty() {
            return None;
        }
        let position = self.random.usize(..self.running.len());
        self.queue.add(self.time + self.random.u64(..3 * MICROS), Event::Start);
        Some(self.running.swap_remove(position))
    }

    fn start(&mut self) {
        let number = self.processes.len();
        let process = Process::new(&self.scenario, number, self.seed, self.time);
        self.numbers.insert(process.id, number);
        self.running.push(number);
        self.queue.add(self.time + process.until_reading(self.time), Event::Read(number));
        self.processes.push(process);
        // Readers know it before its first second is over.
        self.send(number);
    }

    fn read(&mut self, number: usize) {
        let process = &mut self.processes[number];
        if process.has_ended() {
            return;
        }
        let stalls = self.scenario.faults.stalls;
        let is_stalled = process.runs() && process.random.f64() < stalls;
        if is_stalled {
            let stall = process.random.u64(2 * MICROS..20 * MICROS);
            self.queue.add(self.time + stall, Event::Read(number));
            return;
        }
        process.read(self.time, &self.truth, &mut self.observed.violations);
        if process.runs() || process.end.is_none() {
            let next = self.time + process.until_reading(self.time);
            self.queue.add(next, Event::Read(number));
        }
        self.send(number);
    }

    fn send(&mut self, process: usize) {
        let (epoch, violations) = (self.server.epoch, &mut self.observed.violations);
        let message = self.processes[process].send(self.time, epoch, &self.truth, violations);
        let Some(message) = message else { return };
        let delivery = &message.delivery;
        let seconds: usize = delivery.seconds.iter().map(|it| it.bytes.len() + 8).sum();
        let names: usize = delivery.names.iter().map(Vec::len).sum();
        self.observed.deliveries += 1;
        self.observed.delivery_bytes += (delivery.record.len() + seconds + names + 28) as u64;
        let request = message.request;
        for delay in self.network.arrivals() {
            self.queue.add(self.time + delay, Event::Arrive(Arc::clone(&message)));
        }
        self.queue.add(self.time + PROCESS_TIME_OUT, Event::TimeOut(process, request));
    }

    fn arrive(&mut self, message: &Arc<Message>) {
        if self.server.is_away {
            return;
        }
        let violations = &mut self.observed.violations;
        let sender = &self.processes[message.process];
        let answer = self.server.deliver(self.time, message, sender, &self.truth, violations);
        let answer = Arc::new(answer);
        for delay in self.network.arrivals() {
            let event = Event::Answer(message.process, message.request, Arc::clone(&answer));
            self.queue.add(self.time + delay, event);
        }
    }

    fn answer(&mut self, number: usize, request: u64, answer: &Answer) {
        let process = &mut self.processes[number];
        let violations = &mut self.observed.violations;
        let Some(next) = process.receive(self.time, request, answer, violations) else {
            return;
        };
        self.server.answered(self.time, number, &process.decided, &self.truth);
        match next {
            Next::Send => self.send(number),
            Next::Wait => self.queue.add(self.time + SOON, Event::Send(number)),
            Next::Read => {}
        }
    }

    fn poll(&mut self, reader: usize) {
        if !self.readers[reader].is_done() {
            self.check(reader);
        }
        let (request, ask) = self.readers[reader].poll();
        self.ask(reader, request, ask);
        self.queue.add(self.time + MICROS, Event::Poll(reader));
    }

    fn ask(&mut self, reader: usize, request: u64, ask: Ask) {
        self.observed.reads += 1;
        if let Some(delay) = self.network.near_arrival() {
            self.queue.add(self.time + delay, Event::Ask(reader, request, ask));
        }
        self.queue.add(self.time + READER_TIME_OUT, Event::AskAgain(reader, request));
    }

    fn reply(&mut self, number: usize, request: u64, reply: &Reply) {
        let reader = &mut self.readers[number];
        if !reader.receive(request, reply) {
            return;
        }
        match reader.next() {
            Some((request, ask)) => self.ask(number, request, ask),
            None => self.check(number),
        }
    }

    /// Checks what a reader shows.
    fn check(&mut self, number: usize) {
        let reader = &mut self.readers[number];
        let now = reader.view.now();
        let config = &self.scenario.config;
        let kept = u64::from(config.history() + config.delivery());
        // The seconds that the view reads.
        let first = (now / MICROS).saturating_sub(kept).max(START - 20);
        let last = now / MICROS + u64::from(config.grace());
        let poll = Poll {
            reader: number,
            time: self.time,
            now,
            scenario: &self.scenario,
            server: &self.server,
            processes: &self.processes,
        };
        let violations = &mut self.observed.violations;
        for second in (first..last).rev() {
            let age = last - second;
            let every = match age {
                _ if self.scenario.processes < MANY || !reader.finals.has(second) => 1,
                0..9 => 2,
                9..36 => 8,
                _ => 14,
            };
            if !(second + reader.polls).is_multiple_of(every) {
                continue;
            }
            let window = reader.view.window(second..second + 1);
            if window.processes.is_empty() {
                continue;
            }
            let processes = shown::check(&window, &self.numbers, &self.truth, violations);
            reader.finals.check(&poll, &window, processes, violations);
        }
    }

    /// Returns the results.
    fn observed(mut self) -> Observed {
        for reader in 0..self.readers.len() {
            self.check(reader);
        }
        let mut observed = self.observed;
        observed.processes = self.processes.len() as u64;
        observed.left = self.processes.iter().filter(|it| it.has_left).count() as u64;
        let most_bytes = self.processes.iter().map(|it| it.most_bytes).max().unwrap_or_default();
        observed.most_bytes = most_bytes as u64;
        for reader in &self.readers {
            observed.polls += reader.polls;
            observed.returns += reader.finals.returns;
            observed.forgotten += reader.finals.forgotten;
            let seconds = reader.finals.seconds.range(reader.since / MICROS..);
            observed.final_after.extend(seconds.map(|it| it.1.after));
        }
        observed.final_after.sort_unstable();
        let (end, shown) = (self.end / MICROS, &self.readers[0].finals.seconds);
        for (number, process) in self.processes.iter().enumerate() {
            // A process whose clock is ahead may begin after the end.
            let process_end = end.min(process.end.unwrap_or(end));
            observed.seconds_alive += process_end.saturating_sub(process.first);
            let last = end - TAIL;
            for second in process.first..last.min(process.end.unwrap_or(last)) {
                observed.seconds += 1;
                if shown.get(&second).is_some_and(|it| it.has(number)) {
                    observed.present += 1;
                } else if process.decided.missed_seconds.contains(&second) {
                    observed.missed += 1;
                } else {
                    observed.lost += 1;
                    let has_forgotten =
                        self.readers[0].has_forgotten(second, &self.scenario.config);
                    observed.unsettled += u64::from(has_forgotten);
                }
            }
        }
        observed
    }
}
