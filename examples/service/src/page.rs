//! The live page.

use std::sync::Arc;

use leaparray_web::{Access, Page, Token};

use crate::limits::Limits;
use crate::metrics::Metrics;

pub(crate) const PATH: &str = "/leaparray";

/// The page of all resources, of the watched limiters and of the rules, for readers with the token.
pub(crate) fn page(metrics: &Metrics, limits: &Limits, token: &Token) -> Page {
    let page = Page::new(Arc::clone(&metrics.registry), Access::token(token)).name("service");
    match limits {
        Limits::Rules(rules) => page.rules(rules.on_page()),
        Limits::ByHand(_) => page,
    }
}
