//! Several instances, whose shares come from the script for Redis.

use std::time::Duration;

use leaparray::Timestamp;
use leaparray_envoy::quota::{Action, BucketLimit, QuotaConfig, Quotas, ShareAsk, StreamId, Usage};
use mlua::{Lua, Table};
use proptest::prelude::*;

use crate::client::{Client, Load};
use crate::world::{STEP, bucket, most};

/// As in the server.
const SPARE: Duration = Duration::from_secs(3);
const LIMIT: u32 = 400;

/// The commands of Redis that the script uses, on a table.
const REDIS: &str = r"
  hashes, ends, NOW, RUN = {}, {}, 0, 'a'
  redis = { call = function(command, key, ...)
    local rest = {...}
    if command == 'TIME' then
      return {tostring(math.floor(NOW / 1000)), tostring(NOW % 1000 * 1000)}
    elseif command == 'INFO' then
      return 'run_id:' .. RUN .. '\r\nmaster_replid:' .. RUN .. '\r\n'
    end
    if ends[key] and ends[key] <= NOW then hashes[key], ends[key] = nil, nil end
    local hash = hashes[key] or {}
    if command == 'HMGET' then
      return {hash[rest[1]] or false, hash[rest[2]] or false}
    elseif command == 'HGETALL' then
      local all = {}
      for field, value in pairs(hash) do all[#all + 1] = field; all[#all + 1] = value end
      return all
    elseif command == 'HDEL' then
      hash[rest[1]] = nil
    elseif command == 'HSET' then
      for i = 1, #rest, 2 do hash[rest[i]] = tostring(rest[i + 1]) end
      hashes[key] = hash
    elseif command == 'PEXPIREAT' then
      ends[key] = tonumber(rest[1])
    else
      error(command)
    end
  end }
";

struct Instance {
    quotas: Quotas,
    is_alive: bool,
    /// An answer that has not arrived: when it does, its ask, and its share.
    answer: Option<(Timestamp, ShareAsk, u64, u64, Timestamp)>,
}

struct Fleet {
    lua: Lua,
    config: QuotaConfig,
    instances: Vec<Instance>,
    /// Clients, with their instances.
    clients: Vec<(Client, usize)>,
    now: Timestamp,
    steps: u64,
    admitted: Vec<u64>,
    is_away: bool,
}

impl Fleet {
    fn new(instances: usize) -> Self {
        let lua = Lua::new();
        lua.load(REDIS).exec().unwrap();
        let config = QuotaConfig::default().with_ttl(Duration::from_secs(2));
        let mut fleet = Self {
            lua,
            config,
            instances: Vec::new(),
            clients: Vec::new(),
            now: Timestamp::from_secs(1_000),
            steps: 0,
            admitted: Vec::new(),
            is_away: false,
        };
        (0..instances).for_each(|_| fleet.start());
        fleet
    }

    fn start(&mut self) {
        let quotas = Quotas::with_shares(self.config);
        self.instances.push(Instance { quotas, is_alive: true, answer: None });
    }

    fn add(&mut self, load: Load, instance: usize) -> usize {
        let stream = self.instances[instance].quotas.open().unwrap();
        self.clients.push((Client::new(stream, load), instance));
        self.clients.len() - 1
    }

    /// Kills an instance. Its clients go to another one.
    fn kill(&mut self, killed: usize) {
        self.instances[killed].is_alive = false;
        let Some(other) = self.instances.iter().position(|it| it.is_alive) else { return };
        for (client, instance) in self.clients.iter_mut().filter(|it| it.1 == killed) {
            *instance = other;
            client.stream = self.instances[other].quotas.open().ok();
        }
    }

    /// The server starts again, with nothing.
    fn restart_server(&self) {
        self.lua.load("hashes, ends, RUN = {}, {}, RUN == 'a' and 'b' or 'a'").exec().unwrap();
    }

    fn ask(&self, number: usize, least: u64, wanted: u64, lasts: Duration) -> (u64, u64) {
        let globals = self.lua.globals();
        globals.set("NOW", self.now.as_nanos() / 1_000_000).unwrap();
        globals.set("KEYS", vec!["shares", "run"]).unwrap();
        let lasts = u64::try_from(lasts.as_millis()).unwrap();
        let arguments = [number as u64, least, wanted, LIMIT.into(), lasts];
        globals.set("ARGV", arguments.map(|it| it.to_string()).to_vec()).unwrap();
        let script = self.lua.load(include_str!("../../src/server/share.lua"));
        let answer: Table = script.eval().unwrap();
        (answer.get(1).unwrap(), answer.get(2).unwrap())
    }

    /// Asks for each instance twice a second. `delay` returns how long an answer takes, if it is
    /// not lost.
    fn exchange(&mut self, delay: &mut dyn FnMut() -> Option<Duration>) {
        for number in 0..self.instances.len() {
            let Instance { quotas, answer, is_alive } = &mut self.instances[number];
            if let Some((_, ask, units, goal, until)) = answer.take_if(|it| it.0 <= self.now) {
                quotas.set_share(&ask, units, goal, until);
            }
            let is_due = (self.steps + 17 * number as u64).is_multiple_of(50);
            if !is_due || self.is_away || !*is_alive {
                continue;
            }
            for ask in self.instances[number].quotas.asks(self.now) {
                let lasts = ask.lasts + SPARE;
                let (units, goal) = self.ask(number, ask.least, ask.wanted, lasts);
                self.instances[number].answer = delay().map(|delay| {
                    let until = self.now.saturating_add(lasts);
                    (self.now.saturating_add(delay), ask, units, goal, until)
                });
            }
        }
    }

    fn step(&mut self, delay: &mut dyn FnMut() -> Option<Duration>) {
        let sum = self.clients.iter_mut().map(|(it, _)| it.step(self.now, self.steps)).sum();
        self.admitted.push(sum);
        self.exchange(delay);
        for index in 0..self.clients.len() {
            if (self.steps + index as u64).is_multiple_of(50) {
                self.report(index);
            }
        }
        for number in 0..self.instances.len() {
            if self.instances[number].is_alive && (self.steps + number as u64).is_multiple_of(25) {
                let actions = self.instances[number].quotas.tick(self.now);
                self.send(number, actions);
            }
        }
        self.now = self.now.saturating_add(STEP);
        self.steps += 1;
    }

    fn report(&mut self, index: usize) {
        let (client, instance) = &mut self.clients[index];
        let (Some(stream), number) = (client.stream, *instance) else { return };
        let allowed = std::mem::take(&mut client.allowed);
        let denied = std::mem::take(&mut client.denied);
        let usage = Usage { bucket: bucket(), allowed, denied };
        let limit = BucketLimit::Requests { requests: LIMIT, window: Duration::from_secs(1) };
        let quotas = &mut self.instances[number].quotas;
        let actions = quotas.report(stream, "shop", [usage], self.now, &|_, _| limit).unwrap();
        self.send(number, actions);
    }

    fn send(&mut self, number: usize, actions: Vec<(StreamId, Action)>) {
        let arrival = self.now.saturating_add(Duration::from_millis(5));
        for (stream, action) in actions {
            let mut clients = self.clients.iter_mut();
            let client = clients.find(|it| it.1 == number && it.0.stream == Some(stream));
            if let (Some((client, _)), Action::Assign { strategy, ttl, .. }) = (client, action) {
                client.on_way.push((arrival, strategy, ttl));
            }
        }
    }

    fn run(&mut self, seconds: u64) {
        for _ in 0..seconds * 100 {
            self.step(&mut || Some(Duration::from_millis(10)));
        }
    }

    /// The part of the limit that was used in the last seconds.
    fn used(&self, seconds: u32) -> f64 {
        let from = self.admitted.len() - 100 * seconds as usize;
        let used = self.admitted[from..].iter().sum::<u64>();
        #[expect(clippy::cast_precision_loss, reason = "few")]
        let used = used as f64;
        used / f64::from(LIMIT * seconds)
    }

    fn assert_never_over(&self) {
        let most = most(&self.admitted, 100);
        assert!(most <= LIMIT.into(), "{most} of {LIMIT}");
    }
}

/// Returns how many requests each client admits in some seconds.
fn admitted(fleet: &mut Fleet, seconds: u64) -> Vec<u64> {
    let mut sums = vec![0; fleet.clients.len()];
    for _ in 0..seconds * 100 {
        let before: Vec<_> = fleet.clients.iter().map(|it| it.0.allowed).collect();
        fleet.step(&mut || Some(Duration::from_millis(10)));
        for ((sum, (client, _)), before) in sums.iter_mut().zip(&fleet.clients).zip(before) {
            // A report begins anew.
            *sum += client.allowed.checked_sub(before).unwrap_or(client.allowed);
        }
    }
    sums
}

#[test]
fn instances_that_come_later_get_their_part() {
    let mut fleet = Fleet::new(3);
    fleet.add(Load::Steady(20), 0);
    fleet.run(25);
    println!("one: {:.3}", fleet.used(5));
    assert!(fleet.used(5) >= 0.95, "{}", fleet.used(5));
    fleet.add(Load::Steady(20), 1);
    fleet.add(Load::Steady(20), 2);
    fleet.run(30);
    println!("three: {:.3}", fleet.used(5));
    let parts = admitted(&mut fleet, 10);
    assert!(parts.iter().all(|it| (1_100..1_400).contains(it)), "{parts:?}");
    assert!(fleet.used(5) >= 0.92, "{}", fleet.used(5));
    // The load moves.
    fleet.clients[0].0.load = Load::None;
    fleet.run(25);
    println!("two: {:.3}", fleet.used(5));
    assert!(fleet.used(5) >= 0.92, "{}", fleet.used(5));
    fleet.assert_never_over();
}

#[test]
fn demand_that_falls_and_rises_below_the_limit_is_not_refused() {
    let mut fleet = Fleet::new(2);
    for instance in [0, 1] {
        fleet.add(Load::Steady(1), instance);
    }
    fleet.run(25);
    let refused = |fleet: &Fleet| fleet.clients.iter().map(|it| it.0.refused).sum::<u64>();
    let before = refused(&fleet);
    for _ in 0..10 {
        // Half of its requests in the last second, and all of them again.
        fleet.clients[0].0.load = Load::None;
        fleet.run(1);
        fleet.clients[0].0.load = Load::Steady(1);
        fleet.run(4);
    }
    let refused = refused(&fleet) - before;
    println!("refused: {refused} of 9000");
    assert!(refused <= 450, "{refused} of 9000");
    fleet.assert_never_over();
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Start,
    Kill,
    RestartServer,
    Away(bool),
    Load(Load),
    Join(Load),
}

fn events() -> impl Strategy<Value = Event> {
    let load = || {
        prop_oneof![
            (1_u64..100).prop_map(Load::Steady),
            (20_u64..400).prop_map(Load::Saved),
            Just(Load::None)
        ]
    };
    prop_oneof![
        1 => Just(Event::Start),
        2 => Just(Event::Kill),
        1 => Just(Event::RestartServer),
        2 => any::<bool>().prop_map(Event::Away),
        3 => load().prop_map(Event::Load),
        2 => load().prop_map(Event::Join),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..Default::default() })]

    #[test]
    fn no_second_has_more_than_the_limit(
        events in prop::collection::vec((0_u64..4_000, any::<prop::sample::Index>(), events()), 0..25),
        delays in prop::collection::vec(prop::option::weighted(0.9, 0_u64..1_000), 1..50),
    ) {
        let mut fleet = Fleet::new(3);
        for instance in 0..3 {
            fleet.add(Load::Steady(20), instance);
        }
        let mut delays = delays.into_iter().map(|it| it.map(Duration::from_millis)).cycle();
        for step in 0..4_000 {
            for &(_, index, event) in events.iter().filter(|it| it.0 == step) {
                let alive: Vec<_> =
                    (0..fleet.instances.len()).filter(|&it| fleet.instances[it].is_alive).collect();
                let client = index.index(fleet.clients.len());
                match event {
                    Event::Start => fleet.start(),
                    Event::Kill if alive.len() > 1 => fleet.kill(*index.get(&alive)),
                    Event::Kill => {}
                    Event::RestartServer => fleet.restart_server(),
                    Event::Away(is_away) => fleet.is_away = is_away,
                    Event::Load(load) => fleet.clients[client].0.load = load,
                    Event::Join(load) => drop(fleet.add(load, *index.get(&alive))),
                }
            }
            fleet.step(&mut || delays.next().flatten());
        }
        fleet.assert_never_over();
    }
}
