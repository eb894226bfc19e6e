//! The script beside the specification, [`Ledger`]: the same asks get the same answers.

use std::collections::BTreeMap;
use std::time::Duration;

use leaparray_redis::engine::script;
use leaparray_redis::lease::{
    Answer, Ask, Epoch, Group, LeaseConfig, LeaseKeys, Ledger, MAX_EXACT, Move,
};

use crate::server::Server;

/// Replaces the clock of the server: a test sets the time and the identity.
const GIVEN: &str = "local time, identity = tonumber(ARGV[#ARGV - 1]), tonumber(ARGV[#ARGV])\n";

/// A server and its specification, after the same asks.
struct Pair {
    config: LeaseConfig,
    keys: LeaseKeys,
    connection: redis::Connection,
    script: redis::Script,
    ledger: Ledger,
    /// The group of the limit, if it is in one, and when its mark expires.
    group: Option<(Group, u64)>,
    time: u64,
    identity: u64,
    /// The number of a node's last ask, and when it expires.
    last: BTreeMap<u64, (u64, u64)>,
}

impl Pair {
    fn new(server: &Server, name: &str, config: LeaseConfig) -> Self {
        Self {
            config,
            keys: LeaseKeys::new(name, &config).unwrap(),
            connection: server.connect(),
            script: redis::Script::new(&format!("{GIVEN}{}", script::LEASE)),
            ledger: Ledger::new(config),
            group: None,
            // Below 2^53, and with microseconds.
            time: 1_700_000_000_123_456,
            identity: 1,
            last: BTreeMap::new(),
        }
    }

    fn in_group(server: &Server, name: &str, config: LeaseConfig) -> Self {
        let keys = LeaseKeys::in_group(name, "limit", &config).unwrap();
        Self { keys, group: Some((Group::default(), 0)), ..Self::new(server, name, config) }
    }

    /// Sends an ask to both, and returns the answer, which is the same.
    fn ask(&mut self, ask: &Ask) -> Answer {
        self.expire();
        let mut invocation = self.script.prepare_invoke();
        for key in script::keys(&self.keys, ask) {
            invocation.key(key);
        }
        for argument in script::arguments(&self.config, ask) {
            invocation.arg(argument);
        }
        invocation.arg(self.time).arg(self.identity);
        let reply: Vec<i64> = invocation.invoke(&mut self.connection).unwrap();
        let answer = script::answer(ask, &reply).unwrap();
        let (time, identity) = (self.time, self.identity);
        let kept = u64::try_from(self.config.retention().as_micros()).unwrap();
        let expected = match &mut self.group {
            Some((group, expires)) => {
                *expires = answer.now + kept;
                self.ledger.lease_in(group, time, identity, ask)
            }
            None => self.ledger.lease(time, identity, ask),
        };
        assert_eq!(answer, expected, "{ask:?} at {}", self.time);
        if !answer.is_taken {
            self.last.insert(ask.node, (ask.seq, answer.now + kept));
        }
        answer
    }

    /// Deletes what has expired by the test's clock: the server's own clock hardly moves.
    fn expire(&mut self) {
        let time = self.time;
        for (node, _) in self.last.iter().filter(|(_, it)| it.1 <= time) {
            let key = self.keys.node(*node);
            redis::cmd("DEL").arg(key).exec(&mut self.connection).unwrap();
        }
        self.last.retain(|_, it| it.1 > time);
        if self.group.as_ref().is_some_and(|it| it.1 <= time) {
            let keys = [self.keys.mark(), self.keys.charges()];
            redis::cmd("DEL").arg(&keys).exec(&mut self.connection).unwrap();
        }
    }

    fn evict(&mut self) {
        redis::cmd("DEL").arg(self.keys.charges()).exec(&mut self.connection).unwrap();
        self.ledger.evict_charges();
    }

    fn evict_mark(&mut self) {
        redis::cmd("DEL").arg(self.keys.mark()).exec(&mut self.connection).unwrap();
        self.ledger.evict_mark();
    }

    fn restart(&mut self) {
        let nodes = self.last.keys().map(|it| self.keys.node(*it));
        let keys = nodes.chain([self.keys.mark(), self.keys.charges()]).chain(self.keys.group());
        let keys: Vec<_> = keys.collect();
        redis::cmd("DEL").arg(keys).exec(&mut self.connection).unwrap();
        self.ledger = Ledger::new(self.config);
        self.group = self.group.take().map(|_| (Group::default(), 0));
        self.identity += 1;
        self.last.clear();
    }

