//! Counts in atomics, for blocks that are filled privately and then published.

use crate::metric::{Counts, MetricEvent};
use crate::sync::{Ordering, Payload, payload, seen_payload};

/// A word for each event, in a block that is filled privately and then published.
///
/// All accesses are relaxed. A block is filled by one thread and published by a compare-exchange on
/// the history's head. A reader that reads a block while it is filled again finds, after its
/// acquire fence, that the head has moved on.
//
// Loom models the word of the first event only: the other words are written and read together with
// it, and would multiply the executions.
#[derive(Debug)]
pub(crate) struct EventWords([Payload; MetricEvent::COUNT]);

impl EventWords {
    pub(crate) fn new() -> Self {
        Self(std::array::from_fn(|event| if event == 0 { seen_payload(0) } else { payload(0) }))
    }

    #[inline]
    pub(crate) fn load(&self, event: MetricEvent) -> u64 {
        get(&self.0[event as usize])
    }

    #[inline]
    pub(crate) fn load_all(&self) -> [u64; MetricEvent::COUNT] {
        self.0.each_ref().map(get)
    }

    /// Stores the words of another block, changed by `change`, of all events but response times,
    /// whose sum takes two words. Returns the bitwise or of these words.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "part of each publication")]
    pub(crate) fn store_changed(
        &self,
        words: &Self,
        change: impl Fn(u64, MetricEvent) -> u64,
    ) -> u64 {
        let mut bits = 0;
        let mut store = |event: MetricEvent| {
            let changed = change(words.load(event), event);
            self.0[event as usize].store(changed, Ordering::Relaxed);
            bits |= changed;
        };
        // Without a loop, whose events the compiler would look up.
        store(MetricEvent::Pass);
        store(MetricEvent::Block);
        store(MetricEvent::Exception);
        store(MetricEvent::Success);
        store(MetricEvent::ReservedPass);
        store(MetricEvent::Cancelled);
        bits
    }

    #[inline]
    pub(crate) fn store_all(&self, values: &[u64; MetricEvent::COUNT]) {
        for (word, value) in self.0.iter().zip(values) {
            word.store(*value, Ordering::Relaxed);
        }
    }
}

/// The counts of a published block.
#[derive(Debug)]
pub(crate) struct AtomicCounts {
    events: EventWords,
    rt_nanos_high: Payload,
    rt_count: Payload,
    min_rt: Payload,
    max_rt: Payload,
    max_concurrency: Payload,
}

impl AtomicCounts {
    pub(crate) fn new() -> Self {
        Self {
            events: EventWords::new(),
            rt_nanos_high: payload(0),
            rt_count: payload(0),
            min_rt: payload(Counts::NO_MINIMUM),
            max_rt: payload(0),
            max_concurrency: payload(0),
        }
    }

    #[inline]
    pub(crate) fn load(&self) -> Counts {
        Counts {
            events: self.events.load_all(),
            rt_nanos_high: get(&self.rt_nanos_high),
            rt_count: get(&self.rt_count),
            min_rt: get(&self.min_rt),
            max_rt: get(&self.max_rt),
            max_concurrency: get(&self.max_concurrency),
        }
    }

    #[inline]
    pub(crate) fn store(&self, counts: &Counts) {
        let set = |word: &Payload, value| word.store(value, Ordering::Relaxed);
        self.events.store_all(&counts.events);
        set(&self.rt_nanos_high, counts.rt_nanos_high);
        set(&self.rt_count, counts.rt_count);
        set(&self.min_rt, counts.min_rt);
        set(&self.max_rt, counts.max_rt);
        set(&self.max_concurrency, counts.max_concurrency);
    }

    /// Stores the sum of `words` and `counts`, as [`Counts::add`] defines it. Each word is stored
    /// as soon as it is loaded: a sum in between would be written to the stack.
    #[inline(always)]
    pub(crate) fn store_sum(&self, words: &Self, counts: Counts) {
        const RT: usize = MetricEvent::Rt as usize;
        let set = |word: &Payload, value| word.store(value, Ordering::Relaxed);
        let events = &self.events;
        events
            .store_changed(&words.events, |sum, it| sum.saturating_add(counts.events[it as usize]));
        let (low, carry) = get(&words.events.0[RT]).overflowing_add(counts.events[RT]);
        set(&self.events.0[RT], low);
        let high = get(&words.rt_nanos_high) + counts.rt_nanos_high + u64::from(carry);
        set(&self.rt_nanos_high, high);
        set(&self.rt_count, get(&words.rt_count).saturating_add(counts.rt_count));
        set(&self.min_rt, get(&words.min_rt).min(counts.min_rt));
        set(&self.max_rt, get(&words.max_rt).max(counts.max_rt));
        set(&self.max_concurrency, get(&words.max_concurrency).max(counts.max_concurrency));
    }

    /// Returns the words of the events. The word of response times is the low half of their sum.
    #[inline]
    pub(crate) const fn events(&self) -> &EventWords {
        &self.events
    }
}

#[inline]
fn get(word: &Payload) -> u64 {
    word.load(Ordering::Relaxed)
}
