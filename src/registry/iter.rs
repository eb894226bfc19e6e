//! An iterator over all resources.

use std::{fmt, vec};

use super::Registry;
use super::listed::Listed;
use super::resource::Resource;
use crate::sync::Arc;

impl<C> Registry<C> {
    /// Returns an iterator over the listed resources, in any order. Other threads may list and
    /// remove resources during the iteration: a resource that is listed all the time is returned
    /// exactly once, any other resource at most once.
    ///
    /// This call collects one pointer to each resource. The iterator skips resources that are
    /// removed or evicted before it reaches them.
    ///
    /// ```
    /// use leaparray::Registry;
    ///
    /// let registry = Registry::new();
    /// for name in ["GET /orders", "GET /users"] {
    ///     registry.resource(name)?;
    /// }
    /// let mut names: Vec<_> =
    ///     registry.iter().map(|resource| resource.name().to_owned()).collect();
    /// names.sort();
    /// assert_eq!(names, ["GET /orders", "GET /users"]);
    /// # Ok::<_, leaparray::registry::RegistryError>(())
    /// ```
    pub fn iter(&self) -> Resources<C> {
        let mut listed = Vec::with_capacity(self.len());
        self.names.for_each(|found| listed.push(Arc::clone(found)));
        Resources(listed.into_iter())
    }
}

/// An iterator over the resources of a [`Registry`]. Returned by [`Registry::iter`].
#[must_use]
pub struct Resources<C>(vec::IntoIter<Arc<Listed<C>>>);

impl<C> Iterator for Resources<C> {
    type Item = Resource<C>;

    fn next(&mut self) -> Option<Resource<C>> {
        self.0.find_map(|listed| Resource::visit(&listed))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.0.len()))
    }
}

impl<C> IntoIterator for &Registry<C> {
    type Item = Resource<C>;
    type IntoIter = Resources<C>;

    fn into_iter(self) -> Resources<C> {
        self.iter()
    }
}

impl<C> fmt::Debug for Resources<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resources").field("left", &self.0.len()).finish()
    }
}