    fn time_to_live(&mut self, key: &str) -> i64 {
        redis::cmd("PTTL").arg(key).query(&mut self.connection).unwrap()
    }
}

fn config(limit: u64, buckets: u32, millis: u64, validity: u32) -> LeaseConfig {
    let config = LeaseConfig::of_buckets(limit, buckets, Duration::from_millis(millis)).unwrap();
    config.with_validity(validity).unwrap()
}

/// Random asks of four nodes: new, repeated and overtaken ones, with moves that are right and
/// wrong, while time passes, stands still and steps back, and state is lost.
fn compare(pair: &mut Pair, random: &mut fastrand::Rng, steps: u32) -> (u64, u64) {
    let bucket = pair.config.bucket_micros();
    let limit = pair.config.limit();
    let (mut granted, mut ahead) = (0, 0);
    let mut seqs = [0; 4];
    // The number of the last ask of each node, and what it wanted.
    let mut last = [(0, 0); 4];
    let mut known: Option<Epoch> = None;
    // The epoch and the time of the last answer to each node.
    let mut answers = [(None, 0); 4];
    for _ in 0..steps {
        match random.u32(..1_000) {
            0..10 => pair.time -= random.u64(..3 * bucket),
            10..20 => pair.time += random.u64(..20 * bucket),
            20..400 => pair.time += random.u64(..bucket),
            400..406 => pair.evict(),
            406..410 => pair.restart(),
            410..414 => pair.identity += 1,
            414..418 => pair.evict_mark(),
            _ => {}
        }
        let node = random.usize(..4);
        let seq = match random.u32(..10) {
            0 => seqs[node],
            1 => random.u64(..=seqs[node] + 1),
            _ => {
                seqs[node] += 1;
                seqs[node]
            }
        };
        let epoch = match random.u32(..10) {
            0 => None,
            1 => Some(Epoch { identity: pair.identity, since: pair.time }),
            _ => known,
        };
        let k = pair.time / bucket;
        let validity = pair.config.validity();
        let mut near = || (k + u64::from(validity) + 2).saturating_sub(random.u64(..8));
        let places: Vec<_> = (0..6).map(|_| near()).collect();
        let mut moves = Vec::new();
        for at in 0..random.usize(..4) {
            let to = random.bool().then_some(places[at + 3]);
            moves.push(Move { from: places[at], to, count: random.u64(..=limit.min(20)) });
        }
        let is_repeated = seq == last[node].0;
        let want = if is_repeated {
            last[node].1
        } else if random.u32(..20) == 0 {
            u64::MAX
        } else {
            random.u64(..=limit.min(30))
        };
        if seq > last[node].0 {
            last[node] = (seq, want);
        }
        let validity = random.u32(..validity + 3);
        let (horizon, weight) = (random.u64(..12), random.u64(..=limit.min(40)));
        // Half of the asks that have a number again are of another process.
        let nonce = random.u64(1..=2);
        let number = u64::try_from(node).unwrap() + 1;
        // At times, of an answer that the server has forgotten.
        let of_epoch = if answers[node].0 == known { answers[node].1 } else { 0 };
        let seen = if random.u32(..2_000) == 0 { pair.time + 1 } else { of_epoch };
        let ask =
            Ask { node: number, seq, nonce, epoch, seen, want, validity, horizon, weight, moves };
        let answer = pair.ask(&ask);
        known = Some(answer.epoch);
        if !answer.is_taken {
            answers[node] = (known, answer.now);
        }
        granted += answer.granted;
        ahead += answer.ahead.iter().map(|it| it.count).sum::<u64>();
    }
    (granted, ahead)
}

