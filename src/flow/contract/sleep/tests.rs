//! Each form waits for the wait of the decision.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::*;
use crate::flow::contract::Retry;
use crate::node::Reason;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The output of a future that never waits.
fn now<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("the future is pending"),
    }
}

#[test]
fn decision_sleeps_for_its_wait() {
    let refusal = Refusal::new(Reason::LimitReached, Retry::Unknown);
    for (decision, expected, result) in [
        (Decision::Admitted(7), None, Ok(7)),
        (Decision::after(7, ms(3)), Some(ms(3)), Ok(7)),
        (Decision::Refused(refusal), None, Err(refusal)),
    ] {
        let mut slept = None;
        assert_eq!(decision.into_result().map(|it| it.sleep_by(|wait| slept = Some(wait))), result);
        assert_eq!(slept, expected);
        let mut slept = None;
        let sleep = |wait| {
            slept = Some(wait);
            std::future::ready(())
        };
        let slept_with = decision.into_result().map(|it| now(it.sleep_with(sleep)));
        assert_eq!(slept_with, result);
        assert_eq!(slept, expected);
    }
}

#[test]
fn permit_is_dropped_with_its_future() {
    let permit = std::sync::Arc::new(());
    let decision = Decision::after(permit.clone(), ms(3));
    let delayed = decision.into_result().unwrap();
    let mut waiting = Box::pin(delayed.sleep_with(|_| std::future::pending::<()>()));
    let polled = waiting.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending() && std::sync::Arc::strong_count(&permit) == 2);
    drop(waiting);
    assert_eq!(std::sync::Arc::strong_count(&permit), 1);
}
