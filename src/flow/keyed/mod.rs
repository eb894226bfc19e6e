//! Limiters by key: a limit for each client, tenant or address.
//!
//! # Structure
//!
//! A keyed limiter is an array of *shards*. Each shard is a hash table behind a lock, for about
//! five hundred keys. A hash of the key chooses the shard, and the key itself is compared.
//!
//! A decision holds the lock of one shard, and no other, from the look-up of the key to the change
//! of its state. So the decisions of a key are in one order, and no decision is on a state that was
//! evicted or inserted beside it.
//!
//! # Invariants
//!
//! 1. *One state for each key.* A key is inserted under the lock under which it was not found.
//!    After the lock was released, the key is looked up again.
//! 2. *Never forgiven.* A key is evicted only when its state is as new from a time t on, and t is
//!    not after the `now` of the thread that evicts it. Before the lock of its shard is released,
//!    `evicted_until` is raised to t. A thread that does not find the key has locked the shard
//!    later, and creates a state that is as new only from `evicted_until` on. So a request with a
//!    stale `now` finds no more permits than in the state that was evicted. Only a caller who
//!    removes a key forgives it.
//! 3. *Bounded memory.* A place in the room is taken before a key is inserted, and given back after
//!    it was removed.
//! 4. *Conserved refusals.* The count of an evicted key is added to `evicted_refused` before the
//!    lock is released.
//!
//! # Interleavings
//!
//! - *Insert and insert* of one key: the second thread to lock the shard finds the key. If there is
//!   no room, the first thread releases the lock to examine another shard; it then looks the key up
//!   again (invariant 1).
//! - *Evict and decide*: if the decision is first, the state is not as new and stays. If the
//!   eviction is first, the decision does not find the key, and finds `evicted_until` raised
//!   (invariant 2).
//! - *Evict and insert* of different keys, with one place: the place is given back after the
//!   removal, so there is at no time a key more than the cap.
//!
//! - *Change and decide*: a change visits each shard. Under its lock, it carries each state to the
//!   new settings, and replaces the settings. If the decision is first, it is by the old settings,
//!   and its state is carried. If the change is first, the decision is by the new settings and on a
//!   carried state. So no decision is by settings of which its state is not.
//! - *Change and insert*: a shard has the settings of its states, so a state that is inserted
//!   before the change of its shard is carried, and one that is inserted after it is made by the
//!   new settings. These have the time from which on a state that was as new, and was then carried,
//!   is as new: `Terms::since`. So a key that was evicted before the change gets no
//!   more than one that stayed (invariant 2).
//! - *Change and change*: threads that change settings take turns by a lock that no decision takes.
//!
//! A thread that is stopped while it holds the lock of a shard delays the requests of that shard's
//! keys, one in as many as there are shards. A request for which there is no room examines another
//! shard only if that is not locked. The state that keys without a place share has a lock of its
//! own, which is taken under the lock of the key's shard: so no key is inserted between the look-up
//! that does not find it and its decision by the shared state. These are the only locks on the path
//! of a decision in this crate; a table of generic keys that are removed without a lock needs an
//! allocation for each key, or unsafe code.

mod any_limiter;
mod change;
mod decide;
mod error;
mod evict;
mod of_key;
mod per_key;
mod read;
mod room;
mod shard;
mod stats;
mod word;

use std::borrow::Borrow;
use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::PoisonError;
use std::time::Duration;

pub use error::KeyedError;
pub use of_key::OfKey;
pub(in crate::flow) use per_key::PerKey;
use per_key::{KeyRule, PermitOf};
use room::Room;
use shard::{KeyHash, Limit, Shard, Shared, Terms};
use stats::Counts;
pub use stats::{KeyedCounts, RefusedKey};

use crate::flow::contract::{Ask, Decision};
use crate::flow::permits::Horizon;
use crate::node::Reason;
use crate::sync::{Arc, AtomicU64, Mutex, MutexGuard, least_shards};
use crate::time::{Clock, Timestamp};

