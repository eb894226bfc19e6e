//! Responses by the class of their status.

use std::thread;

use leaparray::node::ResponseClass::{
    ClientError, Informational, Redirection, ServerError, Successful,
};
use leaparray::node::{ResponseClass, Responses};

use crate::resource_node::node;

/// Also those of threads that have ended: of one that has counted in each class, and of many after
/// each other, which take over the counters of those before.
#[test]
fn response_of_each_thread_is_counted_once_in_its_class() {
    let (node, _) = node();
    for _ in 0..50 {
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let node = node.clone();
                thread::spawn(move || {
                    for (count, class) in (1..).zip(ResponseClass::ALL) {
                        (0..count * (thread + 1)).for_each(|_| node.count_response(class));
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
    }
    // 1 + 2 + 3 + 4 threads, 50 times.
    let expected = ResponseClass::ALL.into_iter().zip([500, 1_000, 1_500, 2_000, 2_500]);
    assert!(node.responses().iter().eq(expected), "{:?}", node.responses());
    assert_eq!(node.lifetime().counts().iter().map(|(_, count)| count).sum::<u64>(), 0);
}

#[test]
fn status_is_in_the_class_of_its_first_digit() {
    for (status, class) in [
        (100, Informational),
        (200, Successful),
        (299, Successful),
        (300, Redirection),
        (404, ClientError),
        (499, ClientError),
        (500, ServerError),
        (599, ServerError),
        // As RFC 9110, section 15, tells clients to take them.
        (600, ServerError),
        (999, ServerError),
        (0, ServerError),
        (u16::MAX, ServerError),
    ] {
        assert_eq!(ResponseClass::of_status(status), class, "{status}");
    }
    assert_eq!(ResponseClass::ALL.map(ResponseClass::name), ["1xx", "2xx", "3xx", "4xx", "5xx"]);
}

#[test]
fn snapshots_add_up_their_responses() {
    let [(one, _), (other, _)] = [node(), node()];
    one.count_response(Successful);
    other.count_response(Successful);
    other.count_response(ServerError);
    let mut both = one.now().snapshot();
    both += &other.now().snapshot();
    let mut expected = Responses::default();
    (expected[Successful], expected[ServerError]) = (2, 1);
    assert_eq!(both.responses, expected);
    expected[Successful] = u64::MAX;
    both.responses += &expected;
    assert_eq!((both.responses[Successful], both.responses.sum()), (u64::MAX, u64::MAX));
}
