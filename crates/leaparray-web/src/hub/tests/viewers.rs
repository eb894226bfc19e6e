use leaparray::Clock;

use super::super::frame::SERIALIZED;
use super::{START, Tested, take, take_seconds};
use crate::format::{Bye, ByeReason, Change, Message};

fn bye(messages: &[Message]) -> Option<ByeReason> {
    match messages.last()? {
        Message::Bye(Bye { reason }) => Some(*reason),
        _ => None,
    }
}

#[test]
fn second_is_serialized_once_for_all_viewers() {
    let mut tested = Tested::new();
    let viewers: Vec<_> = (0..20).map(|_| tested.steps.join(None, None).unwrap()).collect();
    tested.succeed("orders", 1);
    tested.next_second();
    let before = SERIALIZED.get();
    for _ in 0..5 {
        tested.succeed("orders", 1);
        tested.next_second();
    }
    assert_eq!(SERIALIZED.get() - before, 5);
    let taken: Vec<_> = viewers.iter().map(take).collect();
    // The first message has the time at which the viewer has joined.
    assert!(taken.iter().all(|it| it[1..] == taken[0][1..] && it.len() == 8));
}

#[test]
fn details_of_a_node_are_serialized_once_for_all_of_its_viewers() {
    let mut tested = Tested::new();
    tested.succeed("orders", 1);
    let viewers: Vec<_> =
        (0..5).map(|_| tested.steps.join(Some("orders"), None).unwrap()).collect();
    tested.next_second();
    let before = SERIALIZED.get();
    tested.next_second();
    assert_eq!(SERIALIZED.get() - before, 2, "the second and the details");
    let details =
        |viewer| take(viewer).into_iter().filter(|it| matches!(it, Message::Detail(_))).count();
    assert!(viewers.iter().all(|it| details(it) == 2));
}

#[test]
fn viewer_gets_the_seconds_after_the_last_one_that_it_has() {
    let mut tested = Tested::new();
    let first = tested.steps.join(None, None).unwrap();
    for _ in 0..10 {
        tested.next_second();
    }
    let again = tested.steps.join(None, Some(START + 6)).unwrap();
    let numbers: Vec<_> = take_seconds(&again).iter().map(|it| it.t).collect();
    assert_eq!(numbers, [START + 7, START + 8, START + 9]);
    assert_eq!(take_seconds(&first).len(), 10);
}

#[test]
fn slow_viewer_loses_its_place_although_it_takes_nothing() {
    let mut tested = Tested::new();
    let slow = tested.steps.join(None, None).unwrap();
    let quick = tested.steps.join(None, None).unwrap();
    tested.next_second();
    assert_eq!((take(&slow).len(), take(&quick).len()), (3, 3));
    tested.next_second();
    for _ in 0..10 {
        assert_eq!(tested.steps.viewers(), 2);
        take(&quick);
        tested.next_second();
    }
    take(&quick);
    tested.next_second();
    assert_eq!(tested.steps.viewers(), 1, "its oldest message is eleven seconds old");
    assert_eq!(bye(&take(&slow)), Some(ByeReason::Slow));
    assert_eq!(bye(&take(&quick)), None);
}

#[test]
fn viewer_may_take_the_history_slowly_but_not_stop() {
    let mut tested = Tested::new();
    let first = tested.steps.join(None, None).unwrap();
    for _ in 0..60 {
        tested.next_second();
        take(&first);
    }
    let slow = tested.steps.join(None, None).unwrap();
    for _ in 0..20 {
        slow.take().unwrap().unwrap();
        tested.next_second();
        take(&first);
    }
    assert_eq!(tested.steps.viewers(), 2, "it has not caught up, but takes messages");
    for _ in 0..12 {
        tested.next_second();
        take(&first);
    }
    assert_eq!(tested.steps.viewers(), 1);
}

