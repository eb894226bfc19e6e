//! One budget, and the clients that share it.

use std::collections::BTreeMap;
use std::time::Duration;

use leaparray::Timestamp;

use super::charges::Charges;
use super::config::QuotaConfig;
use super::messages::StreamId;
use super::shares::shares;
use super::strategy::{Part, Strategy};

/// The limit of a budget, its clients, and what is charged.
#[derive(Debug)]
pub(super) struct Budget {
    /// The limit of all instances together.
    whole: u64,
    /// The requests that this instance may assign now: the limit, or its share.
    limit: u64,
    /// The requests that this instance should get along with: at most the limit.
    goal: u64,
    /// The share of this instance, and until when it has it; `None` if it has the whole limit.
    share: Option<Share>,
    window: Duration,
    clients: BTreeMap<StreamId, Client>,
    /// The charges of assignments that clients no longer have.
    ending: Charges,
    /// The charges of the assignments that clients have.
    assigned: u64,
}

#[derive(Debug)]
struct Client {
    /// The requests in a second, admitted or not.
    demand: f64,
    last_report: Timestamp,
    last_request: Timestamp,
    assignment: Option<Assignment>,
    /// Whether the assignment is to end, so that others get some of it.
    lapses: bool,
}

/// The assignment of a client.
#[derive(Clone, Copy, Debug)]
struct Assignment {
    part: Part,
    sent: Timestamp,
}

/// The part of a limit that an instance has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub(super) units: u64,
    pub(super) goal: u64,
    pub(super) until: Timestamp,
}

impl Share {
    /// Returns the share of a limit that was `from` and is `to`, if that is lower: the shares of
    /// all instances are at most `to` then. A share of a lower limit stays.
    pub(super) fn lowered(self, from: u64, to: u64) -> Self {
        let of = |units: u64| {
            let part = u128::from(units) * u128::from(to.min(from)) / u128::from(from.max(1));
            u64::try_from(part).unwrap_or(units)
        };
        Self { units: of(self.units), goal: of(self.goal), ..self }
    }
}

/// An action for a client.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Order {
    Assign(Strategy),
    Abandon,
}

impl Client {
    /// Returns how many requests in an interval are asked for.
    fn want(&self, limit: u64, window: Duration, now: Timestamp, config: &QuotaConfig) -> u64 {
        if now.saturating_since(self.last_report) > config.silence {
            return 0;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "saturates, and is no less than 0"
        )]
        let want = (self.demand * window.as_secs_f64() * 1.2).ceil() as u64;
        want.clamp(1, limit.max(1))
    }
}

impl Budget {
    /// Creates a budget. If it is `shared`, it has nothing until it gets a share.
    pub(super) fn new(whole: u64, window: Duration, shared: bool) -> Self {
        let (clients, ending) = (BTreeMap::new(), Charges::default());
        let share = shared.then_some(Share { units: 0, goal: 0, until: Timestamp::from_nanos(0) });
        let limit = if shared { 0 } else { whole };
        let goal = limit;
        Self { whole, limit, goal, share, window, clients, ending, assigned: 0 }
    }

    /// Takes a share of the limit, in place of the one before.
    pub(super) const fn set_share(&mut self, share: Share) {
        self.share = Some(share);
    }

    /// Returns the least share that covers what is assigned, and what the clients want.
    pub(super) fn wanted(&self, now: Timestamp, config: &QuotaConfig) -> (u64, u64) {
        let wants = self.clients.values().map(|it| it.want(self.whole, self.window, now, config));
        let wanted = wants.fold(0, u64::saturating_add).min(self.whole);
        (self.charged(), wanted)
    }

    /// Whether it has clients.
    pub(super) fn is_used(&self) -> bool {
        !self.clients.is_empty()
    }

    pub(super) const fn whole(&self) -> u64 {
        self.whole
    }

    /// Takes a usage report of a client, which may be a new one. Returns the assignment of a new
    /// one, if there is something free. The next [plan](Self::plan) has those of the others.
    pub(super) fn report(
        &mut self,
        stream: StreamId,
        requests: u64,
        now: Timestamp,
        config: &QuotaConfig,
    ) -> Option<Order> {
        if let Some(client) = self.clients.get_mut(&stream) {
            let since = now.saturating_since(client.last_report);
            // The reports of a client that sends several at once are one.
            let seconds = since.as_secs_f64().max(0.1);
            #[expect(clippy::cast_precision_loss, reason = "an estimate")]
            let demand = requests as f64 / seconds;
            client.demand = demand.max(f64::midpoint(demand, client.demand));
            client.last_report = now;
            if requests > 0 {
                client.last_request = now;
            }
            return None;
        }
        self.expire(now, config);
        let demand = 1.0 / self.window.as_secs_f64();
        let (last_report, last_request) = (now, now);
        let client = Client { demand, last_report, last_request, assignment: None, lapses: false };
        self.clients.insert(stream, client);
        let fair = (self.goal / self.clients.len() as u64).max(1);
        let part = self.fitting(fair, Part::default())?;
        Some(self.assign(stream, part, now, config))
    }

