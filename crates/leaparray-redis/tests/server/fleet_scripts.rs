//! The scripts of a fleet beside the specification, [`Archive`]: the same messages get the same
//! answers.

use std::collections::BTreeMap;

use leaparray_redis::engine::fleet::script;
use leaparray_redis::fleet::{
    Archive, Delivery, FleetConfig, FleetKeys, NamesFetch, Outcome, ProcessId, Receipt,
    SecondBytes, Survey,
};

use crate::server::Server;

/// Replaces the clock of the server: a test sets the time.
const GIVEN: &str = "local time = tonumber(table.remove(ARGV))\n";

/// A server and its specification, after the same messages.
struct Pair {
    config: FleetConfig,
    keys: FleetKeys,
    connection: redis::Connection,
    scripts: [redis::Script; 4],
    archive: Archive,
    time: u64,
}

impl Pair {
    fn new(server: &Server, name: &str, config: FleetConfig) -> Self {
        let script = |it: &str| redis::Script::new(&format!("{GIVEN}{it}"));
        // A time to come: what the test's clock has not reached does not expire by the server's.
        let hour = 3_600_000_000;
        let now: (u64, u64) = redis::cmd("TIME").query(&mut server.connect()).unwrap();
        Self {
            config,
            keys: FleetKeys::new(name, &config).unwrap(),
            connection: server.connect(),
            scripts: [script::DELIVER, script::SURVEY, script::FETCH, script::NAMES].map(script),
            archive: Archive::new(config),
            time: now.0 * 1_000_000 + hour,
        }
    }

    fn deliver(&mut self, delivery: &Delivery) -> Receipt {
        let mut invocation = self.scripts[0].prepare_invoke();
        for key in script::deliver_keys(&self.keys, delivery) {
            invocation.key(key);
        }
        for argument in script::deliver_arguments(&self.config, delivery) {
            invocation.arg(argument);
        }
        invocation.arg(self.time);
        let reply: script::DeliverReply = invocation.invoke(&mut self.connection).unwrap();
        let receipt = script::receipt(reply).unwrap();
        assert_eq!(receipt, self.archive.deliver(self.time, delivery), "{delivery:?}");
        receipt
    }

    fn survey(&mut self) -> Survey {
        let mut invocation = self.scripts[1].prepare_invoke();
        invocation.key(self.keys.records()).key(self.keys.contacts());
        invocation.arg(self.config.departed()).arg(self.time);
        let reply: Vec<redis::Value> = invocation.invoke(&mut self.connection).unwrap();
        let text = |it: &redis::Value| redis::from_redis_value_ref::<Vec<u8>>(it).unwrap();
        let number = |it: &redis::Value| redis::from_redis_value_ref::<u64>(it).unwrap();
        let utf8 = |it: &redis::Value| String::from_utf8(text(it)).unwrap();
        let processes =
            reply[2..].chunks_exact(3).map(|it| (utf8(&it[0]), utf8(&it[1]), text(&it[2])));
        let mut found =
            script::survey((number(&reply[0]), number(&reply[1]), processes.collect())).unwrap();
        found.processes.sort_by_key(|it| it.process);
        let mut expected = self.archive.survey(self.time);
        if expected.processes.is_empty() {
            // It means nothing, and the server keeps it.
            expected.since = found.since;
        }
        assert_eq!(found, expected);
        found
    }

    fn second(&mut self, second: u64, processes: &[ProcessId]) {
        let fields = script::second_fields(&self.config, second, processes);
        let mut invocation = self.scripts[2].prepare_invoke();
        invocation.key(self.keys.second(second)).arg(fields).arg(self.time);
        let mut found: Vec<Option<Vec<u8>>> = invocation.invoke(&mut self.connection).unwrap();
        found.resize(processes.len(), None);
        assert_eq!(found, self.archive.second(self.time, second, processes), "{second}");
    }

    fn names(&mut self, from: u32) {
        // The names of a process without a record expire by the clock of the server.
        let fetches = self.archive.survey(self.time).processes.into_iter().enumerate();
        let fetches = fetches.map(|(count, it)| NamesFetch {
            process: it.process,
            from,
            count: u32::try_from(count).unwrap(),
        });
        let fetches: Vec<_> = fetches.collect();
        let mut invocation = self.scripts[3].prepare_invoke();
        invocation.key(script::names_keys(&self.keys, &fetches));
        invocation.arg(script::names_arguments(&fetches)).arg(self.time);
        let found = script::names(invocation.invoke(&mut self.connection).unwrap());
        let expected = fetches.iter().map(|it| self.archive.names(it.process, it.from, it.count));
        assert_eq!(found, expected.collect::<Vec<_>>());
    }

    fn lose_all(&mut self) {
        let keys: Vec<String> = redis::cmd("KEYS")
            .arg(format!("{}*", self.keys.records().trim_end_matches("records")))
            .query(&mut self.connection)
            .unwrap();
        if !keys.is_empty() {
            redis::cmd("DEL").arg(keys).exec(&mut self.connection).unwrap();
        }
        self.archive = Archive::new(self.config);
    }
}

