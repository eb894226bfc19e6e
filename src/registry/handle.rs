//! A holder of a resource, which clones of a [`Resource`](super::Resource) share.

use super::context::KeptContext;
use super::listed::Listed;
use crate::node::ResourceNode;
use crate::sync::{Arc, AtomicU64};

/// One of the [holders](super::holders::Holders) of a resource, until it is dropped.
//
// Aligned to a cache line, so that look-ups in different lanes change reference counts in different
// lines. An allocator does not ensure that: a lane outlives the thread that has made its handle.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Handle<C> {
    listed: Arc<Listed<C>>,
    /// `None` for the node of the resource itself.
    context: Option<KeptContext<C>>,
    /// A copy of the resource's word: a request that has the handle reads no further cache line
    /// for it.
    rule_place: AtomicU64,
}

impl<C> Handle<C> {
    fn of(listed: Arc<Listed<C>>, context: Option<KeptContext<C>>) -> Self {
        Self { listed, context, rule_place: AtomicU64::new(0) }
    }

    /// Creates the first holder of a resource, which was [created](Listed::new) with one.
    pub(super) fn first(listed: Listed<C>) -> Self {
        Self::of(Arc::new(listed), None)
    }

    /// Creates another holder, unless the resource is gone.
    pub(super) fn take(listed: &Arc<Listed<C>>) -> Option<Self> {
        listed.holders().take().then(|| Self::of(Arc::clone(listed), None))
    }

    /// Returns a handle to a resource that was found, unless the resource is gone.
    #[inline]
    pub(super) fn find(listed: &Arc<Listed<C>>) -> Option<Arc<Self>> {
        if listed.holders().is_gone() {
            return None;
        }
        listed.kept().reuse().or_else(|| {
            let handle = Arc::new(Self::take(listed)?);
            listed.kept().keep(&handle);
            Some(handle)
        })
    }

    /// Creates another holder of this resource, in a context or in none.
    pub(super) fn another(&self, context: Option<&KeptContext<C>>) -> Self {
        self.listed.holders().take_another();
        Self::of(Arc::clone(&self.listed), context.cloned())
    }

    /// Returns a handle to this resource, in a context or in none.
    pub(super) fn in_context(&self, context: Option<&KeptContext<C>>) -> Arc<Self> {
        let kept = context.map_or_else(|| self.listed.kept(), |context| context.kept());
        let handle = kept.reuse().unwrap_or_else(|| {
            let handle = Arc::new(self.another(context));
            kept.keep(&handle);
            handle
        });
        // Unlike a look-up, this may happen beside the drop of the registry, or after it.
        if self.listed.common().is_dropped() {
            kept.release();
        }
        handle
    }

    #[inline]
    pub(super) const fn listed(&self) -> &Arc<Listed<C>> {
        &self.listed
    }

    /// Returns the word that [`Resource::rule_place`](super::Resource::rule_place) reads.
    #[inline]
    pub(super) const fn rule_place(&self) -> &AtomicU64 {
        &self.rule_place
    }

    #[inline]
    pub(super) const fn context(&self) -> Option<&KeptContext<C>> {
        self.context.as_ref()
    }

    #[inline]
    pub(super) fn node(&self) -> &ResourceNode<C> {
        match &self.context {
            None => self.listed.node(),
            Some(context) => context.node(),
        }
    }
}

impl<C> Drop for Handle<C> {
    fn drop(&mut self) {
        self.listed.holders().release();
    }
}
