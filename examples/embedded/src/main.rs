//! A service with a live page of its requests: the middleware records them, and one line adds the
//! page.
//!
//! ```sh
//! cargo run -p example-embedded
//! ```

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use leaparray::Registry;
use leaparray_tower::{MatchedRoute, ResourceLayer};
use leaparray_web::{Access, Token};
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
    let token = Token::random();
    let app = Router::new()
        .route("/orders/{id}", get(async || "an order\n"))
        .layer(ResourceLayer::new(Arc::clone(&registry), MatchedRoute)?)
        .nest_service("/leaparray", leaparray_web::service(registry, Access::token(&token)));

    let listener = TcpListener::bind("127.0.0.1:3000").await?;
    let address = listener.local_addr()?;
    println!("service: http://{address}/orders/7");
    println!("live page: {}", token.url(format_args!("http://{address}/leaparray")));
    axum::serve(listener, app).await?;
    Ok(())
}
