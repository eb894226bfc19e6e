//! Which resources a rule concerns.

use std::fmt;

/// The names of the resources that a rule concerns: one name, or a pattern in which `*` stands for
/// any run of characters.
///
/// A `*` directly after `{` is no wildcard: the template of a route, such as `GET
/// /files/{*path}`, is a name. A pattern that begins with `/` also matches the names that have one
/// word before it: `/api/*` matches `GET /api/orders`.
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
        self.literals().nth(1).is_none()
    }

    /// Returns whether it matches the name of a resource.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        let regex = regex::Regex::new(&self.regex());
        regex.is_ok_and(|regex| names(name).any(|name| regex.is_match(name)))
    }

    /// Returns the texts between the wildcards.
    fn literals(&self) -> impl Iterator<Item = &str> {
        let mut previous = ' ';
        self.0.split(move |it| {
            let is_wildcard = it == '*' && previous != '{';
            previous = it;
            is_wildcard
        })
    }

    /// Returns a regular expression for the whole name.
    pub(crate) fn regex(&self) -> String {
        let literals: Vec<_> = self.literals().map(regex::escape).collect();
        format!("^{}$", literals.join("(?s:.*)"))
    }
}

/// Returns the texts by which a resource is matched: its name, and the path of a name such as `GET
/// /orders`.
pub(crate) fn names(name: &str) -> impl Iterator<Item = &str> {
    let path = name.split_once(' ').map(|(_, path)| path).filter(|it| it.starts_with('/'));
    std::iter::once(name).chain(path)
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
