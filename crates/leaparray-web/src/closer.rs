//! The end of all streams.

use std::sync::Arc;
use std::time::Duration;

use crate::hub::Viewers;

/// Ends the streams of a [`Page`](crate::Page), so that they do not hold up a graceful shutdown.
/// Returned by [`Page::closer`](crate::Page::closer).
///
/// A client that takes no bytes can still hold its connection open, so a shutdown needs a time
/// limit: [`closed_for`](Self::closed_for).
///
/// ```
/// use axum::Router;
/// use leaparray::Registry;
/// use leaparray_web::{Access, Page, Token};
/// use std::sync::Arc;
/// use std::time::Duration;
/// use tokio::net::TcpListener;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> std::io::Result<()> {
/// let token = Token::random();
/// let page = Page::new(Arc::new(Registry::new()), Access::token(&token));
/// let closer = page.closer();
/// let app: Router = Router::new().nest_service("/leaparray", page.into_service());
/// let listener = TcpListener::bind("127.0.0.1:0").await?;
///
/// let signal = {
///     let closer = closer.clone();
///     async move {
///         // Await the signal of the service here, such as `tokio::signal::ctrl_c()`.
///         closer.close();
///     }
/// };
/// let served = axum::serve(listener, app).with_graceful_shutdown(signal);
/// tokio::select! {
///     result = served.into_future() => result?,
///     () = closer.closed_for(Duration::from_secs(5)) => {}
/// }
/// assert!(closer.is_closed());
/// assert_eq!(closer.viewers(), 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Closer {
    pub(crate) viewers: Arc<Viewers>,
}

impl Closer {
    /// Ends all streams, with the reason `closing`. From then on, further streams are refused.
    pub fn close(&self) {
        self.viewers.close();
    }

    /// Returns whether [`close`](Self::close) was called.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.viewers.is_closed()
    }

    /// Returns the number of viewers that have a place.
    #[must_use]
    pub fn viewers(&self) -> usize {
        self.viewers.len()
    }

    /// Resolves once [`close`](Self::close) was called.
    pub async fn closed(&self) {
        self.viewers.closed().await;
    }

    /// Resolves `time` after [`close`](Self::close) was called, or after the result was first
    /// polled, if that is later. Select between this and a server, so that a client that takes no
    /// bytes does not hold up its end.
    pub async fn closed_for(&self, time: Duration) {
        self.closed().await;
        tokio::time::sleep(time).await;
    }
}
