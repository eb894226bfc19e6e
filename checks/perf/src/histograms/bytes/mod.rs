//! Counts the heap bytes of nodes and of the peers' histograms, in the separate program with the
//! counting allocator.

mod node;

use std::mem::ManuallyDrop;

use leaparray::MonotonicClock;
use leaparray_perf_page::{Crowd, Value};

use super::input;
use super::peers::{self, BUCKETS, Peer, SCALES, Visitor};
use crate::bytes::{heap, output_of_program};
use crate::goals::value;
use node::COLUMNS;

/// The response times in each bucket at 2,000 requests per second.
const PER_BUCKET: usize = 1_000;

/// The most bytes of a node at scale 4 after a minute of 2,000 requests per second.
const MOST: usize = 64 * 1_024;
/// The most bytes that a histogram may add to a node that no thread has used.
const MOST_UNUSED: usize = 200;

/// The output of the separate program.
#[derive(Debug, Default)]
pub(super) struct Counted {
    /// The name of each scale, and the bytes of a node in each of the [`COLUMNS`].
    pub(super) nodes: Vec<(String, Vec<usize>)>,
    /// The name of each peer, and its bytes after a minute of 2,000 requests per second on one
    /// thread.
    pub(super) peers: Vec<(String, usize)>,
}

/// Counts the bytes and prints them; `histograms` parses the lines. The global allocator must be
/// `dhat`'s.
pub(crate) fn print() {
    let _profiler = dhat::Profiler::builder().testing().build();
    peers::visit_all(&mut Lines(&MonotonicClock::new()));
    for (scale, name) in SCALES {
        let bytes = node::count(scale).map(|bytes| bytes.to_string());
        println!("node\t{name}\t{}", bytes.join("\t"));
    }
}

struct Lines<'a>(&'a MonotonicClock);

impl Visitor for Lines<'_> {
    fn visit<P: Peer>(&mut self) {
        let rts = input::spread_times(BUCKETS as usize * PER_BUCKET);
        let count = || {
            let before = heap();
            let peer = P::new(self.0);
            peer.fill(&rts);
            // Nothing that belongs to this histogram is used again for the next one.
            let peer = ManuallyDrop::new(peer);
            let _recorder = peer.recorder();
            heap() - before + size_of::<P>()
        };
        // The first one also allocates what the thread takes once for all histograms, and chunks of
        // the slabs.
        count();
        println!("peer\t{}\t{}", P::NAME, count());
    }
}

/// Runs the separate program. Returns no bytes if it fails.
pub(super) fn measure() -> Counted {
    let mut counted = Counted::default();
    for line in output_of_program(&["histograms"]).lines() {
        let mut fields = line.split('\t');
        let (kind, name) = (fields.next(), fields.next().unwrap_or_default().to_owned());
        let bytes: Vec<usize> = fields.map_while(|field| field.parse().ok()).collect();
        match (kind, &bytes[..]) {
            (Some("node"), _) if bytes.len() == COLUMNS.len() => counted.nodes.push((name, bytes)),
            (Some("peer"), &[bytes]) => counted.peers.push((name, bytes)),
            _ => {}
        }
    }
    counted
}

/// Returns the bytes as values, with the goals of nodes.
pub(super) fn values(counted: &Counted) -> Vec<Value> {
    let of_peer = |(name, bytes): &(String, usize)| {
        value(format!("bytes of {name}"), *bytes as f64, "bytes", None)
    };
    let mut values: Vec<_> = counted.peers.iter().map(of_peer).collect();
    let Some((_, plain)) = counted.nodes.first() else { return values };
    for (scale, bytes) in &counted.nodes {
        for ((column, &bytes), &plain) in COLUMNS.iter().zip(bytes).zip(plain) {
            let at_most = match scale.as_str() {
                "no histogram" => None,
                _ if column.is_unused() => Some(plain + MOST_UNUSED),
                "scale 4" if column.per_second == 2_000 => Some(MOST),
                _ => None,
            };
            let case = format!("memory of a node, {scale}, {}", column.name());
            let value = value(case, bytes as f64, "bytes", at_most.map(|it| it as f64));
            values.push(Value { crowd: Crowd { ended: column.ended(), ..Crowd::of(1) }, ..value });
        }
    }
    values
}
