//! The limits of the routes.

use std::error::Error;
use std::sync::Arc;

use leaparray_rules::{Follow, Rules};

use crate::by_hand::ByHand;
use crate::metrics::Metrics;
use crate::{Args, complain};

pub(crate) enum Limits {
    /// The rules of a file, which is followed.
    Rules(Rules),
    ByHand(ByHand),
}

impl Limits {
    pub(crate) fn new(args: &Args, metrics: &Metrics) -> Result<Self, Box<dyn Error>> {
        if args.circuit || args.adaptive {
            return Ok(Self::ByHand(ByHand::new(args, metrics)?));
        }
        let rules = Rules::new(Arc::clone(&metrics.registry));
        let file = Follow::file(&args.rules);
        rules.follow(file.on_event(|event| complain(format_args!("rules: {event}"))))?;
        Ok(Self::Rules(rules))
    }
}