impl Reason {
    /// The reason of a refusal of a key for which a [`Keyed`] limiter has no room.
    pub const NO_ROOM_FOR_KEY: Self = Self::Custom("no room for a further key");
}

/// A limit for each key: for each client, tenant or address.
///
/// Each key has the limit of the limiter `L` with which the keyed one is made. No two keys
/// share a state: keys are compared, never only hashed.
///
/// | limiter | state of a key |
/// |---|---|
/// | a [`TokenBucket`](super::TokenBucket) | 8 bytes |
/// | a [`LeakyBucket`](super::LeakyBucket) | 8 bytes |
/// | a [`FixedWindowLimiter`](super::FixedWindowLimiter) | 8 bytes |
/// | a function that makes a [`Limiter`](super::Limiter), or one and a clock: see [any limiter](#any-limiter) | 32 bytes, and the limiter in an `Arc` |
///
/// The keyed limiter decides for each key as that limiter does, with its settings, its clock and
/// its [lead](Self::with_max_lead).
///
/// ```
/// use leaparray::flow::{Keyed, Rate, TokenBucket};
/// use leaparray::{ManualClock, Timestamp};
/// use std::time::Duration;
///
/// let clock = ManualClock::new(Timestamp::from_secs(60));
/// // 10 requests a second for each client, bursts of 20, and up to a million clients.
/// let bucket = TokenBucket::with_clock(Rate::per_second(10)?, 20, clock.clone());
/// let limiter = Keyed::<String, _>::new(bucket, 1_000_000)?;
/// for _ in 0..20 {
///     assert!(limiter.try_acquire("ann").is_admitted());
/// }
/// let refusal = limiter.try_acquire("ann").refusal().expect("the bucket is empty");
/// assert_eq!(refusal.retry_at(), Some(Timestamp::from_millis(60_100)));
/// assert!(limiter.try_acquire("bob").is_admitted());
/// assert_eq!(limiter.top_refused(10)[0].key, "ann");
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// A key can be asked in any borrowed form: a `&str` for keys of type `String`. It is copied when
/// it is stored.
///
/// # Idle keys
///
/// A state is *as new* if from then on it decides as the state of a key that was never seen: a
/// token bucket that is full, a leaky bucket in which a request would go ahead at once, and a
/// window after the interval in which permits were last taken. A key is evicted once its state has
/// been as new for the [keep time](Self::with_keep), by default a minute. So an evicted key that
/// comes back gets no more than it would have had. Each inserted key examines four others and
/// evicts the idle ones, so no decision does more than a bounded number of steps, and no thread in
/// the background is needed. See also [`evict_at`](Self::evict_at), and [`remove`](Self::remove)
/// for a client whose limit is lifted.
///
/// Evicted keys are not remembered. So a key that is not stored, even one that was never seen, is
/// taken for the key that was evicted with the latest state. Before the time from which on that
/// state was as new, a bucket has fewer tokens than its capacity, and a window decides as at that
/// time; in a leaky bucket, a first request for n permits is due n − 1 intervals after it. This
/// concerns only times that lie a keep time back, unless all places were taken.
///
/// # Any limiter
///
/// A function makes the limiter of a key, while the shard of the key is locked, and must not ask
/// the keyed limiter. The clock is a [`MonotonicClock`](crate::MonotonicClock), or the one beside
/// the function. Give it to the limiters as well: their times are then read once. Each limiter
/// bounds times by its own lead as well.
///
/// A limiter is as new if [it says so](super::Account::is_as_new), and if nothing else has its
/// `Arc`, such as a permit in flight. A breaker in an [`AllOf`](super::AllOf) or behind a
/// [`BoxLimiter`](super::BoxLimiter) tells of its own permits. A limit is as new if all of its
/// permits remain, a [`WarmUp`](super::WarmUp) also only once it is cold, and a breaker if it is
/// closed and no call counts. So a [`CircuitBreaker`](super::CircuitBreaker) of [the last
/// calls](super::CircuitConfig::last_calls) is not after its first call. An
/// [`AdaptiveLimiter`](super::AdaptiveLimiter), which learns, never is, nor is an
/// [`AllOf`](super::AllOf) with one of these. Their keys stay, and count towards the cap. A limiter
/// of your own around one of them can say when it is as new. The keep time begins when the limiter
/// is first found as new.
///
/// ```
/// use leaparray::flow::{ConcurrencyLimiter, Keyed};
/// use leaparray::{ManualClock, Timestamp};
///
/// let limiter = Keyed::<String, _>::new(|| ConcurrencyLimiter::new(1), 10_000)?;
/// let permit = limiter.try_acquire("ann").at_once()?;
/// assert!(limiter.try_acquire("ann").is_refused());
/// assert!(limiter.try_acquire("bob").is_admitted());
/// drop(permit);
/// assert!(limiter.try_acquire("ann").is_admitted());
///
/// // With a clock: a service that gives the times.
/// let clock = ManualClock::new(Timestamp::from_secs(60));
/// let limiter = Keyed::<u64, _>::new((|| ConcurrencyLimiter::new(1), clock), 10_000)?;
/// assert!(limiter.try_acquire(&7).is_admitted());
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// # Changes
///
/// [`reconfigure`](Self::reconfigure) changes the settings of all keys in place, and
/// [`for_each_limiter`](Self::for_each_limiter) visits the limiters that a function has made. No
/// change forgets what a key has taken.
///
/// # Keys with limits of their own
///
/// A plan, or a tenant that pays for more, has [settings of its own](Self::set_own_limit_at), which
/// stay while the settings of all keys change. If a function makes the limiters, change
/// [the one of a key](Self::limiter_of), and keep that `Arc`: a key stays while its limiter is
/// held, and would otherwise get a limiter as all others after it was evicted.
///
/// # The cap
///
/// At most `max_keys` keys are stored, and an attacker who invents keys cannot raise that. If all
/// places are taken, the request of a further key examines 20 slots, and a key that is as new gives
/// its place up at once, before the keep time has passed. But a key that has *come back*, that
/// asked again after it was as new, keeps its place for the keep time, while such keys have at most
/// half of the places. So a client that has come back once, and again within each keep time, is not
/// displaced by keys that were invented once. If they have more than half, one that is as new gives
/// its place up as well: otherwise, a limiter whose known clients rest would have no room for new
/// ones. For an invented key to keep its place as well, the attacker has to come back with it after
/// its bucket has filled.
///
/// If no place becomes free, the request is refused, for the reason [`Reason::NO_ROOM_FOR_KEY`]. No
/// key with a place is refused for that reason. With [`with_overflow`](Self::with_overflow), all
/// keys without a place share one more state instead.
///
/// # Hashes
///
/// The default hasher is [`RandomState`], `SipHash` with a random key. Clients that can choose keys
/// cannot find keys that collide, which would make a shard long and slow. Any other [`BuildHasher`]
/// can be given, for example a faster one if clients cannot choose keys. A shard has room for
/// 32,767 keys. A hasher that puts more into one shard makes the limiter refuse further keys of
/// that shard as if it were full; it never makes keys share a state.
///
/// # Threads
///
/// A decision locks the shard of its key for some tens of nanoseconds; there is a shard for each
/// 512 keys of the cap, and at least 64, or one for each 8 keys of a smaller cap. A thread that is
/// stopped by the scheduler while it has the lock delays the keys of its shard. Other limiters of
/// this crate decide without a lock: if a few keys have most of the load, give each its own.
///
/// # Memory
///
/// For 1,000,000 keys of type `u64` with a token bucket, 26 bytes a key; with `String`, 46 bytes
/// and the text. The tables grow by an eighth at a time, and shrink. A shard takes 64 bytes before
/// it has a key, so a cap of 32,768 keys or more takes 1/8 of a byte for each key, and a smaller
/// one 8 bytes for each key or 4 KiB, whichever is less. The settings take about a hundred bytes.
pub struct Keyed<K, L: PerKey, S = RandomState> {
    clock: L::Clock,
    hasher: S,
    horizon: Horizon,
    keep: Duration,
    shards: Box<[Shard<K, L::Rule>]>,
    /// The state of the keys without a place.
    overflow: Option<Mutex<Shared<K, L::Rule>>>,
    room: Room,
    /// The latest time from which on the state of an evicted key was as new, in nanoseconds.
    evicted_until: AtomicU64,
    /// The settings that were set last. The thread that changes them has the lock.
    current: Mutex<Arc<Terms<K, L::Rule>>>,
    counts: Counts,
}

