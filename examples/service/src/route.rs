//! The routes of the service.

use std::fmt;
use std::str::FromStr;

/// A route. Its path is the name of its resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Route {
    /// Answers at once.
    Fast,
    /// Answers after a few milliseconds.
    Slow,
    /// Fails every third request.
    Failing,
    /// Answers at once, and refuses requests above the limit.
    Limited,
}

impl Route {
    pub(crate) const COUNT: usize = 4;
    pub(crate) const ALL: [Self; Self::COUNT] =
        [Self::Fast, Self::Slow, Self::Failing, Self::Limited];

    pub(crate) const fn path(self) -> &'static str {
        match self {
            Self::Fast => "/fast",
            Self::Slow => "/slow",
            Self::Failing => "/failing",
            Self::Limited => "/limited",
        }
    }

    pub(crate) fn of_path(path: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|route| route.path() == path)
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.path())
    }
}

impl FromStr for Route {
    type Err = String;

    fn from_str(path: &str) -> Result<Self, String> {
        let paths = || Self::ALL.map(Self::path).join(", ");
        Self::of_path(path).ok_or_else(|| format!("the routes are {}", paths()))
    }
}
