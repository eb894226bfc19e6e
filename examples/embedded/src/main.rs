//! A service with a live page of its requests: the middleware records them, and one line adds the
//! page.
//!
//! ```sh
//! cargo run -p example-embedded
//! ```

#[path = "../../clients/src/arguments.rs"]
mod arguments;

use std::error::Error;
use std::io::{self, Write};
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
    if let Some(code) = arguments::exit_code() {
        return code;
    }
    match serve().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            arguments::complain(error);
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

    let address = "127.0.0.1:3000";
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|error| format!("cannot listen on {address}: {error}"))?;
    let page = token.url(format_args!("http://{address}/leaparray"));
    // Without a reader of stdout, the service goes on.
    let _ = writeln!(io::stdout(), "service: http://{address}/orders/7\nlive page: {page}");
    axum::serve(listener, app).await?;
    Ok(())
}
