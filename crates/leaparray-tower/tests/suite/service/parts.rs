//! Large frames, which are passed on in parts.

use std::convert::Infallible;
use std::task::Poll;

use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame};
use http_body_util::{Full, StreamBody};
use tower::{Layer, Service};

use crate::service::{
    CANCELLED, EXCEPTION, IN_FLIGHT, Manual, SUCCESS, answering, endings_of, get, layer, poll_body,
    poll_now, registry,
};

const PART: usize = 65_536;

/// Returns the data of a frame.
fn data(frame: Poll<Option<Result<Frame<Bytes>, Infallible>>>) -> Bytes {
    let Poll::Ready(Some(Ok(frame))) = frame else { panic!("{frame:?}") };
    frame.into_data().unwrap()
}

/// Returns the layer's body around `body`, and the number of bytes that the head announces.
fn respond<B: Body<Data = Bytes> + Clone>(
    registry: &std::sync::Arc<Manual>,
    body: B,
    announced: Option<usize>,
) -> impl Body<Data = Bytes, Error = B::Error> + Unpin {
    let mut response = Response::builder();
    if let Some(announced) = announced {
        response = response.header("content-length", announced);
    }
    let mut service = layer(registry).layer(answering(response.body(body).unwrap()));
    Box::pin(poll_now(service.call(get("/"))).unwrap().into_body())
}

/// A text whose parts differ.
fn text(bytes: usize) -> Bytes {
    // Runs of a length that does not divide a part.
    (0..=u8::MAX).cycle().flat_map(|byte| [byte; 1_000]).take(bytes).collect()
}

#[test]
fn request_with_one_large_frame_ends_with_its_last_part() {
    for bytes in [1, PART - 1, PART, PART + 1, 2 * PART, 10 * PART + 7] {
        let registry = registry();
        let whole = text(bytes);
        let mut body = respond(&registry, Full::new(whole.clone()), None);
        let mut read = 0;
        while read < bytes {
            assert_eq!(endings_of(&registry, "/"), IN_FLIGHT, "{read} of {bytes}");
            assert!(!body.is_end_stream());
            assert_eq!(body.size_hint().exact(), Some((bytes - read) as u64));
            let part = data(poll_body(&mut body));
            assert_eq!(part, whole[read..bytes.min(read + PART)]);
            // The parts share the memory of the frame.
            assert_eq!(part.as_ptr(), whole[read..].as_ptr());
            read += part.len();
        }
        assert_eq!(endings_of(&registry, "/"), SUCCESS);
        assert!(body.is_end_stream());
        assert!(matches!(poll_body(&mut body), Poll::Ready(None)));
    }
}

#[test]
fn request_is_cancelled_if_its_client_leaves_between_two_parts() {
    let registry = registry();
    let mut body = respond(&registry, Full::new(text(3 * PART)), None);
    data(poll_body(&mut body));
    drop(body);
    assert_eq!(endings_of(&registry, "/"), CANCELLED);
}

#[test]
fn parts_of_a_body_that_is_too_short_are_an_exception_at_its_end() {
    let registry = registry();
    let frame = |bytes| Ok::<_, Infallible>(Frame::data(text(bytes)));
    let frames = futures_util::stream::iter([PART + 1, 5].into_iter().map(frame));
    let frames = StreamBody::new(frames);
    let mut body = respond(&registry, frames, Some(PART + 7));
    let lengths = [(); 3].map(|()| data(poll_body(&mut body)).len());
    assert_eq!((lengths, endings_of(&registry, "/")), ([PART, 1, 5], IN_FLIGHT));
    assert!(matches!(poll_body(&mut body), Poll::Ready(None)));
    assert_eq!(endings_of(&registry, "/"), EXCEPTION);
}
