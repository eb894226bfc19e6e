//! A service of gRPC whose messages are texts, without generated code.

use std::convert::Infallible;
use std::future::pending;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt};
use http::Request as HttpRequest;
use http::Response as HttpResponse;
use tonic::body::Body;
use tonic::server::{Grpc, NamedService};
use tonic::{Request, Response, Status};
use tower::{Service, service_fn};

use crate::text::Text;

#[derive(Clone, Copy, Default)]
pub(crate) struct Shop;

impl NamedService for Shop {
    const NAME: &'static str = "shop.Orders";
}

type Texts = BoxStream<'static, Result<String, Status>>;

/// Answers with the text, or fails with the internal status if the text is `fail`.
async fn place(request: Request<String>) -> Result<Response<String>, Status> {
    match request.into_inner() {
        text if text == "fail" => Err(Status::internal("out of stock")),
        text if text == "wait" => pending().await,
        text => Ok(Response::new(text)),
    }
}

/// Streams three texts, and then ends, fails or waits, as the text of the request says.
async fn watch(request: Request<String>) -> Result<Response<Texts>, Status> {
    let three = stream::iter(["1", "2", "3"].map(|text| Ok(text.to_owned())));
    Ok(Response::new(match request.into_inner().as_str() {
        "fail" => three.chain(stream::iter([Err(Status::data_loss("lost"))])).boxed(),
        "wait" => three.chain(stream::pending()).boxed(),
        _ => three.boxed(),
    }))
}

impl Service<HttpRequest<Body>> for Shop {
    type Response = HttpResponse<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<HttpResponse<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: HttpRequest<Body>) -> Self::Future {
        Box::pin(async move {
            let mut grpc = Grpc::new(Text);
            Ok(match request.uri().path() {
                "/shop.Orders/Place" => grpc.unary(service_fn(place), request).await,
                "/shop.Orders/Watch" => grpc.server_streaming(service_fn(watch), request).await,
                _ => Status::unimplemented("no such method").into_http(),
            })
        })
    }
}
