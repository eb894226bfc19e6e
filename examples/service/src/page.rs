//! The live page.

use std::sync::Arc;

use leaparray_web::{Access, Page, Token};

use crate::controller::Controller;
use crate::gate::Gates;
use crate::metrics::Metrics;

pub(crate) const PATH: &str = "/leaparray";

/// The page of all resources, with the limiters and the controllers of their routes, for readers
/// with the token.
pub(crate) fn page(metrics: &Metrics, gates: &Gates, token: &Token) -> Page {
    let page = Page::new(Arc::clone(&metrics.registry), Access::token(token)).name("service");
    let page = gates
        .all()
        .fold(page, |page, (route, limiter)| page.limiter(route.path(), Arc::clone(limiter)));
    gates.controllers().fold(page, |page, (route, controller)| match controller {
        Controller::Circuit(breaker) => page.circuit_breaker(route.path(), Arc::clone(breaker)),
        Controller::Breaker(breaker) => page.breaker(route.path(), Arc::clone(breaker)),
        // Among the limiters.
        Controller::Adaptive(_) => page,
    })
}
