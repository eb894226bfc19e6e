//! A version of the rules, as threads keep it: the same type for every clock.
#![expect(clippy::inline_always, reason = "a call takes as long as what it does")]

use std::any::Any;
use std::marker::PhantomData;
use std::mem;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use leaparray::flow::TokenBucket;

use super::index::RuleList;
use super::numbers::Numbered;
use super::word::{Place, Words};
use super::{Active, Index, Plan};
use crate::limiter::{FastLimiter, RuleClock};

/// The number of a version, beside the number of the newest version of the same rules.
#[derive(Clone)]
pub(crate) struct Number {
    /// No other version in the process has it, of whatever rules: so a thread that keeps a version
    /// compares one word to find out whether it is the newest one of the rules that are asked.
    this: u64,
    /// The number of the version before.
    before: u64,
    /// It is set after that version is published, and before a number of its rules rises. Its own
    /// allocation: threads compare it with the versions that they keep, also when the rules are
    /// gone.
    newest: Arc<AtomicU64>,
}

impl Number {
    /// Returns the number of the first version of new rules.
    pub(super) fn first() -> Self {
        let this = Self::unique();
        Self { this, before: this, newest: Arc::new(AtomicU64::new(this)) }
    }

    pub(super) fn next(&self) -> Self {
        Self { this: Self::unique(), before: self.this, newest: Arc::clone(&self.newest) }
    }

    fn unique() -> u64 {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        // Relaxed: the number orders nothing.
        NUMBERS.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the number of the newest version.
    pub(super) const fn newest(&self) -> &Arc<AtomicU64> {
        &self.newest
    }

    /// Returns whether that version was replaced by this one.
    pub(super) const fn is_after(&self, other: &Self) -> bool {
        self.before == other.this
    }

    /// Returns whether this is the newest version of the rules with that counter.
    #[inline(always)]
    pub(super) fn is_newest(&self, newest: &AtomicU64) -> bool {
        // Acquire: pairs with the Release in `set_newest`. The numbers that fall with this version
        // have fallen.
        newest.load(Ordering::Acquire) == self.this
    }

    /// Returns whether a decision by this version, which this thread has made, has read no number
    /// of a newer version that has risen.
    #[inline(always)]
    pub(crate) fn has_decided(&self) -> bool {
        self.has_decided_beside(&self.newest)
    }

    /// As [`has_decided`](Self::has_decided), for a thread that has the counter of the newest
    /// version of the same rules.
    #[inline(always)]
    pub(super) fn has_decided_beside(&self, newest: &AtomicU64) -> bool {
        // Acquire: pairs with the Release in `set_newest`. If the decision has read a number that
        // has risen since, the load returns a newer version.
        fence(Ordering::Acquire);
        newest.load(Ordering::Relaxed) == self.this
    }

    /// Has each decision by an older version be reconsidered that reads a number which is set after
    /// this.
    pub(crate) fn set_newest(&self) {
        self.newest.store(self.this, Ordering::Release);
        // Release: pairs with the Acquire in `has_decided`.
        fence(Ordering::Release);
    }
}

/// A version of the rules.
///
/// It has no type parameter, so that a thread finds the version that it keeps without a comparison
/// of types, and decides by the most frequent rules without the [plan](PlanRef).
pub(crate) struct Version {
    pub(crate) number: Number,
    words: Words,
    /// The buckets that the words name.
    buckets: Numbered,
    /// By the places of the rules that a word can have: so the word of another index leads to none.
    limiters: Box<[FastLimiter]>,
    index: Arc<Index>,
    /// A [`Plan`].
    plan: Box<dyn Any + Send + Sync>,
}

impl Version {
    pub(crate) fn new<C: RuleClock>(mut plan: Plan<C>) -> Self {
        let number = plan.number.clone();
        let rules = plan.rules.iter().take(Words::RULES);
        let limiters = rules.map(Active::fast_limiter);
        let (limiters, index) = (limiters.collect(), Arc::clone(&plan.index));
        let (words, buckets) = (index.words(), mem::take(&mut plan.buckets));
        Self { number, words, buckets, limiters, index, plan: Box::new(plan) }
    }

    /// Returns the bucket of a resource with that word, if it has a rule alone, whose bucket has a
    /// number.
    #[inline(always)]
    pub(super) fn bucket(&self, word: u64) -> Option<&TokenBucket> {
        self.buckets.get(self.words.bucket(word))
    }

    /// Returns the limiter of a resource with that word, if it has a rule alone, whose limiter is
    /// not a bucket with a number.
    #[inline(always)]
    pub(super) fn alone(&self, word: u64) -> Option<&FastLimiter> {
        self.limiters.get(usize::try_from(self.words.rule(word)).ok()?)
    }

    /// Returns the place of the rule of a resource with that word, if it has a rule alone.
    pub(super) fn rule_alone(&self, word: u64) -> Option<usize> {
        self.place(word)?.rule_or_list().ok()
    }

    /// Returns the rules of a resource with that word, if it has a list of them.
    #[inline]
    pub(super) fn list(&self, word: u64) -> Option<&RuleList> {
        self.index.get_list(self.words.list(word))
    }

    /// Returns the limiter of a rule, in the form of the fast path.
    #[inline]
    pub(super) fn limiter(&self, rule: usize) -> &FastLimiter {
        self.limiters.get(rule).unwrap_or(&FastLimiter::NONE)
    }

    /// Returns the place in the word of a resource, if it is of this version.
    #[inline]
    pub(super) fn place(&self, word: u64) -> Option<Place> {
        self.index.place(word)
    }

    pub(super) fn plan<C: RuleClock>(&self) -> &Plan<C> {
        self.plan.downcast_ref().expect("rules have one clock")
    }
}

/// A shared reference to a plan.
pub(crate) struct PlanRef<C: RuleClock> {
    version: Arc<Version>,
    clock: PhantomData<fn() -> C>,
}

impl<C: RuleClock> PlanRef<C> {
    /// Returns the plan of a version of rules with that clock.
    #[inline]
    pub(crate) const fn of(version: Arc<Version>) -> Self {
        Self { version, clock: PhantomData }
    }

    #[inline]
    pub(super) const fn version(&self) -> &Arc<Version> {
        &self.version
    }

    #[inline]
    pub(super) fn into_version(self) -> Arc<Version> {
        self.version
    }
}

impl<C: RuleClock> Clone for PlanRef<C> {
    fn clone(&self) -> Self {
        Self::of(Arc::clone(&self.version))
    }
}

impl<C: RuleClock> Deref for PlanRef<C> {
    type Target = Plan<C>;

    #[inline]
    fn deref(&self) -> &Plan<C> {
        self.version.plan()
    }
}
