//! The stand-in for a reference that is set once.

use std::ptr;

use super::RacyOnce;

/// A reference that is set once. It synchronizes as a release store and an acquire load do, as
/// `once_cell`'s does.
#[derive(Debug)]
pub(crate) struct OnceRef<'a, T>(RacyOnce<&'a T>);

impl<'a, T> OnceRef<'a, T> {
    pub(crate) fn new() -> Self {
        Self(RacyOnce::new())
    }

    pub(crate) fn get(&self) -> Option<&'a T> {
        self.0.get().copied()
    }

    pub(crate) fn set(&self, value: &'a T) -> Result<(), ()> {
        if ptr::eq(*self.0.get_or_init(|| value), value) { Ok(()) } else { Err(()) }
    }
}
