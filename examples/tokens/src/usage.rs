//! The usage in a stream of server-sent events.

use serde_json::Value;

/// The longest line that is read. A longer one is no event of the model.
const LONGEST: usize = 64 * 1024;

/// Reads a stream of events piece by piece. The model sends an event with a `delta` for each token
/// of the answer, and at last one with the `usage`.
#[derive(Debug, Default)]
pub(crate) struct Scanner {
    line: Vec<u8>,
    /// The tokens of the answer so far.
    pub(crate) deltas: u64,
    /// The tokens of the prompt and the answer, once the model has told them.
    pub(crate) usage: Option<u64>,
}

impl Scanner {
    /// Reads the next piece of the stream, which may begin and end within a line.
    pub(crate) fn read(&mut self, piece: &[u8]) {
        for &byte in piece {
            if byte == b'\n' {
                let line = std::mem::take(&mut self.line);
                self.read_line(&line);
            } else if self.line.len() < LONGEST {
                self.line.push(byte);
            }
        }
    }

    fn read_line(&mut self, line: &[u8]) {
        let Some(data) = line.strip_prefix(b"data:") else { return };
        // The end of the stream is `[DONE]`, which is no object.
        let Ok(event) = serde_json::from_slice::<Value>(data) else { return };
        self.deltas += u64::from(event.get("delta").is_some());
        let usage = event.get("usage").and_then(|usage| usage.get("total_tokens"));
        self.usage = usage.and_then(Value::as_u64).or(self.usage);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_found_wherever_the_stream_is_split() {
        let text = b"data: {\"delta\":\"a\"}\n\n: a comment\n\ndata:{\"delta\":\"b\"}\r\n\r\n\
            data: {\"usage\":{\"total_tokens\":7}}\n\ndata: [DONE]\n\n";
        for length in 1..text.len() {
            let mut scanner = Scanner::default();
            text.chunks(length).for_each(|piece| scanner.read(piece));
            assert_eq!((scanner.deltas, scanner.usage), (2, Some(7)), "{length}");
        }
    }

    #[test]
    fn cut_stream_has_deltas_and_no_usage() {
        let mut scanner = Scanner::default();
        scanner.read(b"data: {\"delta\":\"a\"}\n\ndata: {\"usage\":{\"total_tok");
        assert_eq!((scanner.deltas, scanner.usage), (1, None));
    }
}
