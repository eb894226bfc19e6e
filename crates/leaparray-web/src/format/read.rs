//! Reading messages.

use std::error::Error;
use std::fmt;
use std::io::{self, BufRead, Read};

use serde::Deserialize;

use super::VERSION;
use super::message::Message;

/// The greatest length of a line, in bytes.
const MAX_LINE: u64 = 64 << 20;

/// Reads the messages of a stream of JSON lines, one after the other. Skips empty lines, and
/// messages of unknown types.
///
/// ```
/// use leaparray_web::format::{ByeReason, Message, Reader};
///
/// let lines = concat!(
///     r#"{"type":"later version"}"#,
///     "\n",
///     r#"{"type":"bye","reason":"closing"}"#,
///     "\n"
/// );
/// let messages: Vec<_> = Reader::new(lines.as_bytes()).collect::<Result<_, _>>()?;
/// let [Message::Bye(bye)] = &messages[..] else { panic!("one message is known") };
/// assert_eq!(bye.reason, ByeReason::Closing);
/// # Ok::<_, leaparray_web::format::ReadError>(())
/// ```
#[derive(Debug)]
pub struct Reader<R> {
    from: R,
    line: String,
    number: u64,
    has_ended: bool,
}

impl<R: BufRead> Reader<R> {
    /// Creates a reader of the lines of `from`, such as the body of a response.
    pub const fn new(from: R) -> Self {
        Self { from, line: String::new(), number: 0, has_ended: false }
    }

    fn read(&mut self) -> Result<Option<Message>, ReadError> {
        loop {
            self.line.clear();
            let line = self.number + 1;
            let length = self.from.by_ref().take(MAX_LINE).read_line(&mut self.line)?;
            if length == 0 {
                return Ok(None);
            }
            if !self.line.ends_with('\n') {
                let is_too_long = length as u64 == MAX_LINE;
                let too_long = ReadError::TooLong { line, max: MAX_LINE };
                return Err(if is_too_long { too_long } else { ReadError::Truncated { line } });
            }
            self.number = line;
            let text = self.line.trim();
            if text.is_empty() {
                continue;
            }
            if let Some(message) = parse(text).map_err(|error| error.in_line(line))? {
                return Ok(Some(message));
            }
        }
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Message, ReadError>;

    /// Returns the next message; `None` at the end of the input. After a line that is not a
    /// message, the next call reads the next line. After any other error, the reader has ended.
    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended {
            return None;
        }
        let result = self.read().transpose();
        self.has_ended = !matches!(result, Some(Ok(_) | Err(ReadError::Malformed { .. })));
        result
    }
}

impl Message {
    /// Reads one message: a JSON object. `None` if its type is not known, as it may be with a later
    /// version of the server.
    ///
    /// # Errors
    ///
    /// Returns [`ReadError::Malformed`] if the text is no message, and [`ReadError::Version`] for a
    /// hello of another version of the format.
    ///
    /// ```
    /// use leaparray::MetricEvent::{Block, Pass};
    /// use leaparray_web::format::{Message, ReadError};
    ///
    /// let second = r#"{"type":"second","t":60,"new":[[7,"GET /orders",null,"in",null]],"gone":[],
    ///     "total":[2,1,0,0,3,1,2,1,5000000,5000000,5000000,5000000,5000000,5000000,5000000],
    ///     "rows":[]}"#;
    /// let Some(Message::Second(second)) = Message::parse(second)? else {
    ///     panic!("its type is known")
    /// };
    /// let counts = &second.total.events;
    /// assert_eq!((second.t, counts[Pass], counts[Block]), (60, 2, 3));
    /// assert_eq!((second.new[0].id, second.new[0].name.as_str()), (7, "GET /orders"));
    ///
    /// let error = Message::parse(r#"{"type":"second","t":"noon"}"#).unwrap_err();
    /// assert!(matches!(error, ReadError::Malformed { .. }));
    /// # Ok::<_, ReadError>(())
    /// ```
    pub fn parse(json: &str) -> Result<Option<Self>, ReadError> {
        parse(json)
    }
}

#[derive(Deserialize)]
struct Kind<'a> {
    #[serde(rename = "type", borrow)]
    kind: std::borrow::Cow<'a, str>,
}

#[derive(Deserialize)]
struct Version {
    version: u32,
}

fn parse(json: &str) -> Result<Option<Message>, ReadError> {
    let malformed = |source| ReadError::Malformed { line: 0, source };
    let Kind { kind } = serde_json::from_str(json).map_err(malformed)?;
    let message = match &*kind {
        "hello" => {
            // Before the rest, which may differ in another version.
            let Version { version } = serde_json::from_str(json).map_err(malformed)?;
            if version != VERSION {
                return Err(ReadError::Version { found: version, known: VERSION });
            }
            serde_json::from_str(json).map(Message::Hello)
        }
        "resources" => serde_json::from_str(json).map(Message::Resources),
        "second" => serde_json::from_str(json).map(Message::Second),
        "detail" => serde_json::from_str(json).map(Message::Detail),
        "fleet" => serde_json::from_str(json).map(Message::Fleet),
        "rules" => serde_json::from_str(json).map(Message::Rules),
        "changes" => serde_json::from_str(json).map(Message::Changes),
        "totals" => serde_json::from_str(json).map(Message::Totals),
        "bye" => serde_json::from_str(json).map(Message::Bye),
        _ => return Ok(None),
    };
    message.map(Some).map_err(malformed)
}

/// Why a message could not be read.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReadError {
    /// The input could not be read.
    Io(io::Error),
    /// The line is not a message.
    #[non_exhaustive]
    Malformed {
        /// The number of the line, from 1; 0 if a single message was read.
        line: u64,
        /// The defect, with the column.
        source: serde_json::Error,
    },
    /// The input ends within a line.
    #[non_exhaustive]
    Truncated {
        /// The number of the line, from 1.
        line: u64,
    },
    /// A line is too long.
    #[non_exhaustive]
    TooLong {
        /// The number of the line, from 1.
        line: u64,
        /// The greatest length of a line in bytes.
        max: u64,
    },
    /// The server speaks another version of the format.
    #[non_exhaustive]
    Version {
        /// The version of the server.
        found: u32,
        /// The version of this reader.
        known: u32,
    },
}

impl ReadError {
    fn in_line(self, line: u64) -> Self {
        match self {
            Self::Malformed { source, .. } => Self::Malformed { line, source },
            error => error,
        }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "the stream could not be read: {error}"),
            Self::Malformed { line: 0, source } => write!(f, "not a message: {source}"),
            Self::Malformed { line, source } => {
                write!(f, "line {line} is not a message: {source}")
            }
            Self::Truncated { line } => write!(f, "the stream ends within line {line}"),
            Self::TooLong { line, max } => write!(f, "line {line} is longer than {max} bytes"),
            Self::Version { found, known } => {
                write!(
                    f,
                    "the server sends version {found} of the format, the reader reads {known}"
                )
            }
        }
    }
}

impl Error for ReadError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            Self::Malformed { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