impl<K, L: PerKey> Keyed<K, L> {
    /// Creates a limiter of up to `max_keys` keys, for each of which it decides as `limiter` does
    /// when it is new.
    ///
    /// # Errors
    ///
    /// Returns a [`KeyedError`] if `max_keys` is 0, or above [`MAX_KEYS`](Self::MAX_KEYS).
    pub fn new(limiter: L, max_keys: usize) -> Result<Self, KeyedError> {
        Self::with_hasher(limiter, max_keys, RandomState::new())
    }
}

impl<K, L: PerKey, S> Keyed<K, L, S> {
    /// The greatest cap: 2³⁰ keys.
    pub const MAX_KEYS: usize = 1 << 30;

    /// The number of keys of a shard when all places are taken.
    const KEYS_OF_SHARD: usize = 1 << 9;

    /// The keep time of a limiter for which no other one was set.
    const DEFAULT_KEEP: Duration = Duration::from_secs(60);

    /// Creates a limiter of up to `max_keys` keys that hashes keys by `hasher`; see
    /// [Hashes](Self#hashes).
    ///
    /// # Errors
    ///
    /// As for [`new`](Keyed::new).
    ///
    /// ```
    /// use leaparray::flow::{Keyed, Rate, TokenBucket};
    /// use std::hash::{BuildHasherDefault, DefaultHasher};
    ///
    /// let bucket = TokenBucket::new(Rate::per_second(10)?, 20);
    /// // Without a random key: only for keys that no client can choose.
    /// let hasher = BuildHasherDefault::<DefaultHasher>::new();
    /// let limiter = Keyed::with_hasher(bucket, 1_000, hasher)?;
    /// assert!(limiter.try_acquire(&7).is_admitted());
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_hasher(limiter: L, max_keys: usize, hasher: S) -> Result<Self, KeyedError> {
        if max_keys == 0 {
            return Err(KeyedError::ZeroKeys);
        }
        if max_keys > Self::MAX_KEYS {
            return Err(KeyedError::TooManyKeys { max_keys, max: Self::MAX_KEYS });
        }
        let shards = max_keys.div_ceil(Self::KEYS_OF_SHARD).max(least_shards(max_keys));
        let (rule, clock, lead) = limiter.into_parts();
        let all = Limit { rule, since: Timestamp::MIN };
        let terms = Arc::new(Terms { all, own: None });
        Ok(Self {
            clock,
            hasher,
            horizon: Horizon::with_lead(lead),
            keep: Self::DEFAULT_KEEP,
            shards: (0..shards).map(|_| Shard::new(&terms)).collect(),
            overflow: None,
            room: Room::new(max_keys),
            evicted_until: AtomicU64::new(0),
            current: Mutex::new(terms),
            counts: Counts::new(),
        })
    }

