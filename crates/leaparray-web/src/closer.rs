//! The end of all streams.

use std::sync::Arc;

use crate::hub::Viewers;

/// Ends the streams of a [`Page`](crate::Page), so that they do not hold up a graceful shutdown. Returned by
/// [`Page::closer`](crate::Page::closer).
///
/// A client that takes no bytes can still hold its connection open: put a time limit on the shutdown, as
/// [`Page::serve`](crate::Page::serve) does.
///
/// ```
/// use leaparray::Registry;
/// use leaparray_web::Page;
/// use std::sync::Arc;
///
/// let page = Page::new(Arc::new(Registry::new()));
/// let closer = page.closer();
/// // In the future that `with_graceful_shutdown` awaits, after the signal:
/// closer.close();
/// assert!(closer.is_closed());
/// assert_eq!(closer.viewers(), 0);
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
}
