//! The page as a service of tower.

use std::convert::Infallible;
use std::task::{Context, Poll};

use axum::http::Request;
use axum::response::Response;
use axum::routing::future::RouteFuture;
use axum::{BoxError, Router};
use bytes::Bytes;
use tower_service::Service;

/// A [`Page`](crate::Page) as a service for HTTP requests, returned by
/// [`Page::into_service`](crate::Page::into_service) and [`service`](crate::service).
///
/// It is no `Router`, so that `Router::nest` does not take it: axum would answer `/leaparray` then,
/// but not `/leaparray/`. `Router::nest_service` answers both.
///
/// ```
/// use axum::Router;
/// use axum::body::Body;
/// use axum::http::Request;
/// use leaparray::Registry;
/// use leaparray_web::Access;
/// use std::sync::Arc;
/// use tower::ServiceExt;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let page = leaparray_web::service(Arc::new(Registry::new()), Access::anyone());
/// let app: Router = Router::new().nest_service("/leaparray", page);
/// for path in ["/leaparray", "/leaparray/", "/leaparray/snapshot"] {
///     let request = Request::get(path).body(Body::empty()).unwrap();
///     assert_eq!(app.clone().oneshot(request).await.unwrap().status(), 200);
/// }
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct PageService(Router);

impl PageService {
    pub(crate) const fn new(router: Router) -> Self {
        Self(router)
    }
}

impl<B> Service<Request<B>> for PageService
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = RouteFuture<Infallible>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Service::<Request<B>>::poll_ready(&mut self.0, context)
    }

    fn call(&mut self, request: Request<B>) -> RouteFuture<Infallible> {
        self.0.call(request)
    }
}
