//! Token buckets of the clock of the process, whose numbers the fast path finds by a word, beside
//! random changes: each rule has the state that the documentation of the changes says.
//!
//! At first, there are so many rules that their buckets are grouped; most are alone for a resource,
//! so a wrong number asks the bucket of another one. Small bursts of different sizes tell these
//! apart.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;
use std::thread;

use leaparray::flow::{Ask, LimiterExt};
use leaparray::{Clock, Registry, Resource};
use leaparray_rules::{RuleSet, Rules};

/// Random numbers, by xorshift.
struct Draw(u64);

impl Draw {
    fn usize(&mut self, range: Range<usize>) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let number = usize::try_from(self.0 >> 33).unwrap();
        range.start + number % (range.end - range.start)
    }
}

const RESOURCES: usize = 80;

/// The names of rules. The first ones are in force from the beginning.
const NAMES: usize = 300;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Bucket,
    Window,
    InFlight,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Enforce,
    Shadow,
    Off,
}

#[derive(Clone, Copy, Debug)]
struct Rule {
    name: usize,
    resource: usize,
    kind: Kind,
    mode: Mode,
}

/// The requests that the limits of a name have charged.
#[derive(Clone, Copy, Debug, Default)]
struct Charged {
    bucket: u64,
    window: u64,
}

impl Rule {
    fn random(rng: &mut Draw, name: usize) -> Self {
        let kind = [Kind::Bucket, Kind::Bucket, Kind::Bucket, Kind::Window, Kind::InFlight];
        let mode =
            [Mode::Enforce, Mode::Enforce, Mode::Enforce, Mode::Enforce, Mode::Shadow, Mode::Off];
        Self {
            name,
            resource: if rng.usize(0..6) == 0 { rng.usize(0..RESOURCES) } else { name % RESOURCES },
            kind: kind[rng.usize(0..kind.len())],
            mode: mode[rng.usize(0..mode.len())],
        }
    }

    const fn burst(self) -> u64 {
        1 + self.name as u64 * 7 % 13
    }

    const fn of_window(self) -> u64 {
        1 + self.name as u64 * 11 % 17
    }

    fn write(self, text: &mut String) {
        let Self { name, resource, kind, mode } = self;
        write!(text, "[[rule]]\nname = \"r{name}\"\nresource = \"{resource}\"\n").unwrap();
        match mode {
            Mode::Enforce => {}
            Mode::Shadow => text.push_str("mode = \"shadow\"\n"),
            Mode::Off => text.push_str("mode = \"off\"\n"),
        }
        match kind {
            Kind::Bucket => writeln!(text, "limit = \"1 per day, bursts of {}\"", self.burst()),
            Kind::Window => writeln!(text, "limit = \"{} per day\"", self.of_window()),
            Kind::InFlight => writeln!(text, "in_flight = 1000"),
        }
        .unwrap();
    }

    fn has_room(self, charged: &Charged) -> bool {
        match self.kind {
            Kind::Bucket => charged.bucket < self.burst(),
            Kind::Window => charged.window < self.of_window(),
            Kind::InFlight => true,
        }
    }

    fn charge(self, charged: &mut Charged) {
        match self.kind {
            Kind::Bucket => charged.bucket += 1,
            Kind::Window => charged.window += 1,
            Kind::InFlight => {}
        }
    }
}

#[derive(Default)]
struct Model {
    rules: Vec<Rule>,
    charged: HashMap<usize, Charged>,
}

impl Model {
    fn apply(&mut self, next: Vec<Rule>) {
        for rule in &next {
            let before = self.rules.iter().find(|it| it.name == rule.name).copied();
            let charged = self.charged.entry(rule.name).or_default();
            match (before.map(|it| it.kind), rule.kind) {
                (Some(Kind::Window), Kind::Bucket) => {
                    charged.bucket = charged.bucket.max(charged.window).min(rule.burst());
                }
                (Some(Kind::Bucket), Kind::Window) => {
                    charged.window = charged.window.max(charged.bucket);
                }
                _ => {}
            }
        }
        self.rules = next;
    }