    /// Removes a client. Its assignment is charged until it has left each interval.
    pub(super) fn remove(&mut self, stream: StreamId, config: &QuotaConfig) {
        if let Some(client) = self.clients.remove(&stream)
            && let Some(assignment) = client.assignment
        {
            self.retire(assignment, assignment.part.units(), config);
        }
    }

    /// Creates a budget in place of one with another interval. The charges of that one stay until
    /// its assignments have ended.
    pub(super) fn in_place_of(
        old: &Self,
        limit: u64,
        window: Duration,
        now: Timestamp,
        config: &QuotaConfig,
    ) -> Self {
        let mut new = Self::new(limit, window, old.share.is_some());
        let lasts = config.ttl + config.delivery + window;
        new.ending.add(old.charged().min(limit), now.saturating_add(lasts), lasts);
        new
    }

    /// Changes the limit. A lower one is in force when what was assigned has ended. The share is
    /// lowered at once: otherwise, each instance could assign the whole limit until its next share.
    pub(super) fn set_limit(&mut self, limit: u64) {
        self.share = self.share.map(|share| share.lowered(self.whole, limit));
        self.whole = limit;
    }

    pub(super) const fn window(&self) -> Duration {
        self.window
    }

    /// Returns whether it has neither clients nor charges.
    pub(super) fn is_over(&self) -> bool {
        self.clients.is_empty() && self.ending.total() == 0
    }

    pub(super) const fn charged(&self) -> u64 {
        self.assigned + self.ending.total()
    }

    fn free(&self) -> u64 {
        self.limit.saturating_sub(self.charged())
    }

    /// Decides what each client gets from now on.
    pub(super) fn plan(&mut self, now: Timestamp, config: &QuotaConfig) -> Vec<(StreamId, Order)> {
        self.expire(now, config);
        let mut orders = self.abandon(now, config);
        let targets = self.targets(now, config);
        let mut lacking = Vec::new();
        for &(stream, target) in &targets {
            let Some(client) = self.clients.get_mut(&stream) else { continue };
            let part = client.assignment.map_or(Part::default(), |it| it.part);
            let has = part.units();
            // A change costs a burst, so there are none for a tenth.
            if target + target / 10 < has {
                // Others have to get something of it, at the latest when it has ended.
                client.lapses = true;
                if let Some(new) = self.reduced(target, part) {
                    orders.push((stream, self.assign(stream, new, now, config)));
                }
            } else if has + target / 10 < target || client.assignment.is_none() || part.is_thin() {
                lacking.push((has, target, stream));
            } else {
                client.lapses = false;
            }
        }
        // Those that have the least of their target come first.
        lacking.sort_unstable_by_key(|&(has, target, _)| has * 1_000 / target.max(1));
        for (_, target, stream) in lacking {
            let old = self.clients[&stream].assignment;
            let part = old.map_or(Part::default(), |it| it.part);
            let more = self.fitting(target, part).filter(|it| {
                let grows = it.units() > part.units() + target / 20;
                grows || old.is_none() || part.is_thin() && !it.is_thin()
            });
            match more {
                Some(more) => orders.push((stream, self.assign(stream, more, now, config))),
                None if old.is_none() => {
                    orders.push((stream, self.assign(stream, Part::default(), now, config)));
                }
                None => {
                    if let Some(client) = self.clients.get_mut(&stream) {
                        client.lapses = false;
                    }
                }
            }
        }
        orders.extend(self.renew(now, config));
        orders
    }

    /// Sends assignments again that stay, before they may have ended.
    fn renew(&mut self, now: Timestamp, config: &QuotaConfig) -> Vec<(StreamId, Order)> {
        let is_due = |client: &Client| {
            let age = |it: Assignment| now.saturating_since(it.sent);
            !client.lapses && client.assignment.is_some_and(|it| age(it) >= config.renewal())
        };
        let due = self.clients.iter().filter(|(_, it)| is_due(it)).map(|(&stream, _)| stream);
        let due: Vec<_> = due.collect();
        let mut orders = Vec::new();
        for stream in due {
            let client = &self.clients[&stream];
            let is_silent = now.saturating_since(client.last_report) > config.silence;
            let Some(Assignment { part, sent }) = client.assignment else { continue };
            // A limit that has become lower leaves no room for what is too much.
            if is_silent || self.charged() > self.limit {
                continue;
            }
            if now.saturating_add(config.delivery) < sent.saturating_add(config.ttl) {
                let renewed = self.clients.get_mut(&stream);
                if let Some(assignment) = renewed.and_then(|it| it.assignment.as_mut()) {
                    assignment.sent = now;
                }
                orders.push((stream, Order::Assign(part.strategy(self.window))));
            } else if part.beyond(part) <= self.free() {
                // The client may have begun again with a full bucket.
                orders.push((stream, self.assign(stream, part, now, config)));
            }
        }
        orders
    }