    /// Sets the *keep time*: how long a key whose state is as new stays. By default, this is a
    /// minute. See [Idle keys](Self#idle-keys).
    ///
    /// With [`Duration::ZERO`], a key leaves as soon as it is examined, and with [`Duration::MAX`],
    /// keys leave only if all places are taken, and keys that have come back only if these have
    /// more than half of the places.
    ///
    /// ```
    /// use leaparray::Timestamp;
    /// use leaparray::flow::{Keyed, Rate, TokenBucket};
    /// use std::time::Duration;
    ///
    /// let bucket = TokenBucket::new(Rate::per_second(10)?, 20);
    /// let limiter = Keyed::new(bucket, 1_000)?.with_keep(Duration::ZERO);
    /// let full = Timestamp::from_secs(60);
    /// assert!(limiter.try_acquire_at(&7, full, 1).is_admitted());
    /// assert_eq!(limiter.evict_at(full.saturating_add(Duration::from_millis(100)), 1_000), 1);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_keep(self, keep: Duration) -> Self {
        Self { keep, ..self }
    }

    /// Lets all keys for which there is no room share one more state of the limit, in place of a
    /// refusal. If one of them takes all of it, the others are refused: among them are clients that
    /// are new while an attacker fills the cap.
    ///
    /// A key for which there is room again gets a state of its own. It may have taken permits of
    /// the shared state before, so it has no more than is left there, until both are as new: a key
    /// gets no more than the limit. The time from which the shared state is as new may be unknown,
    /// as for a limiter [of another kind](Self#any-limiter). Keys that get room in the
    /// meantime then go on to share it.
    ///
    /// ```
    /// use leaparray::flow::{Keyed, Rate, TokenBucket};
    ///
    /// let bucket = TokenBucket::new(Rate::per_minute(1)?, 3);
    /// let limiter = Keyed::<u64, _>::new(bucket, 1)?.with_overflow();
    /// assert!(limiter.try_acquire(&1).is_admitted());
    /// assert!([2, 3, 4].iter().all(|key| limiter.try_acquire(key).is_admitted()));
    /// assert!(limiter.try_acquire(&5).is_refused(), "2, 3 and 4 have taken all three tokens");
    /// assert!(limiter.try_acquire(&1).is_admitted(), "a stored key has its own");
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_overflow(self) -> Self {
        let terms = Arc::clone(&locked(&self.current));
        let state = terms.all.rule.new_state(terms.all.since);
        Self { overflow: Some(Mutex::new(Shared { state, terms, is_used: false })), ..self }
    }

    /// Sets the *lead*: how far ahead of the limiter's clock a given time may be, as
    /// [`TokenBucket::with_max_lead`](crate::flow::TokenBucket::with_max_lead). By default, this is
    /// the lead of the limiter with which this one was made, or a second if a function makes them.
    ///
    /// ```
    /// use leaparray::flow::{Keyed, Rate, TokenBucket};
    /// use leaparray::{ManualClock, Timestamp};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new(Timestamp::from_secs(60));
    /// let bucket = TokenBucket::with_clock(Rate::per_minute(1)?, 1, clock);
    /// let limiter =
    ///     Keyed::new(bucket, 1_000)?.with_max_lead(Duration::from_secs(60));
    /// assert!(limiter.try_acquire_at(&7, Timestamp::from_secs(60), 1).is_admitted());
    /// assert!(limiter.try_acquire_at(&7, Timestamp::from_secs(120), 1).is_admitted());
    /// // Two minutes after the clock's time: as one minute after it.
    /// assert!(limiter.try_acquire_at(&7, Timestamp::from_secs(180), 1).is_refused());
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_max_lead(self, lead: Duration) -> Self {
        Self { horizon: Horizon::with_lead(lead), ..self }
    }

    /// Returns the number of keys that are stored. A key that another thread is inserting may count
    /// already.
    ///
    /// ```
    /// use leaparray::flow::{Keyed, Rate, TokenBucket};
    ///
    /// let bucket = TokenBucket::new(Rate::per_minute(1)?, 5);
    /// let limiter = Keyed::<u64, _>::new(bucket, 1_000)?;
    /// assert!(limiter.is_empty());
    /// assert!([7, 8, 7].iter().all(|key| limiter.try_acquire(key).is_admitted()));
    /// assert_eq!(limiter.len(), 2);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn len(&self) -> usize {
        self.room.keys()
    }

    /// Returns whether no key is stored.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn shard(&self, hash: KeyHash) -> &Shard<K, L::Rule> {
        &self.shards[hash.shard(self.shards.len())]
    }

    #[inline]
    fn hash<Q: ?Sized + Hash>(&self, key: &Q) -> KeyHash
    where
        S: BuildHasher,
    {
        KeyHash::new(self.hasher.hash_one(key))
    }
}

