//! Bounds of the streams and messages of clients.

/// Bounds of the streams and messages of clients, and so of the memory that they take.
///
/// The requests of RLS on one connection take at most `max_streams` × `max_request` bytes before
/// they are decoded: 64 MiB by default. A decoded request takes a multiple of its bytes until it is
/// decided: an empty descriptor has 2 bytes in a message. A client with more requests at a time
/// waits, or connects once more, as Envoy does. The reports of RLQS take at most `max_report` bytes
/// for each open stream of [all connections](crate::quota::QuotaConfig::with_max_streams).
///
/// ```
/// use leaparray_envoy::server::Bounds;
///
/// let bounds = Bounds::default();
/// assert_eq!(bounds.max_streams, 1_024);
/// assert_eq!((bounds.max_request, bounds.max_report), (65_536, 262_144));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bounds {
    /// The most streams of a connection that are open at once: each request of RLS is one, and each
    /// client of RLQS. 1,024 by default.
    pub max_streams: u32,
    /// The longest request of RLS, over gRPC and HTTP, in bytes: 64 KiB by default. One of Envoy
    /// has some hundred bytes. A longer one is refused with `OUT_OF_RANGE`, or the status 413. Also
    /// the longest request of health and reflection.
    pub max_request: usize,
    /// The longest report of RLQS, in bytes: 256 KiB by default, which are some thousand buckets. A
    /// longer one ends its stream with `OUT_OF_RANGE`.
    pub max_report: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { max_streams: 1 << 10, max_request: 64 << 10, max_report: 256 << 10 }
    }
}