    fn ask(&mut self, resource: usize) -> bool {
        let of = |it: &&Rule| it.resource == resource && it.mode != Mode::Off;
        let concerned: Vec<_> = self.rules.iter().filter(of).copied().collect();
        let is_admitted = concerned
            .iter()
            .all(|it| it.mode == Mode::Shadow || it.has_room(&self.charged[&it.name]));
        if is_admitted {
            for rule in concerned {
                let charged = self.charged.get_mut(&rule.name).unwrap();
                if rule.has_room(charged) {
                    rule.charge(charged);
                }
            }
        }
        is_admitted
    }
}

fn change(rng: &mut Draw, rules: &mut Vec<Rule>) {
    // Most often one: a change of a number may hide that another one is forgotten.
    let changes = if rng.usize(0..3) == 0 { rng.usize(2..5) } else { 1 };
    for _ in 0..changes {
        let at = if rules.is_empty() { 0 } else { rng.usize(0..rules.len()) };
        match rng.usize(0..8) {
            0 => (0..rules.len()).for_each(|it| rules.swap(it, rng.usize(0..it + 1))),
            1..=2 if !rules.is_empty() => drop(rules.remove(at)),
            3..=4 if !rules.is_empty() => {
                let drawn = Rule::random(rng, rules[at].name);
                match rng.usize(0..3) {
                    0 => rules[at].resource = drawn.resource,
                    1 => rules[at].kind = drawn.kind,
                    _ => rules[at].mode = drawn.mode,
                }
            }
            _ => {
                let name = rng.usize(0..NAMES);
                if !rules.iter().any(|it| it.name == name) {
                    rules.insert(at, Rule::random(rng, name));
                }
            }
        }
    }
}

#[test]
fn rules_keep_what_they_have_charged_across_random_changes() {
    for seed in 1..=4 {
        let rng = &mut Draw(seed);
        let rules = Rules::new(Arc::new(Registry::new()));
        let registry = Arc::clone(rules.registry());
        let listed = |it: usize| registry.resource(&it.to_string()).unwrap();
        let mut kept: Vec<Vec<Resource>> = (0..RESOURCES).map(|it| vec![listed(it)]).collect();
        let mut model = Model::default();
        for step in 0..120 {
            let mut next = model.rules.clone();
            if step == 0 {
                let bucket = |name| Rule { kind: Kind::Bucket, ..Rule::random(rng, name) };
                next.extend((0..RESOURCES).map(bucket));
            } else {
                change(rng, &mut next);
            }
            let mut text = String::new();
            for rule in &next {
                rule.write(&mut text);
            }
            if next.is_empty() {
                text.push_str("rule = []");
            }
            rules.apply(&RuleSet::parse(&text).unwrap());
            model.apply(next);
            for _ in 0..rng.usize(0..60) {
                let number = rng.usize(0..RESOURCES);
                let handles = &mut kept[number];
                let resource = handles[rng.usize(0..handles.len())].clone();
                let handle = match rng.usize(0..12) {
                    0 => resource.in_context("web").unwrap(),
                    1 => listed(number),
                    2 => {
                        registry.remove(&number.to_string());
                        listed(number)
                    }
                    _ => resource,
                };
                let by_limiter = rng.usize(0..2) == 0;
                let ask = || {
                    let ask = Ask::at(handle.clock().now());
                    if by_limiter {
                        rules.limiter(&handle, &()).ask(&ask).is_admitted()
                    } else {
                        rules.ask(&handle, &(), &ask).is_admitted()
                    }
                };
                let is_admitted = if rng.usize(0..8) == 0 {
                    thread::scope(|scope| scope.spawn(ask).join().unwrap())
                } else {
                    ask()
                };
                let expected = model.ask(number);
                assert_eq!(
                    is_admitted,
                    expected,
                    "{number} in step {step} of seed {seed}: {:?}, {:?}",
                    model.rules.iter().filter(|it| it.resource == number).collect::<Vec<_>>(),
                    model.charged
                );
                if rng.usize(0..4) == 0 {
                    kept[number].push(handle);
                }
            }
        }
    }
}
