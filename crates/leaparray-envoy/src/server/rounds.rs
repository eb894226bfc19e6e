//! Asks of a store in rounds, of which a bounded number is in flight.

use std::collections::HashSet;
use std::future::Future;
use std::hash::Hash;

use tokio::task::JoinSet;
use tokio::time::Interval;

/// The most asks that are in flight at once.
const MAX_IN_FLIGHT: usize = 64;

/// Asks for each element of `list` in a round that begins with a tick, with up to
/// [`MAX_IN_FLIGHT`] asks in flight. A slow answer delays no other element: its own is asked for
/// again once the answer is there. `key` tells elements apart.
///
/// `ask` returns whether it was answered. If as many asks of a round fail as can be in flight, the
/// store is away, and the rest of the round is dropped.
pub(super) async fn ask_in_rounds<T, K, F>(
    mut interval: Interval,
    list: impl Fn() -> Vec<T>,
    key: impl Fn(&T) -> K,
    ask: impl Fn(T) -> F,
) where
    K: Clone + Eq + Hash + Send + 'static,
    F: Future<Output = bool> + Send + 'static,
{
    let mut round = Vec::new().into_iter();
    let mut failed = 0;
    let mut tasks: JoinSet<(K, bool)> = JoinSet::new();
    let mut in_flight = HashSet::new();
    loop {
        tokio::select! {
            // A round ends before the next one begins, so that its last asks are not put off for
            // ever.
            _ = interval.tick(), if round.len() == 0 => {
                failed = 0;
                round = list().into_iter();
            }
            Some(ended) = tasks.join_next() => {
                // A panic goes on: an element that stays in flight would not be asked for again.
                let (key, is_answered) = ended.expect("an ask panics only by a defect");
                in_flight.remove(&key);
                failed += usize::from(!is_answered);
                if failed >= MAX_IN_FLIGHT {
                    round = Vec::new().into_iter();
                }
            }
        }
        while tasks.len() < MAX_IN_FLIGHT
            && let Some(next) = round.next()
        {
            let key = key(&next);
            if in_flight.insert(key.clone()) {
                let answer = ask(next);
                tasks.spawn(async move { (key, answer.await) });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use super::*;

    /// Asks for `count` numbers twice a second, for a time. `answer` returns how long an answer
    /// takes, and whether it comes. Returns how often each was answered, and the most asks that
    /// were in flight.
    async fn run(
        count: usize,
        time: Duration,
        answer: fn(usize) -> (Duration, bool),
    ) -> (BTreeMap<usize, usize>, usize) {
        // The asks that ended, those in flight, and the most that were.
        let state = Arc::new(Mutex::new((BTreeMap::new(), 0, 0)));
        let ask = |number| {
            let state = Arc::clone(&state);
            async move {
                let (takes, comes) = answer(number);
                {
                    let (_, now, most) = &mut *state.lock().unwrap();
                    *now += 1;
                    *most = (*most).max(*now);
                }
                tokio::time::sleep(takes).await;
                let (ended, now, _) = &mut *state.lock().unwrap();
                *now -= 1;
                *ended.entry(number).or_default() += 1;
                comes
            }
        };
        let interval = tokio::time::interval(Duration::from_millis(500));
        let all = ask_in_rounds(interval, || (0..count).collect(), |number| *number, ask);
        assert!(tokio::time::timeout(time, all).await.is_err(), "it never ends");
        let (ended, _, most) = &*state.lock().unwrap();
        (ended.clone(), *most)
    }

    #[tokio::test(start_paused = true)]
    async fn slow_answer_delays_no_other() {
        let slow = |number| (Duration::from_millis(if number == 3 { 900 } else { 1 }), true);
        let (ended, _) = run(10, Duration::from_millis(2_100), slow).await;
        for number in 0..10 {
            // At 0, 0.5, 1, 1.5 and 2 s; the slow one at 0 and 1 s.
            let expected = if number == 3 { 2 } else { 5 };
            assert_eq!(ended[&number], expected, "{number}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn asks_in_flight_are_bounded_and_none_is_left_out() {
        let answer = |_| (Duration::from_millis(100), true);
        let (ended, most) = run(1_000, Duration::from_secs(5), answer).await;
        assert_eq!((ended.len(), most), (1_000, MAX_IN_FLIGHT));
        // A round takes 1.6 s.
        assert!(ended.values().all(|count| (2..=4).contains(count)), "{ended:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn round_ends_early_only_if_many_fail() {
        let fails = |_| (Duration::from_secs(1), false);
        let (ended, most) = run(1_000, Duration::from_millis(1_400), fails).await;
        assert_eq!((ended.len(), most), (MAX_IN_FLIGHT, MAX_IN_FLIGHT));
        let first_fails = |number| (Duration::from_millis(1), number != 0);
        let (ended, _) = run(1_000, Duration::from_millis(1_400), first_fails).await;
        assert_eq!(ended.len(), 1_000);
        assert!(ended.values().all(|count| *count == 3), "{ended:?}");
    }
}