    /// Ends the assignments that no client can use any more, and the charges.
    fn expire(&mut self, now: Timestamp, config: &QuotaConfig) {
        let lasts = config.ttl + config.delivery;
        let mut ended = Vec::new();
        for client in self.clients.values_mut() {
            let is_over = |it: &mut Assignment| it.sent.saturating_add(lasts) <= now;
            ended.extend(client.assignment.take_if(is_over));
        }
        for assignment in ended {
            self.retire(assignment, assignment.part.units(), config);
        }
        self.ending.end(now);
        // A share is only of use if it is there until the last charge of an assignment of now.
        let last = now.saturating_add(lasts + self.window);
        (self.limit, self.goal) = match self.share {
            None => (self.whole, self.whole),
            Some(share) if last <= share.until => {
                let limit = share.units.min(self.whole);
                (limit, share.goal.min(limit))
            }
            Some(_) => (0, 0),
        };
    }

    /// Takes an assignment out of the sum, and charges `units` until it has left each interval.
    fn retire(&mut self, assignment: Assignment, units: u64, config: &QuotaConfig) {
        self.assigned -= assignment.part.units();
        let lasts = config.ttl + config.delivery + self.window;
        self.ending.add(units, assignment.sent.saturating_add(lasts), lasts);
    }

    /// Abandons the buckets of clients without requests.
    fn abandon(&mut self, now: Timestamp, config: &QuotaConfig) -> Vec<(StreamId, Order)> {
        let is_idle = |it: &Client| now.saturating_since(it.last_request) > config.idle;
        let idle = self.clients.iter().filter(|(_, it)| is_idle(it)).map(|(&stream, _)| stream);
        let idle: Vec<_> = idle.collect();
        idle.into_iter()
            .map(|stream| {
                self.remove(stream, config);
                (stream, Order::Abandon)
            })
            .collect()
    }

    /// Returns the share of each client.
    fn targets(&self, now: Timestamp, config: &QuotaConfig) -> Vec<(StreamId, u64)> {
        let want = |it: &Client| it.want(self.goal, self.window, now, config);
        let wants = self.clients.iter().map(|(&id, it)| (id, want(it)));
        // A silent client takes no turn.
        let (mut clients, silent): (Vec<_>, Vec<_>) = wants.partition(|it| it.1 > 0);
        let count = clients.len() as u64;
        // Something has to be free, for the bursts of smaller assignments.
        let reserve = (self.goal / 80).min(count);
        let usable = self.goal - reserve;
        if count > usable {
            // They take turns: another one begins each time.
            let turn = now.as_nanos() / saturating_nanos(config.ttl * 2 + self.window);
            let first = turn.wrapping_mul(usable) % count.max(1);
            clients.rotate_left(usize::try_from(first).unwrap_or(0));
            let gets = |(index, (id, want)): (usize, (StreamId, u64))| {
                (id, u64::from((index as u64) < usable).min(want))
            };
            return clients.into_iter().enumerate().map(gets).chain(silent).collect();
        }
        let wants: Vec<_> = clients.iter().map(|&(_, want)| want).collect();
        let shares = shares(&wants, usable);
        let targets = clients.into_iter().zip(shares).map(|((id, _), share)| (id, share));
        targets.chain(silent).collect()
    }

    /// Returns the largest part of up to `units` that can replace `old` now.
    fn fitting(&self, units: u64, old: Part) -> Option<Part> {
        let free = self.free();
        // One less for each that the burst takes.
        let units = units.min(old.rate + free);
        let part = Part::new(units, free);
        let surplus = part.beyond(old).saturating_sub(free);
        let part = Part { rate: part.rate.saturating_sub(surplus), ..part };
        (part.units() > 0 && part.beyond(old) <= free).then_some(part)
    }

    /// Returns a part of `units`, fewer than those of `old`, that can replace it now.
    fn reduced(&self, units: u64, old: Part) -> Option<Part> {
        let free = self.free();
        let part = Part::new(units, free);
        (part.beyond(old) <= free).then_some(part)
    }

    /// Assigns a part, and charges what the client may still use of the one before.
    fn assign(&mut self, id: StreamId, part: Part, now: Timestamp, config: &QuotaConfig) -> Order {
        let window = self.window;
        if let Some(client) = self.clients.get_mut(&id) {
            let old = client.assignment.replace(Assignment { part, sent: now });
            client.lapses = false;
            self.assigned += part.units();
            if let Some(old) = old {
                let rest = old.part.burst + old.part.rate.saturating_sub(part.rate);
                self.retire(old, rest, config);
            }
        }
        debug_assert!(part.units() == 0 || self.charged() <= self.limit);
        Order::Assign(part.strategy(window))
    }
}

fn saturating_nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(1)
}