#[test]
#[ignore = "needs redis-server"]
fn script_answers_as_the_specification_does() {
    let Some(server) = Server::start("the script beside its specification") else { return };
    let (mut random, mut of_groups) = (fastrand::Rng::with_seed(7), fastrand::Rng::with_seed(8));
    for (index, config) in [
        // Long buckets: keys must not expire by the server's own clock.
        config(1, 2, 20_000, 1),
        config(10, 4, 40_000, 2),
        config(100, 10, 100_000, 6),
        config(LeaseConfig::MAX_LIMIT, 60, 600_000, 3),
        config(1_000, 1, 10_000, 1),
        // With leases that are longer than the window.
        config(20, 3, 30_000, 6),
        // With steps of two buckets.
        config(30, 20, 1_000, 6),
        config(2_000, 22, 1_100, 3),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("random{index}");
        let mut pair = Pair::new(&server, &name, config);
        let (granted, ahead) = compare(&mut pair, &mut random, 4_000);
        println!("{granted} granted, {ahead} ahead");
        // For less than a window.
        let is_granted_ahead = if config.buckets() == 1 { ahead == 0 } else { ahead > 10 };
        assert!(granted > 100 && is_granted_ahead, "{config:?}: {granted}, {ahead} ahead");
        let mut pair = Pair::in_group(&server, &name, config);
        let (granted, ahead) = compare(&mut pair, &mut of_groups, 4_000);
        println!("{granted} granted in a group, {ahead} ahead");
        assert!(granted > 100, "{config:?}: {granted} in a group");
    }
}

#[test]
#[ignore = "needs redis-server"]
fn state_expires_when_no_window_needs_it() {
    let Some(server) = Server::start("the expiry of the state") else { return };
    let config = config(10, 10, 60_000, 3);
    let mut pair = Pair::new(&server, "expiry", config);
    let (node, seq, nonce, epoch, seen, want, validity) = (7, 1, 1, None, 0, 5, 1);
    let (horizon, weight, moves) = (0, 0, vec![]);
    let ask = Ask { node, seq, nonce, epoch, seen, want, validity, horizon, weight, moves };
    pair.ask(&ask);
    let kept = 90_000;
    for key in [pair.keys.charges(), pair.keys.node(7)] {
        let left = pair.time_to_live(&key);
        assert!((kept - 20_000..=kept).contains(&left), "{key}: {left} ms");
    }
    assert_eq!(pair.time_to_live(&pair.keys.mark()), -1, "the mark stays");
    let mut grouped = Pair::in_group(&server, "expiry", config);
    grouped.ask(&ask);
    let left = grouped.time_to_live(&grouped.keys.mark());
    assert!((kept - 20_000..=kept).contains(&left), "the mark of a member: {left} ms");
    assert_eq!(grouped.time_to_live(&grouped.keys.group().unwrap()), -1);
    // The clock steps back by a minute: the charges stay for longer, by the server's clock.
    pair.time -= 60_000_000;
    pair.ask(&Ask { seq: 2, ..ask });
    let left = pair.time_to_live(&pair.keys.charges());
    assert!((kept + 40_000..=kept + 60_000).contains(&left), "{left} ms");
}

#[test]
#[ignore = "needs redis-server"]
fn most_moves_and_buckets_are_answered() {
    let Some(server) = Server::start("the largest ask") else { return };
    let config = config(LeaseConfig::MAX_LIMIT, 256, 256_000, 256);
    let mut pair = Pair::new(&server, "largest", config);
    let ask = |seq, epoch, want, moves| {
        let (node, nonce, validity) = (1, MAX_EXACT - 1, 256);
        let (horizon, weight) = (MAX_EXACT - 1, MAX_EXACT - 1);
        Ask { node, seq, nonce, epoch, seen: 0, want, validity, horizon, weight, moves }
    };
    let epoch = Some(pair.ask(&ask(1, None, 0, vec![])).epoch);
    pair.time += u64::try_from(config.quarantine().as_micros()).unwrap();
    // A charge of which the lowest 32 bits are 0.
    assert_eq!(pair.ask(&ask(2, epoch, 1 << 32, vec![])).granted, 1 << 32);
    pair.time += config.bucket_micros();
    assert_eq!(pair.ask(&ask(3, epoch, 0, vec![])).free, config.limit() - (1 << 32));
    for seq in 4..258 {
        assert_eq!(pair.ask(&ask(seq, epoch, 1_000, vec![])).granted, 1_000);
        pair.time += config.bucket_micros();
    }
    let k = pair.time / config.bucket_micros();
    let moves = (0..70).map(|at| Move { from: k + at, to: Some(k - 1 - at), count: 1_000 });
    // 64 of the moves are applied: the buckets of the others keep their charges.
    let before = pair.ask(&ask(258, epoch, 0, vec![])).free;
    let answer = pair.ask(&ask(259, epoch, 0, moves.collect()));
    assert_eq!((answer.granted, answer.free), (0, before));
}

