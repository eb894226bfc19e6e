//! A service of gRPC whose messages are texts, without generated code.

use std::convert::Infallible;
use std::future::pending;
use std::task::{Context, Poll};

use bytes::{Buf, BufMut};
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt};
use http::Request as HttpRequest;
use http::Response as HttpResponse;
use tonic::body::Body;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::server::{Grpc, NamedService};
use tonic::{Request, Response, Status};
use tower::{Service, service_fn};

/// The codec of texts.
#[derive(Clone, Copy, Default)]
pub(crate) struct Text;

impl Codec for Text {
    type Encode = String;
    type Decode = String;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Text {
    type Item = String;
    type Error = Status;

    fn encode(&mut self, text: String, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        into.put_slice(text.as_bytes());
        Ok(())
    }
}

impl Decoder for Text {
    type Item = String;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<String>, Status> {
        let mut bytes = vec![0; from.remaining()];
        from.copy_to_slice(&mut bytes);
        String::from_utf8(bytes).map(Some).map_err(|error| Status::internal(error.to_string()))
    }
}

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
