//! Which resources a rule concerns.

use std::borrow::Cow;
use std::fmt;

/// The names of the resources that a rule concerns: one name, or a pattern in which `*` stands for
/// any run of characters.
///
/// A `*` directly after `{` is no wildcard: the template of a route, such as `GET /files/{*path}`,
/// is a name. A pattern that begins with `/` also matches the names that have one word before it:
/// `/api/*` matches `GET /api/orders`. A pattern that matches the `GET` of a path also matches its
/// `HEAD`, since a router answers both by one handler.
///
/// ```
/// use leaparray_rules::Pattern;
///
/// let api = Pattern::new("/api/*");
/// assert!(api.matches("POST /api/orders") && api.matches("/api/") && !api.matches("GET /x/api/"));
/// let files = Pattern::new("GET /files/{*path}");
/// assert!(files.is_name() && files.matches("GET /files/{*path}"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(Box<str>);

impl Pattern {
    /// Creates a pattern. Each text is one.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether it is one name, without a wildcard.
    #[must_use]
    pub fn is_name(&self) -> bool {
        self.texts().nth(1).is_none()
    }

    /// Returns whether it matches the name of a resource.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        let literals = self.literals();
        names(name).any(|name| literals.match_whole(&name))
    }

    /// Returns the texts between the wildcards.
    fn texts(&self) -> impl Iterator<Item = &str> {
        let mut previous = ' ';
        self.0.split(move |it| {
            let is_wildcard = it == '*' && previous != '{';
            previous = it;
            is_wildcard
        })
    }

    /// Returns the texts between the wildcards.
    pub(crate) fn literals(&self) -> Literals {
        let mut texts = self.texts();
        let first = texts.next().unwrap_or_default().into();
        Literals { first, others: texts.map(Box::from).collect() }
    }
}

/// The texts of a pattern, between which there is a wildcard.
#[derive(Debug)]
pub(crate) struct Literals {
    pub(crate) first: Box<str>,
    pub(crate) others: Box<[Box<str>]>,
}

impl Literals {
    fn match_whole(&self, name: &str) -> bool {
        name.strip_prefix(&*self.first).is_some_and(|rest| match_rest(&self.others, rest))
    }
}

/// Returns whether the texts after the first wildcard match the rest of a name: each text where it
/// is found first, and the last one at the end.
pub(crate) fn match_rest(others: &[Box<str>], mut rest: &str) -> bool {
    let Some((last, between)) = others.split_last() else { return rest.is_empty() };
    for text in between {
        let Some(at) = rest.find(&**text) else { return false };
        rest = &rest[at + text.len()..];
    }
    rest.ends_with(&**last)
}

/// Returns the texts by which a resource is matched: its name; the path of a name such as `GET
/// /orders`; and for a `HEAD`, which the handler of a `GET` answers, the name of the `GET`.
pub(crate) fn names(name: &str) -> impl Iterator<Item = Cow<'_, str>> {
    let path = name.split_once(' ').map(|(_, path)| path).filter(|it| it.starts_with('/'));
    let get = name.strip_prefix("HEAD /").map(|path| Cow::Owned(format!("GET /{path}")));
    [name].into_iter().chain(path).map(Cow::Borrowed).chain(get)
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