/// More nodes lack permits than may ask in a bucket, and than may ask in a window.
#[test]
#[ignore = "needs redis-server"]
fn turns_are_those_of_the_specification() {
    let Some(server) = Server::start("turns") else { return };
    for (limit, nodes, buckets, millis, step) in
        [(3, 300, 3, 30_000, 1), (210, 400, 3, 30_000, 1), (100, 800, 51, 1_020, 5)]
    {
        let config = config(limit, buckets, millis, 2);
        let mut pair = Pair::new(&server, &format!("turns {limit}"), config);
        let ask = |node, want| Ask {
            node,
            seq: 1,
            nonce: 1,
            epoch: None,
            seen: 0,
            want,
            validity: 2,
            horizon: 0,
            weight: 0,
            moves: vec![],
        };
        pair.ask(&ask(1, 0));
        pair.time += u64::try_from(pair.config.quarantine().as_micros()).unwrap();
        assert_eq!(pair.ask(&ask(2, limit)).granted, limit);
        let mut turns = Vec::new();
        for node in 0..nodes {
            turns.push(pair.ask(&ask(10 + node, 1)).retry_in / pair.config.bucket_micros());
        }
        turns.dedup();
        let first = [step - 1, step, step + 1];
        assert_eq!(turns[..3], first, "the time is within a bucket");
        pair.time += pair.config.bucket_micros();
        pair.ask(&ask(3, 1));
    }
}

#[test]
#[ignore = "needs redis-server"]
fn identity_changes_with_a_restart() {
    let Some(server) = Server::start("the identity of a server") else { return };
    let Some(other) = Server::start("the identity of a server") else { return };
    let code = format!("{}return {{ identity, time }}", script::CLOCK_AND_IDENTITY);
    let identify = |server: &Server| -> (u64, u64) {
        redis::Script::new(&code).invoke(&mut server.connect()).unwrap()
    };
    let (first, early) = identify(&server);
    let (again, late) = identify(&server);
    assert!(first == again && early <= late && first < 1 << 52);
    assert_ne!(identify(&other).0, first);
}

/// The process is the same, and has the state of another primary.
#[test]
#[ignore = "needs redis-server"]
fn identity_changes_with_a_promotion() {
    let Some(server) = Server::start("the identity of a server") else { return };
    let Some(other) = Server::start("the identity of a server") else { return };
    let code = format!("{}return identity", script::CLOCK_AND_IDENTITY);
    let identify = || -> u64 { redis::Script::new(&code).invoke(&mut server.connect()).unwrap() };
    let before = identify();
    server.follow(&other);
    server.run(&["REPLICAOF", "NO", "ONE"]);
    assert_ne!(identify(), before);
}

/// A group that is declared to be new grants at once, and one that is known is left as it is.
#[test]
#[ignore = "needs redis-server"]
fn group_can_begin_without_a_quarantine() {
    let Some(server) = Server::start("the beginning of a group") else { return };
    let mut pair = Pair::in_group(&server, "begun", config(10, 10, 100_000, 3));
    let begin = redis::Script::new(&format!("{GIVEN}{}", script::BEGIN_GROUP));
    let begin = |pair: &mut Pair| -> bool {
        let group = pair.keys.group().unwrap();
        let (time, identity) = (pair.time, pair.identity);
        let mut invocation = begin.prepare_invoke();
        invocation.key(group).arg(time).arg(identity);
        let is_new: i64 = invocation.invoke(&mut pair.connection).unwrap();
        let (group, _) = pair.group.as_mut().unwrap();
        assert_eq!(group.begin(time, identity), is_new == 1);
        is_new == 1
    };
    let (node, nonce, want, validity) = (7, 1, 4, 2);
    let (epoch, seen, horizon, weight) = (None, 0, 0, 0);
    let ask =
        |seq| Ask { node, seq, nonce, epoch, seen, want, validity, horizon, weight, moves: vec![] };
    assert!(begin(&mut pair));
    assert_eq!(pair.ask(&ask(1)).granted, 4);
    assert!(!begin(&mut pair), "the group is known");
    // Another run of the server: its quarantine holds.
    pair.identity += 1;
    assert!(!begin(&mut pair));
    assert_eq!(pair.ask(&ask(2)).granted, 0);
}