/// Random deliveries of four processes: new, repeated and old ones, early and late, with too many
/// and too few names, while time passes, and data is lost.
#[test]
#[ignore = "needs redis-server"]
fn scripts_answer_as_their_specification() {
    let Some(server) = Server::start("the scripts of a fleet") else { return };
    let config = FleetConfig::default();
    let short = FleetConfig::default().with_history(2).unwrap().with_lost_after(3).unwrap();
    let short = short.with_delivery(4).unwrap().with_grace(1).unwrap().with_departed(20).unwrap();
    for (seed, config) in [(1, config), (2, short)] {
        let mut pair = Pair::new(&server, &format!("fleet {seed}"), config);
        let mut random = fastrand::Rng::with_seed(seed);
        let mut outcomes = BTreeMap::<&str, u32>::new();
        // The version and the names of each process, as it knows them.
        let mut known = [(0, 0); 4];
        let mut last = None::<Delivery>;
        for step in 0..4_000_u32 {
            match random.u32(..200) {
                0 => pair.lose_all(),
                1..4 => pair.time += random.u64(..40_000_000),
                4 => pair.time += 700_000_000,
                _ => pair.time += random.u64(..1_500_000),
            }
            let index = random.usize(..4);
            let (base, names) = known[index];
            let now = pair.time / 1_000_000;
            let count = random.u64(..4);
            let latest = (now + random.u64(..6)).saturating_sub(random.u64(..4));
            let first = latest.saturating_sub(count + random.u64(..3) * random.u64(..20));
            let seconds = (first..first + count).map(|second| SecondBytes {
                second,
                // Bytes that are no text.
                bytes: vec![255, 0, u8::try_from(step % 251).unwrap()],
            });
            let name = |it: u32| format!("name {it}").into_bytes();
            let wrong = if random.u32(..10) == 0 { 2 } else { 0 };
            let delivery = Delivery {
                process: ProcessId(index as u64),
                base: if random.u32(..10) == 0 { base + 1 } else { base },
                first: latest,
                record: format!("record {step}:").into_bytes(),
                seconds: seconds.collect(),
                names_before: names + wrong,
                names: (0..random.u32(..3)).map(|it| name(names + wrong + it)).collect(),
            };
            // One in ten is an old one.
            let delivery = last.filter(|_| random.u32(..10) == 0).unwrap_or(delivery);
            let receipt = pair.deliver(&delivery);
            let of = usize::try_from(delivery.process.0).unwrap();
            let outcome = match &receipt.outcome {
                Outcome::Taken => {
                    known[of] = (delivery.base + 1, receipt.names);
                    "taken"
                }
                Outcome::Conflict { version, .. } => {
                    known[of] = (*version, receipt.names);
                    "conflict"
                }
                Outcome::TooLate => "late",
                Outcome::TooEarly => "early",
                Outcome::NamesLost => {
                    known[of].1 = receipt.names;
                    "names"
                }
                other => panic!("{other:?}"),
            };
            *outcomes.entry(outcome).or_default() += 1;
            if random.bool() {
                pair.survey();
                let processes: Vec<_> = (0..5).map(ProcessId).collect();
                pair.second(now.saturating_sub(random.u64(..120)), &processes);
                pair.second(first, &processes);
                pair.names(random.u32(..3));
            }
            last = Some(delivery);
        }
        assert_eq!(outcomes.len(), 5, "{outcomes:?}");
        assert!(outcomes.values().all(|it| *it > 20), "{outcomes:?}");
    }
}

#[test]
#[ignore = "needs redis-server"]
fn all_keys_expire() {
    let Some(server) = Server::start("the keys of a fleet") else { return };
    let config = FleetConfig::default();
    let mut pair = Pair::new(&server, "shop", config);
    // The server's own time.
    let now: (u64, u64) = redis::cmd("TIME").query(&mut pair.connection).unwrap();
    pair.time = now.0 * 1_000_000 + now.1;
    let bytes = vec![1];
    let delivery = Delivery {
        process: ProcessId(1),
        base: 0,
        first: now.0,
        record: vec![1],
        seconds: vec![SecondBytes { second: now.0 - 1, bytes: bytes.clone() }],
        names_before: 0,
        names: vec![bytes],
    };
    assert_eq!(pair.deliver(&delivery).outcome, Outcome::Taken);
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut pair.connection).unwrap();
    assert_eq!(keys.len(), 4, "{keys:?}");
    for key in keys {
        let left: i64 = redis::cmd("PTTL").arg(&key).query(&mut pair.connection).unwrap();
        let expected = if key.contains(":second:") { 98_000..=100_000 } else { 598_000..=600_000 };
        assert!(expected.contains(&left), "{key}: {left} ms");
    }
}