impl<K, L, S> Keyed<K, L, S>
where
    K: Eq + Hash,
    L: PerKey,
    S: BuildHasher,
{
    /// Asks for one permit of a key. Reads the clock once.
    #[inline]
    pub fn try_acquire<Q>(&self, key: &Q) -> Decision<PermitOf<L>>
    where
        K: Borrow<Q>,
        Q: ?Sized + Eq + Hash + ToOwned<Owned = K>,
    {
        // The hash is computed first: on Zen 4, a decision takes longer if the clock is read first.
        let hash = self.hash(key);
        self.decide(hash, key, &Ask::at(self.clock.now()))
    }

    /// Asks for `permits` permits of a key at `now`: all of them or none.
    ///
    /// A key that has no place gets one, if there is room and the request takes permits; see [the
    /// cap](Self#the-cap).
    #[inline]
    pub fn try_acquire_at<Q>(&self, key: &Q, now: Timestamp, permits: u64) -> Decision<PermitOf<L>>
    where
        K: Borrow<Q>,
        Q: ?Sized + Eq + Hash + ToOwned<Owned = K>,
    {
        self.ask(key, &Ask::at(now).many(permits))
    }

    /// The limit is not told of the node of the question: a key has no node of its own.
    #[inline]
    fn ask<Q>(&self, key: &Q, ask: &Ask<'_>) -> Decision<PermitOf<L>>
    where
        K: Borrow<Q>,
        Q: ?Sized + Eq + Hash + ToOwned<Owned = K>,
    {
        self.decide(self.hash(key), key, ask)
    }

    /// Returns one key as a [`Limiter`](crate::flow::Limiter), which can tell its quota, enter
    /// nodes, wait in a [`WaitQueue`](crate::flow::WaitQueue), or be part of an
    /// [`AllOf`](crate::flow::AllOf). For one that owns the key, see [`OfKey::new`].
    ///
    /// A key that has no place, and for which there is no room, has no quota, and its decision
    /// cannot be told before. With [`with_overflow`](Self::with_overflow), such a key is foretold
    /// that the shared state admits it, and no refusal, since a place may become free until the
    /// decision.
    ///
    /// ```
    /// use leaparray::flow::{Keyed, LimiterExt, Rate, TokenBucket};
    /// use leaparray::{MetricEvent, NodeConfig, ResourceNode};
    ///
    /// let node = ResourceNode::new(NodeConfig::default());
    /// let bucket = TokenBucket::new(Rate::per_minute(1)?, 1);
    /// let limiter = Keyed::<String, _>::new(bucket, 1_000)?;
    /// limiter.of_key("ann").try_enter(&node)?.success();
    /// assert!(limiter.of_key("ann").try_enter(&node).is_err());
    /// let sum = |event| node.now().long().sum(event);
    /// assert_eq!((sum(MetricEvent::Pass), sum(MetricEvent::Block)), (1, 1));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub const fn of_key<'a, Q: ?Sized>(&'a self, key: &'a Q) -> OfKey<&'a Self, &'a Q> {
        OfKey::new(self, key)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<K, L: PerKey, S> fmt::Debug for Keyed<K, L, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyed")
            .field("counts", &self.counts())
            .field("max_keys", &self.room.max())
            .finish_non_exhaustive()
    }
}
