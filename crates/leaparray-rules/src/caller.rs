//! The keys of a request.

use std::ops::Deref;

use crate::rule::KeySource;

/// The keys of a request, by which the rules with a key count it.
///
/// A `&str` is the key of every such rule, `()` is a request without any key, and with the feature
/// `tower` an [`http::Request`] has the keys of its headers, its client and its extensions. A
/// request without the key of a rule counts with all others that lack it: so a client that leaves
/// the key out gains nothing.
///
/// ```
/// use leaparray_rules::{Caller, KeySource};
///
/// /// A job of a queue.
/// struct Job {
///     tenant: String,
/// }
///
/// impl Caller for Job {
///     type Key = String;
///
///     fn key(&self, source: &KeySource) -> Option<String> {
///         match source {
///             KeySource::Extension(name) if &**name == "tenant" => Some(self.tenant.clone()),
///             _ => None,
///         }
///     }
/// }
/// ```
pub trait Caller {
    /// A key.
    type Key: Deref<Target = str> + Clone;

    /// Returns the key from that source; `None` if the request has none. It is never asked for
    /// [`KeySource::Resource`].
    fn key(&self, source: &KeySource) -> Option<Self::Key>;
}

impl<'a> Caller for &'a str {
    type Key = &'a str;

    fn key(&self, _source: &KeySource) -> Option<&'a str> {
        Some(self)
    }
}

impl Caller for () {
    type Key = &'static str;

    fn key(&self, _source: &KeySource) -> Option<&'static str> {
        None
    }
}

impl<A: Caller + ?Sized> Caller for &A {
    type Key = A::Key;

    fn key(&self, source: &KeySource) -> Option<A::Key> {
        (**self).key(source)
    }
}
