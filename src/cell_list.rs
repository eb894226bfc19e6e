//! Cells that one thread each owns, and a last one that all others share.

use crate::sync::stall::{self, Point};
use crate::sync::{Arc, AtomicU32, Lazy, Ordering, ThreadToken, cell_limit};

/// A cell, whose it is, and the list of those after it.
//
// In this order: what a sum needs of it is side by side.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct CellNode<C> {
    /// Made once, and kept for as long as the list is.
    next: Lazy<Arc<Self>>,
    cell: C,
    owner: AtomicU32,
}

impl<C> CellNode<C> {
    #[inline]
    pub(crate) const fn cell(&self) -> &C {
        &self.cell
    }

    /// The one after this.
    #[inline]
    pub(crate) fn next(&self) -> Option<&Self> {
        self.next.get().map(Arc::as_ref)
    }

    /// This one and those after it.
    #[inline]
    pub(crate) fn list(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |node| node.next())
    }

    /// Frees all from this one on, when nobody writes: they are for whoever comes first.
    pub(crate) fn free(&self) {
        for (depth, node) in self.list().enumerate() {
            let owner = if depth < cell_limit() { ThreadToken::NONE } else { ThreadToken::SHARED };
            node.owner.store(owner.0, Ordering::Relaxed);
        }
    }

    fn owner(&self) -> ThreadToken {
        ThreadToken(self.owner.load(Ordering::Relaxed))
    }

    /// Whether that thread may write here: it is the owner, or becomes it, or nobody is.
    fn admits(&self, token: ThreadToken) -> bool {
        let owner = self.owner();
        owner == token
            || owner == ThreadToken::SHARED
            || (owner == ThreadToken::NONE && self.claim(token))
    }

    fn claim(&self, token: ThreadToken) -> bool {
        stall::at(Point::CellFree);
        // Relaxed: an unclaimed cell has no counts that its owner would have to see. One that was
        // used before was emptied before its wrap was swapped into a slot.
        self.owner
            .compare_exchange(ThreadToken::NONE.0, token.0, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }
}

impl<C: Default> CellNode<C> {
    pub(crate) fn new(owner: ThreadToken) -> Self {
        Self { next: Lazy::new(), cell: C::default(), owner: AtomicU32::new(owner.0) }
    }

    /// The cell that the thread of that token is to write: its own, or the one that is shared by
    /// all for whom there is none.
    ///
    /// The first thread takes the cell that the list begins with. For each further one a cell is
    /// appended to it, up to a limit; the last one is shared. A cell goes with its token, to the next
    /// thread that has it.
    pub(crate) fn place(&self, token: ThreadToken) -> Place<C> {
        let mut node: Option<&Arc<Self>> = None;
        for depth in 1.. {
            let here = node.map_or(self, Arc::as_ref);
            if here.admits(token) {
                let owned = token != ThreadToken::SHARED && here.owner() == token;
                return Place { node: node.cloned(), owned };
            }
            let owner = if depth < cell_limit() { token } else { ThreadToken::SHARED };
            node = Some(here.next.get_or_make(|| Arc::new(Self::new(owner))));
        }
        unreachable!("a list of cells ends with one that admits everybody")
    }
}

/// Where in a list a thread writes. It goes with that list and that thread.
#[derive(Debug)]
pub(crate) struct Place<C> {
    /// The node of the cell; `None` for the list's first.
    node: Option<Arc<CellNode<C>>>,
    owned: bool,
}

impl<C> Place<C> {
    /// The cell, if it is not the list's first.
    #[inline]
    pub(crate) fn further_cell(&self) -> Option<&C> {
        self.node.as_deref().map(CellNode::cell)
    }

    /// The node, if it is not the list's first.
    pub(crate) fn into_further(self) -> Option<Arc<CellNode<C>>> {
        self.node
    }

    /// Whether the cell is one thread's own.
    #[inline]
    pub(crate) const fn is_owned(&self) -> bool {
        self.owned
    }
}
