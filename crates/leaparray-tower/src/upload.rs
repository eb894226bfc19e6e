//! The upload of a request, which its client may break off.

#[cfg(feature = "axum")]
pub(crate) use watched::{Upload, is_begun, watch};

#[cfg(not(feature = "axum"))]
pub(crate) use unwatched::{Upload, is_begun, watch};

/// Without axum, the type of the body is not known.
#[cfg(not(feature = "axum"))]
mod unwatched {
    use std::convert::Infallible;

    pub(crate) struct Upload(Option<Infallible>);

    impl Upload {
        pub(crate) const fn is_watched(&self) -> bool {
            self.0.is_some()
        }

        pub(crate) const fn is_broken_off(&self) -> bool {
            self.0.is_some()
        }
    }

    pub(crate) const fn is_begun<A>(_body: &A) -> bool {
        false
    }

    pub(crate) const fn watch<A>(_body: &mut A) -> Upload {
        Upload(None)
    }
}

#[cfg(feature = "axum")]
mod watched {
    use std::any::Any;
    use std::error::Error;
    use std::io::{self, ErrorKind};
    use std::pin::Pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::{Context, Poll, ready};

    use axum::body::{Body, Bytes};
    use http_body::{Frame, SizeHint};

    /// Whether the client has broken the upload of a request off. `None` if the request has no
    /// body, or one of a type that is not known.
    pub(crate) struct Upload(Option<Arc<AtomicBool>>);

    impl Upload {
        pub(crate) const fn is_watched(&self) -> bool {
            self.0.is_some()
        }

        pub(crate) fn is_broken_off(&self) -> bool {
            // Relaxed: the flag orders nothing. A response that was made from the error of the body
            // reaches this thread after the store, with the response.
            self.0.as_ref().is_some_and(|is_broken_off| is_broken_off.load(Ordering::Relaxed))
        }
    }

    /// Returns whether this is a body of a request to axum that has not ended.
    #[inline]
    pub(crate) fn is_begun<A: 'static>(body: &A) -> bool {
        let body = (body as &dyn Any).downcast_ref::<Body>();
        body.is_some_and(|body| !http_body::Body::is_end_stream(body))
    }

    /// Watches the body of a request to axum: whether it ends with an error because the client has
    /// left. Over HTTP/1.1, no other sign of it reaches the layer. The handler, or an extractor
    /// before it, makes a response of this error, which has no reader.
    pub(crate) fn watch<A: 'static>(body: &mut A) -> Upload {
        match (body as &mut dyn Any).downcast_mut::<Body>() {
            Some(body) if !http_body::Body::is_end_stream(body) => wrap(body),
            _ => Upload(None),
        }
    }

    #[cold]
    fn wrap(body: &mut Body) -> Upload {
        let is_broken_off = Arc::new(AtomicBool::new(false));
        let inner = std::mem::take(body);
        *body = Body::new(Watched { inner, is_broken_off: Arc::clone(&is_broken_off) });
        Upload(Some(is_broken_off))
    }

    struct Watched {
        inner: Body,
        is_broken_off: Arc<AtomicBool>,
    }

    impl http_body::Body for Watched {
        type Data = Bytes;
        type Error = axum::Error;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
            let frame = ready!(Pin::new(&mut self.inner).poll_frame(cx));
            if let Some(Err(error)) = &frame
                && is_of_the_connection(error)
            {
                self.is_broken_off.store(true, Ordering::Relaxed);
            }
            Poll::Ready(frame)
        }

        fn is_end_stream(&self) -> bool {
            self.inner.is_end_stream()
        }

        fn size_hint(&self) -> SizeHint {
            self.inner.size_hint()
        }
    }

    /// Returns whether an error says that the connection or the stream has ended. The client is
    /// there, and reads the response, if its upload is too large for a layer or is not valid.
    fn is_of_the_connection(error: &axum::Error) -> bool {
        let mut is_of_hyper = false;
        let mut source: Option<&(dyn Error + 'static)> = Some(error);
        while let Some(error) = source {
            is_of_hyper |= error.is::<hyper::Error>();
            if let Some(error) = error.downcast_ref::<io::Error>()
                && matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::InvalidData)
            {
                return false;
            }
            source = error.source();
        }
        is_of_hyper
    }
}
