//! Limiters behind references, in an `Option`, and behind a pointer of one type.

use std::sync::Arc;

use super::account::NoLimiter;
use super::{Account, Ask, Limiter};
use crate::flow::contract::Decision;
use crate::node::Permit;

/// A limiter of any kind: see [`LimiterExt::boxed`](super::LimiterExt::boxed). Its clones share its
/// state.
pub type BoxLimiter = Arc<dyn Limiter<Permit = BoxPermit> + Send + Sync>;

/// The permit of a [`BoxLimiter`].
pub type BoxPermit = Box<dyn Permit + Send>;

/// A limiter whose permits are boxed.
pub(super) struct Boxed<L>(pub(super) L);

impl<L: Limiter> Limiter for Boxed<L>
where
    L::Permit: Send + 'static,
{
    type Permit = BoxPermit;

    fn decide(&self, ask: &Ask<'_>) -> Decision<BoxPermit> {
        self.0.decide(ask).map(|permit| Box::new(permit) as BoxPermit)
    }

    fn peek(&self, ask: &Ask<'_>) -> Option<Decision> {
        self.0.peek(ask)
    }

    fn account(&self) -> &dyn Account {
        self.0.account()
    }
}

impl<L: Limiter> Limiter for Option<L> {
    type Permit = Option<L::Permit>;

    /// Admits the request if there is no limiter.
    #[inline]
    fn decide(&self, ask: &Ask<'_>) -> Decision<Self::Permit> {
        match self {
            Some(limiter) => limiter.decide(ask).map(Some),
            None => Decision::Admitted(None),
        }
    }

    #[inline]
    fn peek(&self, ask: &Ask<'_>) -> Option<Decision> {
        match self {
            Some(limiter) => limiter.peek(ask),
            None => Some(Decision::Admitted(())),
        }
    }

    #[inline]
    fn account(&self) -> &dyn Account {
        self.as_ref().map_or(&NoLimiter, Limiter::account)
    }
}

macro_rules! forward {
    ($($reference:ty),*) => {$(
        impl<L: Limiter + ?Sized> Limiter for $reference {
            type Permit = L::Permit;

            #[inline]
            fn decide(&self, ask: &Ask<'_>) -> Decision<L::Permit> {
                (**self).decide(ask)
            }

            #[inline]
            fn peek(&self, ask: &Ask<'_>) -> Option<Decision> {
                (**self).peek(ask)
            }

            #[inline]
            fn account(&self) -> &dyn Account {
                (**self).account()
            }
        }
    )*};
}

forward!(&L, Box<L>, Arc<L>);
