//! An upgrade to a WebSocket ends its request, and the socket lives on.

use axum::Router;
use axum::extract::WebSocketUpgrade;
use axum::extract::ws::Message;
use axum::routing::any;
use futures_util::{SinkExt, StreamExt};
use tokio_tungstenite::connect_async;

use crate::clients::server::Server;

#[tokio::test]
async fn upgrade_ends_its_request_with_the_head() {
    let echo = async |upgrade: WebSocketUpgrade| {
        upgrade.on_upgrade(async |mut socket| {
            while let Some(Ok(message)) = socket.recv().await {
                if let Message::Text(text) = message {
                    socket.send(Message::Text(text)).await.unwrap();
                }
            }
        })
    };
    let server = Server::start(Router::new().route("/echo", any(echo))).await;
    let url = format!("ws://{}/echo", server.address);
    let (mut socket, response) = connect_async(url).await.unwrap();
    assert_eq!(response.status(), 101);
    server.expect("GET /echo", [1, 0, 0, 0]).await;
    for text in ["one", "two"] {
        socket.send(text.into()).await.unwrap();
        assert_eq!(socket.next().await.unwrap().unwrap().into_text().unwrap(), text);
    }
    socket.close(None).await.unwrap();
    assert_eq!(server.endings("GET /echo"), [1, 0, 0, 0]);
}
