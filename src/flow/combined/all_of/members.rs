//! The limiters of a combination: a tuple, or a `Vec`.

use std::time::Duration;

use super::Outlook;
use super::held::Held;
use crate::flow::contract::{Account, Ask, Decision, Limiter};
use crate::node::Permit;
use crate::time::Timestamp;

/// The limiters of an [`AllOf`](super::AllOf).
pub trait Members {
    type Permits: Permit;

    /// Returns the time of the first limiter that has a clock.
    fn first_time(&self) -> Timestamp;

    /// Calls `visit` with the account of each limiter.
    fn each_account(&self, visit: &mut dyn FnMut(&dyn Account));

    /// Returns the decision that the limiters would make together.
    fn outlook(&self, ask: &Ask<'_>) -> Outlook;

    /// Asks each limiter, those that cannot tell in advance first. Nothing is taken unless each
    /// gives its permits.
    fn decide(&self, ask: &Ask<'_>) -> Decision<Self::Permits>;
}

macro_rules! tuple {
    ($($limiter:ident $index:tt $held:ident $is_known:ident),*) => {
        impl<$($limiter: Limiter),*> Members for ($($limiter,)*) {
            type Permits = ($($limiter::Permit,)*);

            #[inline]
            fn first_time(&self) -> Timestamp {
                let none = Timestamp::MIN;
                $(
                    let time = self.$index.account().now();
                    if time > none {
                        return time;
                    }
                )*
                none
            }

            fn each_account(&self, visit: &mut dyn FnMut(&dyn Account)) {
                $( visit(self.$index.account()); )*
            }

            fn outlook(&self, ask: &Ask<'_>) -> Outlook {
                let mut outlook = Outlook::default();
                $( outlook.add(ask.foretold_by(&self.$index)); )*
                outlook
            }

            #[inline]
            fn decide(&self, ask: &Ask<'_>) -> Decision<Self::Permits> {
                let mut outlook = Outlook::default();
                $( let $is_known = outlook.add(ask.foretold_by(&self.$index)); )*
                if let Some(refusal) = outlook.refusal() {
                    return Decision::Refused(refusal);
                }
                let ask = &ask.again();
                $( let mut $held = Held::nothing(ask, &self.$index); )*
                for known in [false, true] {
                    $(
                        if $is_known == known && let Err(refusal) = $held.ask() {
                            return Decision::Refused(refusal);
                        }
                    )*
                }
                let ($(Some($held),)*) = ($($held.take(),)*) else { unreachable!("each was asked") };
                let longest = Duration::ZERO$(.max($held.1))*;
                Decision::after(($($held.0,)*), longest)
            }
        }
    };
}

tuple!(A 0 a a_known, B 1 b b_known);
tuple!(A 0 a a_known, B 1 b b_known, C 2 c c_known);
tuple!(A 0 a a_known, B 1 b b_known, C 2 c c_known, D 3 d d_known);

impl<L: Limiter> Members for Vec<L> {
    type Permits = Vec<L::Permit>;

    fn first_time(&self) -> Timestamp {
        let mut times = self.iter().map(|limiter| limiter.account().now());
        times.find(|&time| time > Timestamp::MIN).unwrap_or(Timestamp::MIN)
    }

    fn each_account(&self, visit: &mut dyn FnMut(&dyn Account)) {
        for limiter in self {
            visit(limiter.account());
        }
    }

    fn outlook(&self, ask: &Ask<'_>) -> Outlook {
        let mut outlook = Outlook::default();
        for limiter in self {
            outlook.add(ask.foretold_by(limiter));
        }
        outlook
    }

    fn decide(&self, ask: &Ask<'_>) -> Decision<Vec<L::Permit>> {
        let outlook = self.outlook(ask);
        if let Some(refusal) = outlook.refusal() {
            return Decision::Refused(refusal);
        }
        let ask = &ask.again();
        let mut held: Vec<_> = self.iter().map(|limiter| Held::nothing(ask, limiter)).collect();
        if outlook.is_unknown() {
            // Asked again, because a `Vec` of what is known would be one more allocation. A limiter
            // whose answer has changed is asked in the second round.
            for held in held.iter_mut().filter(|held| held.cannot_tell()) {
                if let Err(refusal) = held.ask() {
                    return Decision::Refused(refusal);
                }
            }
        }
        for held in held.iter_mut().filter(|held| !held.is_given()) {
            if let Err(refusal) = held.ask() {
                return Decision::Refused(refusal);
            }
        }
        let mut longest = Duration::ZERO;
        let permits = held.into_iter().filter_map(|held| {
            let (permit, wait) = held.take()?;
            longest = longest.max(wait);
            Some(permit)
        });
        let permits = permits.collect();
        Decision::after(permits, longest)
    }
}
