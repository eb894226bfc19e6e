//! A message, serialized once for both encodings.

use std::fmt::Write as _;
use std::ops::Range;

use bytes::Bytes;
use serde::Serialize;

/// How a viewer receives the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// Server-sent events.
    Events,
    /// JSON lines.
    Lines,
}

/// A serialized message: a server-sent event, of which a part is the JSON line.
///
/// ```text
/// id: 9f3c.1764039999\ndata: {"type":"second",…}\n\n
///                            └───── the line ────┘
/// ```
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    event: Bytes,
    line: Range<usize>,
}

#[cfg(test)]
thread_local! {
    /// The number of messages that this thread has serialized.
    pub(super) static SERIALIZED: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

impl Encoding {
    /// Returns bytes that readers ignore.
    pub(crate) const fn keep_alive(self) -> Bytes {
        Bytes::from_static(match self {
            Self::Events => b":\n\n",
            Self::Lines => b"\n",
        })
    }
}

impl Frame {
    /// Serializes a message. `id` is the id of the event. `capacity` is about the number of bytes.
    pub(crate) fn new(id: Option<&str>, message: &impl Serialize, capacity: usize) -> Self {
        #[cfg(test)]
        SERIALIZED.set(SERIALIZED.get() + 1);
        let mut head = String::with_capacity(capacity);
        if let Some(id) = id {
            let _ = writeln!(head, "id: {id}");
        }
        head.push_str("data: ");
        let start = head.len();
        let mut event = head.into_bytes();
        // A line break within a string is escaped, so the object is one line.
        serde_json::to_writer(&mut event, message).expect("names and numbers can be serialized");
        event.extend_from_slice(b"\n\n");
        let line = start..event.len() - 1;
        Self { event: event.into(), line }
    }

    /// Returns the message in an encoding, without a copy.
    pub(crate) fn encoded(&self, encoding: Encoding) -> Bytes {
        match encoding {
            Encoding::Events => self.event.clone(),
            Encoding::Lines => self.event.slice(self.line.clone()),
        }
    }

    /// Returns the number of bytes.
    pub(crate) const fn len(&self) -> usize {
        self.event.len()
    }
}
