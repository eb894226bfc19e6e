//! The token of a page.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use subtle::ConstantTimeEq;

/// A secret text, which a reader of a page presents: see [`Access::token`](crate::Access::token).
///
/// Its `Debug` output does not contain the text.
///
/// ```
/// use leaparray_web::Token;
///
/// let token = Token::random();
/// assert_eq!(token.as_str().len(), 22);
/// let url = token.url("http://127.0.0.1:3000/leaparray");
/// assert_eq!(url, format!("http://127.0.0.1:3000/leaparray#token={}", token.as_str()));
/// ```
#[derive(Clone)]
pub struct Token(Arc<str>);

/// Why a text is no [`Token`]. The text is not a part of the error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenError {
    /// The text has fewer than [`Token::MIN_LENGTH`] or more than [`Token::MAX_LENGTH`] bytes.
    Length {
        /// The number of bytes.
        length: usize,
    },
    /// The text has a character that is neither an ASCII letter nor a digit, and none of `-._~`.
    Character {
        /// The offset of the first such character, in bytes.
        offset: usize,
    },
}

impl Token {
    /// The smallest length of a token, in bytes.
    pub const MIN_LENGTH: usize = 16;

    /// The largest length of a token, in bytes.
    pub const MAX_LENGTH: usize = 256;

    /// Creates a token of 128 random bits of the operating system, as a text of 22 characters. It
    /// is another one after each start of the service.
    ///
    /// # Panics
    ///
    /// Panics if the operating system has no source of random bits.
    #[must_use]
    pub fn random() -> Self {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).expect("the operating system has a source of random bits");
        Self(URL_SAFE_NO_PAD.encode(bytes).into())
    }

    /// Creates a token of a text that is chosen elsewhere, such as a secret of the deployment. It
    /// stays valid when the service starts again, and several processes can share it. Anyone who
    /// guesses the text reads the page, so it should be random.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is shorter than [`MIN_LENGTH`](Self::MIN_LENGTH) or longer than
    /// [`MAX_LENGTH`](Self::MAX_LENGTH), or if it has a character other than ASCII letters, digits
    /// and `-._~`. These need no escape in an address or a header.
    ///
    /// ```
    /// use leaparray_web::{Token, TokenError};
    ///
    /// assert!(Token::new("mDFlqXW4oD3p9wIvmm3k").is_ok());
    /// assert_eq!(Token::new("secret").unwrap_err(), TokenError::Length { length: 6 });
    /// let error = Token::new("mDFlqXW4 oD3p9wIvmm3k").unwrap_err();
    /// assert_eq!(error, TokenError::Character { offset: 8 });
    /// ```
    pub fn new(text: impl AsRef<str>) -> Result<Self, TokenError> {
        let text = text.as_ref();
        let length = text.len();
        if !(Self::MIN_LENGTH..=Self::MAX_LENGTH).contains(&length) {
            return Err(TokenError::Length { length });
        }
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        match text.bytes().position(|byte| !is_allowed(byte)) {
            Some(offset) => Err(TokenError::Character { offset }),
            None => Ok(Self(text.into())),
        }
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the address that opens the page at the address `page` in a browser: the token stands
    /// behind `#`, a part that browsers send to no server.
    #[must_use]
    pub fn url(&self, page: impl fmt::Display) -> String {
        format!("{page}#token={}", self.0)
    }

    /// Returns whether a client has presented the text of this token. The time depends on the
    /// lengths only.
    pub(crate) fn matches(&self, presented: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(presented).into()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { length } => write!(
                f,
                "a token has {} to {} bytes, and this text has {length}",
                Token::MIN_LENGTH,
                Token::MAX_LENGTH,
            ),
            Self::Character { offset } => write!(
                f,
                "a token has ASCII letters, digits and `-._~` only, \
                 and this text has another character at offset {offset}",
            ),
        }
    }
}

impl Error for TokenError {}
