//! Controllers whose permits refer to them.

/// Implements [`Limiter`](super::Limiter) for references to a controller, and
/// [`LimiterExt`](super::LimiterExt) for the controller itself. Its methods `admit`, `foretold` and
/// the constructor `of` of its permit do the work.
macro_rules! lend {
    ($permit:ident, [$($generics:tt)*] $controller:ty) => {
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
                &**self
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