#[test]
fn place_of_a_viewer_that_leaves_is_free() {
    let mut tested = Tested::new();
    let viewers: Vec<_> = std::iter::from_fn(|| tested.steps.join(None, None)).collect();
    assert_eq!(viewers.len(), 64);
    tested.next_second();
    drop(viewers);
    assert_eq!(tested.steps.viewers(), 0);
    assert!(tested.steps.join(None, None).is_some());
}

#[test]
fn light_viewers_take_no_place_of_a_full_one() {
    let mut tested = Tested::new();
    let light: Vec<_> = std::iter::from_fn(|| tested.steps.join_light(None)).collect();
    let full: Vec<_> = std::iter::from_fn(|| tested.steps.join(None, None)).collect();
    assert_eq!((light.len(), full.len(), tested.steps.viewers()), (64, 64, 128));
    tested.next_second();
    drop(light);
    assert!(tested.steps.join(None, None).is_none());
    assert!(tested.steps.join_light(None).is_some());
}

/// The number of a second, of a full stream or of totals.
fn second_of(message: &Message) -> Option<u64> {
    match message {
        Message::Second(second) => Some(second.t),
        Message::Totals(totals) => Some(totals.t),
        _ => None,
    }
}

fn changes_of(messages: &[Message]) -> Vec<Change> {
    let changes = messages.iter().filter_map(|message| match message {
        Message::Changes(it) => Some(it.changes.clone()),
        _ => None,
    });
    changes.flatten().collect()
}

/// Wherever the stream is cut: the reader resumes after the newest second that it has.
#[test]
fn reader_whose_stream_is_cut_has_all_changes() {
    let mut tested = Tested::new();
    let first = tested.steps.join(None, None).unwrap();
    // Some changes are in the history, and some come later.
    let later = |tested: &mut Tested, number: u64| {
        tested
            .registry
            .resource(&format!("{number}"))
            .unwrap()
            .block_many_at(tested.registry.clock().now(), 50);
        tested.next_second();
    };
    (0..3).for_each(|it| later(&mut tested, it));
    let viewers =
        [tested.steps.join(None, None), tested.steps.join_light(None)].map(Option::unwrap);
    (3..6).for_each(|it| later(&mut tested, it));
    let expected = changes_of(&take(&first));
    assert!(expected.len() >= 6, "{expected:?}");
    for (viewer, is_light) in viewers.iter().zip([false, true]) {
        let messages = take(viewer);
        for cut in 0..=messages.len() {
            let received = &messages[..cut];
            let since = received.iter().filter_map(second_of).max();
            let again = if is_light {
                tested.steps.join_light(since)
            } else {
                tested.steps.join(None, since)
            };
            tested.steps.welcome();
            let mut changes = changes_of(received);
            // Those that it has got before the cut come twice.
            let known = changes.last().map_or(0, Change::reported_at);
            let again = changes_of(&take(&again.unwrap()));
            changes.extend(again.into_iter().filter(|it| it.reported_at() > known));
            assert_eq!(changes, expected, "cut after {cut} of {} messages", messages.len());
        }
    }
}

#[test]
fn closed_page_ends_all_streams_and_refuses_others() {
    let mut tested = Tested::new();
    let viewer = tested.steps.join(None, None).unwrap();
    tested.next_second();
    tested.steps.close();
    assert_eq!(bye(&take(&viewer)), Some(ByeReason::Closing));
    assert!(tested.steps.join(None, None).is_none());
    tested.steps.step(tested.clock.now());
}

#[test]
fn first_viewer_may_take_the_history_slowly() {
    let mut tested = Tested::new();
    for _ in 0..40 {
        tested.succeed("orders", 1);
        tested.clock.advance(super::SECOND);
    }
    let viewer = tested.steps.join(None, None).unwrap();
    assert!(viewer.take().unwrap().is_ok() && viewer.take().is_none(), "hello, and no more yet");
    tested.steps.step(tested.clock.now());
    for _ in 0..14 {
        for _ in 0..2 {
            viewer.take().unwrap().unwrap();
        }
        tested.next_second();
    }
    assert_eq!(tested.steps.viewers(), 1, "it takes two messages a second");
}
