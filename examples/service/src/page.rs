//! The live page.

use std::sync::Arc;

use leaparray_web::{Access, Page, Token};

use crate::metrics::Metrics;

pub(crate) const PATH: &str = "/leaparray";

/// The page of all resources, and of the watched limiters, for readers with the token.
pub(crate) fn page(metrics: &Metrics, token: &Token) -> Page {
    Page::new(Arc::clone(&metrics.registry), Access::token(token)).name("service")
}
