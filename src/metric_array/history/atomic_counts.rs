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

    /// Returns the counts of all events, with 0 for response times, whose sum takes two words.
    #[inline]
    pub(crate) fn plain(&self) -> [u64; MetricEvent::COUNT] {
        let mut counts = self.load_all();
        counts[MetricEvent::Rt as usize] = 0;
        counts
    }

    /// Stores the sums of `words` and `counts`. They wrap around.
    #[inline]
    pub(crate) fn store_sum(&self, words: &Self, counts: &[u64; MetricEvent::COUNT]) {
        for ((sum, word), count) in self.0.iter().zip(&words.0).zip(counts) {
            sum.store(get(word).wrapping_add(*count), Ordering::Relaxed);
        }
    }

    /// Stores the sums of `words` and `counts`, less `leaving`. They wrap around.
    #[inline]
    pub(crate) fn store_difference(
        &self,
        words: &Self,
        counts: &[u64; MetricEvent::COUNT],
        leaving: &[u64; MetricEvent::COUNT],
    ) {
        let parts = words.0.iter().zip(counts).zip(leaving);
        for (sum, ((word, count), less)) in self.0.iter().zip(parts) {
            sum.store(get(word).wrapping_add(*count).wrapping_sub(*less), Ordering::Relaxed);
        }
    }

    /// Subtracts `counts`. No other thread writes at the same time. The differences wrap around.
    #[inline]
    pub(crate) fn subtract(&self, counts: &[u64; MetricEvent::COUNT]) {
        for (difference, count) in self.0.iter().zip(counts) {
            difference.store(get(difference).wrapping_sub(*count), Ordering::Relaxed);
        }
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
        let [rt_nanos_high, rt_count, max_rt, max_concurrency] = [(); 4].map(|()| payload(0));
        let min_rt = payload(Counts::NO_MINIMUM);
        Self { events: EventWords::new(), rt_nanos_high, rt_count, min_rt, max_rt, max_concurrency }
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
    #[inline]
    pub(crate) fn store_sum(&self, words: &Self, counts: &Counts) {
        const RT: usize = MetricEvent::Rt as usize;
        let set = |word: &Payload, value| word.store(value, Ordering::Relaxed);
        for (event, ((sum, word), count)) in
            self.events.0.iter().zip(&words.events.0).zip(counts.events).enumerate()
        {
            if event != RT {
                set(sum, get(word).saturating_add(count));
            }
        }
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
