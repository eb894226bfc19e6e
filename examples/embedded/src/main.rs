//! A service with a live page of its requests: the middleware records them, and one line adds the
//! page.
//!
//! ```sh
//! cargo run -p example-embedded
//! ```

use std::error::Error;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use leaparray::Registry;
use leaparray_tower::{MatchedRoute, ResourceLayer};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> ExitCode {
    match serve().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

async fn serve() -> Result<(), Box<dyn Error>> {
    let registry = Arc::new(Registry::new());
    let app = Router::new()
        .route("/orders/{id}", get(async || "an order\n"))
        .layer(ResourceLayer::new(Arc::clone(&registry), MatchedRoute)?)
        .nest("/leaparray", leaparray_web::router(registry));

    let listener = TcpListener::bind("127.0.0.1:3000").await?;
    println!("http://{0}/orders/7 and http://{0}/leaparray", listener.local_addr()?);
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}
