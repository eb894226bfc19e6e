//! A graceful shutdown ends each request once.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::Request;
use axum::routing::get;
use futures_util::{StreamExt, stream};
use http_body_util::BodyExt;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::clients::server::{Server, Version, endings};

#[tokio::test]
async fn requests_in_flight_end_as_their_clients_see_it() {
    for version in Version::ALL {
        let gate = Arc::new(Semaphore::new(0));
        let body = {
            let gate = Arc::clone(&gate);
            move || {
                let first = stream::iter([Bytes::from_static(b"first")]);
                let gate = Arc::clone(&gate);
                let last = stream::once(async move {
                    gate.acquire().await.unwrap().forget();
                    Bytes::from_static(b"last")
                });
                Body::from_stream(first.chain(last).map(Ok::<_, Infallible>))
            }
        };
        let server = Server::start(Router::new().route("/body", get(async move || body()))).await;
        let (mut stay, mut leave) = (JoinSet::new(), Vec::new());
        for number in 0..20 {
            let client = version.client();
            let request = Request::get(server.url("/body")).body(Body::empty()).unwrap();
            let mut body = client.request(request).await.unwrap().into_body();
            assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "first");
            if number % 4 == 0 {
                leave.push((body, client));
            } else {
                stay.spawn(async move {
                    let rest = body.collect().await.unwrap().to_bytes();
                    drop(client);
                    rest
                });
            }
        }
        assert_eq!(server.endings("GET /body"), [0, 0, 0, 20]);
        let registry = Arc::clone(&server.registry);
        let stopped = tokio::spawn(server.stop());
        drop(leave);
        crate::clients::server::until(
            || endings(&registry, "GET /body") == [0, 0, 5, 15],
            || format!("{:?}", endings(&registry, "GET /body")),
        )
        .await;
        gate.add_permits(15);
        for rest in stay.join_all().await {
            assert_eq!(rest, "last");
        }
        stopped.await.unwrap();
        assert_eq!(endings(&registry, "GET /body"), [15, 0, 5, 0], "{version:?}");
    }
}
