//! Controllers whose permits refer to them.

/// Implements [`Limiter`](super::Limiter) for references to a controller, and
/// [`LimiterExt`](super::LimiterExt) for the controller itself. Its methods `admit`, `foretold` and
/// the constructor `of` of its permit do the work.
///
/// The account of a controller with the mark `learns` does not tell that a permit is in flight, of
/// which the controller learns at its end. The account of an `Arc` of it then does, by the
/// references: so the controller is not as new, in whatever limiter the `Arc` is.
macro_rules! lend {
    (@account $arc:ident) => { &**$arc };
    (@account $arc:ident learns) => { $arc };
    ($permit:ident, [$($generics:tt)*] $controller:ty, learns) => {
        $crate::flow::contract::lend!(@lend $permit, [$($generics)*] $controller, [learns]);

        impl<$($generics)*> $crate::flow::contract::Account for std::sync::Arc<$controller> {
            #[inline(always)]
            fn now(&self) -> $crate::time::Timestamp {
                (**self).now()
            }

            fn quota(&self, now: $crate::time::Timestamp) -> Option<$crate::flow::contract::Quota> {
                (**self).quota(now)
            }

            fn each_quota(
                &self,
                now: $crate::time::Timestamp,
                visit: &mut dyn FnMut($crate::flow::contract::Quota),
            ) {
                (**self).each_quota(now, visit);
            }

            fn watched_at(&self, now: $crate::time::Timestamp) -> $crate::flow::watch::WatchedState {
                (**self).watched_at(now)
            }

            /// Returns whether the controller is as new, and this is its only `Arc`: a permit in
            /// flight has another one, and reports to the controller when it ends.
            fn is_as_new(&self, now: $crate::time::Timestamp) -> bool {
                if std::sync::Arc::strong_count(self) > 1 {
                    return false;
                }
                // Acquire: pairs with the Release with which the last permit dropped its reference.
                // What it has reported is read below.
                $crate::sync::fence($crate::sync::Ordering::Acquire);
                (**self).is_as_new(now)
            }

            fn refund(
                &self,
                ask: &$crate::flow::contract::Ask<'_>,
                wait: std::time::Duration,
            ) -> bool {
                (**self).refund(ask, wait)
            }

            fn wake_on_answer(&self, waker: &std::task::Waker) -> bool {
                (**self).wake_on_answer(waker)
            }

            fn note_wait(&self, permits: u64) -> Option<Box<dyn Send + Sync>> {
                (**self).note_wait(permits)
            }
        }
    };
    ($permit:ident, [$($generics:tt)*] $controller:ty) => {
        $crate::flow::contract::lend!(@lend $permit, [$($generics)*] $controller, []);
    };
    (@lend $permit:ident, [$($generics:tt)*] $controller:ty, [$($learns:ident)?]) => {
        impl<'a, $($generics)*> $crate::flow::contract::Limiter for &'a $controller {
            type Permit = $permit<&'a $controller>;

            #[inline(always)]
            fn decide(&self, ask: &$crate::flow::contract::Ask<'_>) -> $crate::flow::contract::Decision<Self::Permit> {
                $permit::ask(*self, ask)
            }

            fn peek(&self, ask: &$crate::flow::contract::Ask<'_>) -> Option<$crate::flow::contract::Decision> {
                self.foretold(ask)
            }

            #[inline(always)]
            fn account(&self) -> &dyn $crate::flow::contract::Account {
                *self
            }
        }

        impl<$($generics)*> $crate::flow::contract::Limiter for std::sync::Arc<$controller> {
            type Permit = $permit<Self>;

            #[inline(always)]
            fn decide(&self, ask: &$crate::flow::contract::Ask<'_>) -> $crate::flow::contract::Decision<Self::Permit> {
                match self.admit(ask) {
                    // Cloned only after the decision: a refused request does not write the shared
                    // reference count.
                    Ok(held) => {
                        let permit = $permit::of(std::sync::Arc::clone(self), held);
                        $crate::flow::contract::Decision::Admitted(permit)
                    }
                    Err(refusal) => $crate::flow::contract::Decision::Refused(refusal),
                }
            }

            fn peek(&self, ask: &$crate::flow::contract::Ask<'_>) -> Option<$crate::flow::contract::Decision> {
                self.foretold(ask)
            }

            #[inline(always)]
            fn account(&self) -> &dyn $crate::flow::contract::Account {
                $crate::flow::contract::lend!(@account self $($learns)?)
            }
        }

        impl<$($generics)*> $crate::flow::contract::LimiterExt for $controller {
            type Lent<'a>
                = $permit<&'a Self>
            where
                Self: 'a;
            type Owned = std::sync::Arc<Self>;

            #[inline(always)]
            fn ask<'a>(
                &'a self,
                ask: &$crate::flow::contract::Ask<'_>,
            ) -> $crate::flow::contract::Decision<$permit<&'a Self>> {
                $permit::ask(self, ask)
            }

            fn foretell(&self, ask: &$crate::flow::contract::Ask<'_>) -> Option<$crate::flow::contract::Decision> {
                self.foretold(ask)
            }

            #[inline(always)]
            fn books(&self) -> &dyn $crate::flow::contract::Account {
                self
            }

            fn into_owned(self) -> std::sync::Arc<Self> {
                std::sync::Arc::new(self)
            }
        }
    };
}

pub(in crate::flow) use lend;
