//! Requests in the process: a call of the service, and its response to the end of the body.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use axum::Router;
use axum::body::{Body, Bytes};
use http::{Request, StatusCode, Uri};
use http_body::Body as _;
use tower::Service;

use super::stacks::{self, BARE, PATH, Stack};
use crate::goals::Row;
use crate::harness::Suite;
use crate::machine;
use crate::scenarios::crowd::Crowd;
use crate::timed::on_threads_each;

/// The numbers of threads that send requests.
pub(super) const THREADS: [usize; 2] = [1, 2];

/// Returns the name of the case that sends requests to a service.
pub(crate) fn case(stack: &Stack) -> String {
    format!("a request: {}", stack.name)
}

/// Sends requests to a service. The future and the body never wait, so no runtime is needed.
pub(crate) struct Client {
    router: Router,
    uri: Uri,
}

impl Client {
    pub(crate) fn new(router: Router) -> Self {
        Self { router, uri: Uri::from_static(PATH) }
    }

    /// Sends a request, and reads the body of its response to the end. Returns the number of its
    /// bytes.
    ///
    /// # Panics
    ///
    /// Panics if the response is not that of the handler.
    pub(crate) fn request(&mut self) -> usize {
        let mut cx = Context::from_waker(Waker::noop());
        let mut request = Request::new(Body::empty());
        *request.uri_mut() = self.uri.clone();
        // A server clones the service for each request.
        let future = pin!(self.router.clone().call(request));
        let Poll::Ready(Ok(response)) = future.poll(&mut cx) else {
            panic!("the handler is ready")
        };
        assert_eq!(response.status(), StatusCode::OK);
        let mut body = pin!(response.into_body());
        let mut bytes = 0;
        loop {
            match body.as_mut().poll_frame(&mut cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    bytes += frame.data_ref().map_or(0, Bytes::len);
                }
                Poll::Ready(None) => return bytes,
                _ => panic!("the body is ready, and has no error"),
            }
        }
    }
}

/// Adds the cases of services.
pub(super) fn add(suite: &mut Suite, stacks: &[Stack]) {
    for stack in stacks {
        let router = stack.router();
        for threads in THREADS {
            let (router, waits_for_core) = (router.clone(), threads > machine::cores());
            let run = move |iters, first| {
                let client = || {
                    let mut client = Client::new(router.clone());
                    move |_| client.request()
                };
                let elapsed = on_threads_each(threads, iters, first, &client)?;
                Some(if waits_for_core { elapsed.core } else { elapsed.wall })
            };
            suite.add_run(&case(stack), Crowd::of(threads), threads, run);
        }
    }
}

/// Returns the rows of all services.
pub(super) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for threads in THREADS {
        rows.push(Row::baseline(case(&BARE), threads));
        for stack in stacks::all().filter(|stack| stack.name != BARE.name) {
            rows.push(Row::ratio(case(&stack), threads, case(&BARE), None));
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_service_responds_with_the_order() {
        for stack in stacks::all() {
            assert_eq!(Client::new(stack.router()).request(), "an order".len(), "{}", stack.name);
        }
    }
}
