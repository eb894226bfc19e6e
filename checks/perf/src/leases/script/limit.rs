//! A limit on the server, with charges in all buckets.

use std::cell::Cell;
use std::error::Error;
use std::time::Duration;

use leaparray_redis::engine::script;
use leaparray_redis::lease::{Answer, Ask, Epoch, LeaseConfig, LeaseKeys, Move};
use redis::{Connection, Script};

/// The charge of each bucket. All grants and moves of a sample are less than half of it.
const CHARGE: u64 = 1 << 20;
const WANT: u64 = 16;
/// The validity that is asked for, in buckets.
const VALIDITY: u32 = 2;
/// The incarnation of the node that asks: a random number.
const NODE: u64 = 4_503_599_627_370_449;

/// Stores the state, as the script does; the moves of a node are applied only if the number of its
/// last ask is known. ARGV: microseconds of a bucket, buckets, validity, charge.
const SEED: &str = "
local k, n, v = math.floor(time / ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local charges, begins, none = {}, {}, {}
for i = 1, n + v do charges[i] = tonumber(ARGV[4]) end
for i = 1, 1 + v do begins[i] = 0 end
for i = 1, n do none[i] = 0 end
redis.call('SET', KEYS[1], cmsgpack.pack(identity, time, 0, time, k + v))
local charged = (n + v) * ARGV[4]
redis.call('SET', KEYS[2], cmsgpack.pack(charges, k, begins, 0, 0, 0, 0, none, none, none, charged))
redis.call('SET', KEYS[3], cmsgpack.pack(0, 0, identity, time, 0, k, {}, { 0, 0, 0, 0, 0 }, time))
return { identity, time }";

/// Returns the charge of a bucket.
const CHARGED: &str = "
local charges, asked = cmsgpack.unpack(redis.call('GET', KEYS[1]))
if type(charges) == 'string' then return string.byte(charges, ARGV[1] - asked + ARGV[2]) end
return charges[ARGV[1] - asked + ARGV[2]]";

/// A limit with buckets of a second, and the asks of a node.
pub(super) struct Limit {
    pub(super) config: LeaseConfig,
    pub(super) keys: LeaseKeys,
    /// The moves of an ask.
    moves: usize,
    script: Script,
    seq: Cell<u64>,
}

/// The state before the asks of a sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seeded {
    epoch: Epoch,
    /// The bucket of that time.
    bucket: u64,
}

impl Limit {
    pub(super) fn new(buckets: u32, moves: usize) -> Self {
        let interval = Duration::from_secs(buckets.into());
        let config = LeaseConfig::of_buckets(LeaseConfig::MAX_LIMIT, buckets, interval);
        let config = config.expect("buckets of a second");
        let keys = LeaseKeys::new("a limit", &config).expect("a valid name");
        Self { config, keys, moves, script: Script::new(&script::source()), seq: Cell::new(0) }
    }

    /// Stores a state without a quarantine: the same permits are charged in each bucket, from the
    /// first one of the window to the last one of a lease.
    pub(super) fn seed(&self, connection: &mut Connection) -> Result<Seeded, Box<dyn Error>> {
        let code = format!("{}{SEED}", script::CLOCK_AND_IDENTITY);
        let [mark, charges, node] = self.stored();
        let (identity, time): (u64, u64) = Script::new(&code)
            .key(&[mark, charges, node])
            .arg(&[self.config.bucket_micros(), self.config.buckets().into()])
            .arg(&[self.config.validity().into(), CHARGE])
            .invoke(connection)?;
        let bucket = time / self.config.bucket_micros();
        let seeded = Seeded { epoch: Epoch { identity, since: time }, bucket };
        // Not by an ask whose call fails.
        self.script.load(connection)?;
        Ok(seeded)
    }

    /// Returns the next ask of the node.
    pub(super) fn ask(&self, seeded: &Seeded) -> Ask {
        self.seq.set(self.seq.get() + 1);
        let (epoch, seq) = (Some(seeded.epoch), self.seq.get());
        let moves = (0..self.moves as u64).map(|index| self.movement(seeded, index)).collect();
        let (want, validity, horizon, weight) = (WANT, VALIDITY, 0, WANT);
        let seen = seeded.epoch.since;
        Ask { node: NODE, seq, nonce: seq, epoch, seen, want, validity, horizon, weight, moves }
    }

    /// Returns a move from one of the buckets in which leases end, to an earlier one. All are still
    /// charged when the next bucket has begun.
    fn movement(&self, seeded: &Seeded, index: u64) -> Move {
        let (validity, buckets) =
            (u64::from(self.config.validity()), u64::from(self.config.buckets()));
        let from = seeded.bucket + 1 + index % validity;
        let to = seeded.bucket - index / validity % (buckets - 1);
        Move { from, to: Some(to), count: 1 }
    }

    /// Sends the next ask.
    pub(super) fn send(
        &self,
        seeded: &Seeded,
        connection: &mut Connection,
    ) -> Result<Answer, Box<dyn Error>> {
        let ask = self.ask(seeded);
        let mut invocation = self.script.prepare_invoke();
        for key in script::keys(&self.keys, &ask) {
            invocation.key(key);
        }
        for argument in script::arguments(&self.config, &ask) {
            invocation.arg(argument);
        }
        let reply: Vec<i64> = invocation.invoke(connection)?;
        Ok(script::answer(&ask, &reply)?)
    }

    /// Checks that all was granted, and that the buckets of the window are charged.
    pub(super) fn check(&self, seeded: &Seeded, answer: &Answer) -> Result<(), Box<dyn Error>> {
        let begun = (answer.now / self.config.bucket_micros()).saturating_sub(seeded.bucket);
        let charged = u64::from(self.config.buckets() + self.config.validity()) - begun;
        // Rounded: grants and moves are small.
        let found = (self.config.limit() - answer.free + CHARGE / 2) / CHARGE;
        if begun > 1 || found != charged || answer.granted != WANT {
            return Err(format!(
                "{found} buckets are charged instead of {charged}, {begun} have begun: {answer:?}"
            )
            .into());
        }
        Ok(())
    }

    /// Checks that all moves of `asks` asks were applied.
    pub(super) fn check_moves(
        &self,
        seeded: &Seeded,
        connection: &mut Connection,
        asks: u64,
    ) -> Result<(), Box<dyn Error>> {
        let from = seeded.bucket + 1;
        let moved = (0..self.moves as u64)
            .filter(|&index| self.movement(seeded, index).from == from)
            .count() as u64;
        let expected = CHARGE - moved * asks;
        let code = Script::new(CHARGED);
        let mut code = code.key(self.keys.charges());
        let found: u64 = code.arg(from).arg(self.config.buckets()).invoke(connection)?;
        if found != expected {
            return Err(format!("{found} permits are left in a bucket, not {expected}").into());
        }
        Ok(())
    }

    /// Returns the keys of the mark, the charges, and the last ask of the node.
    pub(super) fn stored(&self) -> [String; 3] {
        [self.keys.mark(), self.keys.charges(), self.keys.node(NODE)]
    }
}
