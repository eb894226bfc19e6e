//! A key of a request to a layer.

use std::fmt::{self, Write as _};
use std::hash::{BuildHasher, RandomState};
use std::ops::Deref;
use std::sync::{Arc, LazyLock};

use arrayvec::ArrayString;
use http::HeaderValue;

use crate::client::Network;

/// A key of a request. A text that needs no allocation for a header, an address, and a key of
/// [`RequestKeys`](crate::RequestKeys). A header of more than 64 bytes is stored as a hash of 128
/// bits, with a random key of the process.
#[derive(Clone)]
pub struct Key(Text);

#[derive(Clone)]
enum Text {
    /// Visible ASCII.
    Header(HeaderValue),
    Short(ArrayString<{ Network::MAX_LEN }>),
    Extension(Arc<str>),
    Other(Box<str>),
}

impl Key {
    /// The longest header that is a key as it is. A client chooses its length, and keys are stored.
    const MAX_LEN: usize = 64;

    pub(crate) fn of_header(value: &HeaderValue) -> Self {
        if value.len() > Self::MAX_LEN {
            return Self::of_long(value.as_bytes());
        }
        if value.to_str().is_ok() {
            return Self(Text::Header(value.clone()));
        }
        // A character for each byte, so that no two values have the same key.
        Self(Text::Other(value.as_bytes().iter().map(|it| char::from(*it)).collect()))
    }

    /// Returns a hash of 128 bits, with a random key of the process, instead of a long value: no
    /// client finds two values with the same one.
    fn of_long(value: &[u8]) -> Self {
        static HASHERS: LazyLock<[RandomState; 2]> =
            LazyLock::new(|| [(); 2].map(|()| RandomState::new()));
        let [a, b] = [0, 1].map(|half: usize| HASHERS[half].hash_one(value));
        let mut text = ArrayString::new();
        let written = write!(text, "hash:{a:016x}{b:016x}");
        debug_assert!(written.is_ok(), "37 characters fit");
        Self(Text::Short(text))
    }

    pub(crate) fn of_extension(key: &Arc<str>) -> Self {
        Self(Text::Extension(Arc::clone(key)))
    }

    pub(crate) fn of_client(network: Network) -> Self {
        let mut text = ArrayString::new();
        let written = write!(text, "{network}");
        debug_assert!(written.is_ok(), "the longest text fits");
        Self(Text::Short(text))
    }
}

impl Deref for Key {
    type Target = str;

    fn deref(&self) -> &str {
        match &self.0 {
            Text::Header(value) => value.to_str().unwrap_or_default().trim(),
            Text::Short(text) => text,
            Text::Extension(text) => text,
            Text::Other(text) => text,
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}
