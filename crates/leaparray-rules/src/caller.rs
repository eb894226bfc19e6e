//! The keys of a request.

use std::ops::Deref;
use std::sync::Arc;

use leaparray::Resource;

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
    /// [`KeySource::Resource`] and [`KeySource::Context`], which the handle to the resource has.
    fn key(&self, source: &KeySource) -> Option<Self::Key>;

    /// Returns the values from that source if the request has several, such as those of a header
    /// that was sent more than once. It is asked if [`key`](Self::key) returns `None`: several
    /// values are no key.
    ///
    /// A condition of a rule is [`only`](crate::Rule::only) for callers of which any value matches,
    /// and [`except`](crate::Rule::except) those of which all do: a caller that sends further
    /// values evades no rule. By default, there are none.
    fn several(&self, source: &KeySource) -> Vec<Self::Key> {
        let _ = source;
        Vec::new()
    }
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

    fn several(&self, source: &KeySource) -> Vec<A::Key> {
        (**self).several(source)
    }
}

/// The values that a request has from a source of keys.
#[derive(Clone)]
pub(crate) enum KeyValues<K> {
    None,
    /// The name of the resource, or of the context.
    Name(Arc<str>),
    /// The key of the request.
    One(K),
    /// Values for the conditions of rules, but no key.
    Several(Box<[K]>),
}

impl<K> KeyValues<K> {
    /// Returns the values of a request of a resource. `handle` returns the key of a source that
    /// [the handle has](KeySource::is_of_handle).
    #[inline]
    pub(crate) fn of<A: Caller<Key = K> + ?Sized>(
        caller: &A,
        source: &KeySource,
        handle: impl FnOnce(&KeySource) -> Option<Arc<str>>,
    ) -> Self {
        if source.is_of_handle() {
            return handle(source).map_or(Self::None, Self::Name);
        }
        caller.key(source).map_or_else(|| Self::several(caller.several(source)), Self::One)
    }

    fn several(values: Vec<K>) -> Self {
        if values.is_empty() { Self::None } else { Self::Several(values.into()) }
    }

    /// Returns the key of the request.
    #[inline]
    pub(crate) const fn one(&self) -> Option<&K> {
        if let Self::One(key) = self { Some(key) } else { None }
    }

    /// Returns the text by which a rule counts the request, if there is one.
    #[inline]
    pub(crate) fn text(&self) -> Option<&str>
    where
        K: Deref<Target = str>,
    {
        match self {
            Self::Name(name) => Some(name),
            Self::One(key) => Some(key),
            Self::None | Self::Several(_) => None,
        }
    }

    /// Returns the values that a caller has given.
    #[inline]
    pub(crate) const fn given(&self) -> &[K] {
        match self {
            Self::None | Self::Name(_) => &[],
            Self::One(key) => std::slice::from_ref(key),
            Self::Several(keys) => keys,
        }
    }

    /// Returns all values.
    #[inline]
    pub(crate) fn all(&self) -> impl Iterator<Item = &str>
    where
        K: Deref<Target = str>,
    {
        let name = if let Self::Name(name) = self { Some(&**name) } else { None };
        name.into_iter().chain(self.given().iter().map(Deref::deref))
    }
}

/// Returns the key that a handle to a resource has.
pub(crate) fn key_of_handle<C>(resource: &Resource<C>, source: &KeySource) -> Option<Arc<str>> {
    let names = resource.series_key();
    if *source == KeySource::Context { names.context } else { Some(names.name) }
}
