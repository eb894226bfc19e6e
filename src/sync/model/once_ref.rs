//! A reference that is set once, as loom is to see it.

use std::ptr;

use super::RacyOnce;

/// It makes the edges of a releasing store and an acquiring load, as `once_cell`'s does.
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
