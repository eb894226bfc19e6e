//! The chunks of a body, as a writer.

use std::io::{self, BufWriter, Write};
use std::mem;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::body::Part;

/// The bytes of a chunk; the last one may have less.
const CHUNK: usize = 64 << 10;

/// The bytes that are compressed at once. An exposition is written in pieces of some bytes.
const PIECE: usize = 16 << 10;

/// Sends what is written to a body, in chunks, from a thread for blocking work.
#[derive(Debug)]
pub(super) struct Chunks {
    chunk: Vec<u8>,
    parts: mpsc::Sender<Part>,
    deadline: Instant,
    runtime: Handle,
}

impl Chunks {
    /// Creates a writer to the body with the other end of `parts`, of the present runtime.
    pub(super) fn new(parts: mpsc::Sender<Part>, deadline: Instant) -> Self {
        Self { chunk: Vec::new(), parts, deadline, runtime: Handle::current() }
    }

    /// Sends what `write` writes, and the end.
    ///
    /// # Errors
    ///
    /// Returns its error; also after the deadline, and if the body was dropped.
    pub(super) fn write(
        self,
        gzip: bool,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut chunks = if gzip {
            let mut pieces =
                BufWriter::with_capacity(PIECE, GzEncoder::new(self, Compression::fast()));
            write(&mut pieces)?;
            pieces.into_inner()?.finish()?
        } else {
            let mut chunks = self;
            write(&mut chunks)?;
            chunks
        };
        chunks.send_chunk()?;
        chunks.send(Part::End)
    }

    fn send_chunk(&mut self) -> io::Result<()> {
        let chunk = mem::take(&mut self.chunk);
        if chunk.is_empty() { Ok(()) } else { self.send(Part::Chunk(Bytes::from(chunk))) }
    }

    /// Waits for room.
    fn send(&self, part: Part) -> io::Result<()> {
        let sent = async { timeout_at(self.deadline, self.parts.send(part)).await };
        match self.runtime.block_on(sent) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(io::ErrorKind::BrokenPipe.into()),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

impl Write for Chunks {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.chunk.capacity() == 0 {
            self.chunk.reserve_exact(CHUNK);
        }
        let (fits, _) = bytes.split_at(bytes.len().min(CHUNK - self.chunk.len()));
        self.chunk.extend_from_slice(fits);
        if self.chunk.len() == CHUNK {
            self.send_chunk()?;
        }
        Ok(fits.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
