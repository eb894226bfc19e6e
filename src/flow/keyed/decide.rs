//! The decision on a request of a key.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};

use super::per_key::{KeyRule, PermitOf};
use super::shard::{KeyHash, Shared, Table};
use super::{Keyed, PerKey};
use crate::collections::KeySlot;
use crate::flow::contract::{Ask, Decision, Refusal, Retry};
use crate::node::{Permit, Reason};
use crate::sync::{MutexGuard, Ordering};
use crate::time::Timestamp;

/// How a request is decided by the settings and the state of its key.
pub(super) trait Decide<R: KeyRule> {
    type Permit: Permit;

    fn decide(self, rule: &R, state: &mut R::State, ask: &Ask<'_>) -> Decision<Self::Permit>;
}

/// By the settings alone.
struct ByRule;

impl<R: KeyRule> Decide<R> for ByRule {
    type Permit = R::Permit;

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "out of line, the decision goes through memory")]
    fn decide(self, rule: &R, state: &mut R::State, ask: &Ask<'_>) -> Decision<R::Permit> {
        rule.decide(state, ask)
    }
}

impl<K, L, S> Keyed<K, L, S>
where
    L: PerKey,
    S: BuildHasher,
{
    /// Decides on a request, by the state of its key. Everything from the look-up to the change of
    /// the state is under the lock of the shard. A wait of a request that cannot wait is a refusal,
    /// before refusals are counted.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "out of line, the decision goes through memory")]
    pub(super) fn decide<Q>(&self, hash: KeyHash, key: &Q, ask: &Ask<'_>) -> Decision<PermitOf<L>>
    where
        K: Borrow<Q> + Eq + Hash,
        Q: ?Sized + Eq + Hash + ToOwned<Owned = K>,
    {
        self.decide_with(hash, key, ask, ByRule)
    }

    /// Decides as [`decide`](Self::decide), in another way.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "out of line, the decision goes through memory")]
    pub(super) fn decide_with<Q, D>(
        &self,
        hash: KeyHash,
        key: &Q,
        ask: &Ask<'_>,
        decide: D,
    ) -> Decision<D::Permit>
    where
        K: Borrow<Q> + Eq + Hash,
        Q: ?Sized + Eq + Hash + ToOwned<Owned = K>,
        D: Decide<L::Rule>,
    {
        let now = Timestamp::from_nanos(self.horizon.bound(ask.now().as_nanos(), &self.clock));
        let mut table = self.shard(hash).lock();
        match table.keys.find(hash.tag(), key) {
            Some(slot) => self.decide_known(&mut table, key, slot, &ask.of_key(now), decide),
            // Built here: a question that is passed to another function lies in memory.
            None => self.decide_unknown(table, hash, key, &ask.of_key(now), decide),
        }
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "out of line, the decision goes through memory")]
    fn decide_known<Q, D>(
        &self,
        table: &mut Table<K, L::Rule>,
        key: &Q,
        slot: usize,
        ask: &Ask<'_>,
        decide: D,
    ) -> Decision<D::Permit>
    where
        K: Borrow<Q> + Eq + Hash,
        Q: ?Sized + Eq + Hash,
        D: Decide<L::Rule>,
    {
        let (found, rule) = self.visit(table, key, slot, ask.now());
        let decision = ask.settled(decide.decide(rule, found.value, ask));
        if decision.is_refused() {
            table.keys.count(slot);
        }
        decision
    }

    /// Returns the slot of a stored key and its rule. Marks the key if it has come back.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a part of each decision")]
    fn visit<'t, Q>(
        &self,
        table: &'t mut Table<K, L::Rule>,
        key: &Q,
        slot: usize,
        now: Timestamp,
    ) -> (KeySlot<'t, <L::Rule as KeyRule>::State>, &'t L::Rule)
    where
        K: Borrow<Q> + Eq + Hash,
        Q: ?Sized + Eq + Hash,
    {
        let Table { keys, terms } = table;
        let rule = &terms.of(key).rule;
        let mut found = keys.slot_mut(slot);
        if !found.is_marked() && is_as_new(rule, found.value, now) {
            found.mark();
            self.room.add_known();
        }
        (found, rule)
    }

    /// Decides on a request of a key that its shard does not have.
    #[inline(never)]
    fn decide_unknown<'a, Q, D>(
        &'a self,
        mut table: MutexGuard<'a, Table<K, L::Rule>>,
        hash: KeyHash,
        key: &Q,
        ask: &Ask<'_>,
        decide: D,
    ) -> Decision<D::Permit>
    where
        K: Borrow<Q> + Eq + Hash,
        Q: ?Sized + Eq + Hash + ToOwned<Owned = K>,
        D: Decide<L::Rule>,
    {
        self.sweep(&mut table, ask.now(), Self::SWEEP);
        if table.keys.is_full() || !self.room.take() {
            drop(table);
            self.sweep_next(ask.now());
            table = self.shard(hash).lock();
            // Another thread may have inserted the key while the shard was not locked.
            if let Some(slot) = table.keys.find(hash.tag(), key) {
                return self.decide_known(&mut table, key, slot, ask, decide);
            }
            if table.keys.is_full() || !self.room.take() {
                return self.decide_without_room(ask, decide);
            }
        }
        let place = Taken { room: &self.room, is_used: false };
        let Some(since) = self.since_of_new(&table.terms, key, ask.now()) else {
            return self.decide_without_room(ask, decide);
        };
        let rule = &table.terms.of(key).rule;
        let mut state = rule.new_state(since);
        // The first question to this state, also if the request has peeked at a temporary one.
        let decision = ask.settled(decide.decide(rule, &mut state, &ask.first()));
        // A state that has not changed need not be kept: a refusal, or a request for 0 permits.
        if is_as_new(rule, &state, ask.now().max(since)) {
            if decision.is_refused() {
                self.counts.unknown_refused.fetch_add(1, Ordering::Relaxed);
            }
            return decision;
        }
        let slot = table.keys.insert(hash.tag(), key.to_owned(), state);
        if decision.is_refused() {
            table.keys.count(slot);
        }
        place.keep();
        decision
    }

    /// Calls `act` with the state of a key at `now`, which is stored if it was not; with the shared
    /// state if there is no room. `None` if there is none.
    pub(super) fn with_state<Q, T>(
        &self,
        hash: KeyHash,
        key: &Q,
        now: Timestamp,
        act: impl FnOnce(&mut <L::Rule as KeyRule>::State) -> T,
    ) -> Option<T>
    where
        K: Borrow<Q> + Eq + Hash,
        Q: ?Sized + Eq + Hash + ToOwned<Owned = K>,
    {
        let mut table = self.shard(hash).lock();
        if let Some(slot) = table.keys.find(hash.tag(), key) {
            return Some(act(self.visit(&mut table, key, slot, now).0.value));
        }
        self.sweep(&mut table, now, Self::SWEEP);
        if table.keys.is_full() || !self.room.take() {
            drop(table);
            self.sweep_next(now);
            table = self.shard(hash).lock();
            // As in `decide_unknown`.
            if let Some(slot) = table.keys.find(hash.tag(), key) {
                return Some(act(self.visit(&mut table, key, slot, now).0.value));
            }
            if table.keys.is_full() || !self.room.take() {
                return self.with_shared(act);
            }
        }
        let place = Taken { room: &self.room, is_used: false };
        let Some(since) = self.since_of_new(&table.terms, key, now) else {
            return self.with_shared(act);
        };
        let state = table.terms.of(key).rule.new_state(since);
        let slot = table.keys.insert(hash.tag(), key.to_owned(), state);
        place.keep();
        Some(act(table.keys.slot_mut(slot).value))
    }

    /// Calls `act` with the shared state, under the lock of the key's shard as in
    /// [`decide_without_room`](Self::decide_without_room).
    fn with_shared<T>(&self, act: impl FnOnce(&mut <L::Rule as KeyRule>::State) -> T) -> Option<T> {
        self.overflow.as_ref().map(|shared| {
            let Shared { state, is_used, .. } = &mut *super::locked(shared);
            *is_used = true;
            act(state)
        })
    }

    /// Decides on a request of a key for which there is no room: by the shared state, or with a
    /// refusal. The caller has the lock of the key's shard, so that no other thread can insert the
    /// key before this decision.
    #[cold]
    fn decide_without_room<D: Decide<L::Rule>>(
        &self,
        ask: &Ask<'_>,
        decide: D,
    ) -> Decision<D::Permit> {
        let decision = match &self.overflow {
            Some(shared) => {
                let Shared { state, terms, is_used } = &mut *super::locked(shared);
                *is_used = true;
                ask.settled(decide.decide(&terms.all.rule, state, ask))
            }
            None => Decision::Refused(Refusal::new(Reason::NO_ROOM_FOR_KEY, Retry::Unknown)),
        };
        if decision.is_refused() {
            self.counts.no_room.fetch_add(1, Ordering::Relaxed);
        }
        decision
    }
}

#[inline]
fn is_as_new<R: KeyRule>(rule: &R, state: &R::State, now: Timestamp) -> bool {
    rule.as_new_at(state, now).is_some_and(|time| time <= now)
}

/// A place in the room, which is given back unless a key was inserted: also if a method of the key
/// or of the limit panics.
struct Taken<'a> {
    room: &'a super::Room,
    is_used: bool,
}

impl Taken<'_> {
    fn keep(mut self) {
        self.is_used = true;
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if !self.is_used {
            self.room.give_back();
        }
    }
}
