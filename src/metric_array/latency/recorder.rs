//! The bins that one thread counts in, for one window.

use super::block::{BLOCK_BINS, BinBlock, for_each_bit};
use super::group::VisitGroup;
use crate::collections::{Slab, SlabItem, slab};
use crate::histogram::{HistogramConfig, Layout};
use crate::sync::stall::{self, Point};
use crate::sync::{AtomicU32, AtomicU64, Ordering, RacyOnce, fence, process_static};

process_static! {
    static RECORDERS: [Slab<LatencyRecorder>; HistogramConfig::SCALES] = [
        slab!(), slab!(), slab!(), slab!(), slab!(), slab!(), slab!(), slab!(), slab!(),
    ];
}

/// The counters of the response times that one thread records in one window, by bins.
///
/// A recorder belongs to a [cell](crate::metric_array::cells::thread_cell::ThreadCell), and the
/// rules of its ownership are those of the cell: the cell's owner writes it, and readers validate
/// what they read. It comes from a process-wide slab of its scale when a thread becomes the owner
/// of a cell that has none, and returns there when the cell is retired, or when the window is
/// dropped.
///
/// # Orderings
///
/// - A response time is recorded in this order: the extremes, the bin (Release), the sum (Release).
///   A reader reads in the opposite order. So a response time that is in the sum is in its bin, and
///   the extremes include all that are in bins.
/// - A release fence precedes the stores of another bucket, and of another window. It pairs with
///   the acquire fence of a reader: a reader that sees one of these stores sees that the history's
///   head has moved on.
/// - A block is made with release and found with acquire, so a reader finds its counters zeroed.
//
// 128 bytes, as a cell: the owner of a neighbour writes `touched`.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct LatencyRecorder {
    layout: Layout,
    blocks: Box<[RacyOnce<BinBlock>]>,
    /// The blocks that were counted in since the cell was bound. A bit stands for 2^`shift` blocks.
    touched: AtomicU64,
    shift: u32,
    /// The recorder's index in the slab.
    index: u32,
    /// The index of the next free recorder, plus 1, or 0 for none, while this recorder is free.
    next: AtomicU32,
}

impl SlabItem for LatencyRecorder {
    const FIRST_CHUNK: u32 = if cfg!(loom) { 1 } else { 4 };

    fn index(&self) -> u32 {
        self.index
    }

    fn link(&self) -> &AtomicU32 {
        &self.next
    }
}

/// A bin of the calling thread, in which it can count; or none, for a window without a histogram.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bin(Option<(&'static BinBlock, usize)>);

impl Bin {
    pub(crate) const NONE: Self = Self(None);

    /// Counts one response time.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "part of every record of a response time")]
    pub(crate) fn count(self) {
        if let Self(Some((block, bin))) = self {
            stall::at(Point::BinFound);
            block.count(bin);
            stall::at(Point::BinCounted);
        }
    }
}

impl LatencyRecorder {
    fn new(index: u32, config: HistogramConfig) -> Self {
        let layout = config.layout();
        let blocks = layout.positions().div_ceil(BLOCK_BINS);
        Self {
            layout,
            blocks: (0..blocks).map(|_| RacyOnce::new()).collect(),
            touched: AtomicU64::new(0),
            shift: blocks.div_ceil(u64::BITS as usize).next_power_of_two().ilog2(),
            index,
            next: AtomicU32::new(0),
        }
    }

    /// Takes a recorder with empty bins; `None` if the slab is full.
    pub(crate) fn take(config: HistogramConfig) -> Option<&'static Self> {
        let recorder = slab_of(config).take(|index| Self::new(index, config))?;
        // Release: pairs with the acquire fence of a reader of the recorder's last window.
        fence(Ordering::Release);
        recorder.blocks.iter().filter_map(RacyOnce::get).for_each(BinBlock::reset);
        recorder.touched.store(0, Ordering::Relaxed);
        Some(recorder)
    }

    /// Returns the recorder with that index.
    pub(crate) fn get(config: HistogramConfig, index: u32) -> Option<&'static Self> {
        slab_of(config).get(index)
    }

    /// Gives back a recorder that no thread may write any longer.
    pub(crate) fn give(&self, config: HistogramConfig) {
        slab_of(config).give(self);
    }

    pub(crate) const fn index(&self) -> u32 {
        self.index
    }

    /// Returns the bytes of this recorder and of its blocks.
    fn bytes(&self) -> usize {
        let blocks = self.blocks.iter().filter(|block| block.get().is_some()).count();
        size_of::<Self>() + size_of_val(&*self.blocks) + blocks * size_of::<BinBlock>()
    }

    /// Returns the bin of a response time, if it was counted in since the cell was bound.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "part of every record of a response time")]
    pub(crate) fn bin(&'static self, nanos: u64) -> Option<Bin> {
        let position = self.layout.position_of_short(nanos)?;
        let block = self.blocks.get(position / BLOCK_BINS)?.get()?;
        let bin = position % BLOCK_BINS;
        block.is_touched(bin).then_some(Bin(Some((block, bin))))
    }

    /// Returns the bin of a response time, as a bin that is counted in now. Makes its block, if
    /// that has not been made yet.
    pub(crate) fn touched_bin(&'static self, nanos: u64) -> Bin {
        let position = self.layout.position(nanos);
        let index = position / BLOCK_BINS;
        let block = &self.blocks[index];
        let block = block.get().unwrap_or_else(|| block.get_or_init(BinBlock::new));
        let bin = position % BLOCK_BINS;
        block.touch(bin);
        let touched = self.touched.load(Ordering::Relaxed);
        // Relaxed: the sum of the response times is released after this.
        self.touched.store(touched | 1 << (index >> self.shift), Ordering::Relaxed);
        Bin(Some((block, bin)))
    }

    /// Begins to count another bucket, as the owner. The caller has a release fence before this.
    pub(crate) fn begin_bucket(&self) {
        self.for_each_touched_block(|_, block| block.begin_bucket());
        self.touched.store(0, Ordering::Relaxed);
    }

    /// Visits the groups that were counted in since the cell was bound, with the counts since then,
    /// in ascending order.
    #[inline]
    pub(crate) fn for_each_bucket_group(&self, mut visit: impl VisitGroup) {
        self.for_each_touched_block(|index, block| block.for_each_bucket_group(index, &mut visit));
    }

    /// Visits the groups of all blocks, with the counts since the cell was claimed, in ascending
    /// order.
    pub(crate) fn for_each_lifetime_group(&self, mut visit: impl VisitGroup) {
        for (index, block) in self.blocks.iter().enumerate() {
            if let Some(block) = block.get() {
                block.for_each_lifetime_group(index, &mut visit);
            }
        }
    }

    /// The number of stages of [`load_ahead`](Self::load_ahead).
    pub(crate) const STAGES: usize = 3;

    /// Loads a word of each line that a read of the bucket loads in a stage: of this recorder, of
    /// its blocks, and of their counts. See
    /// [`MetricArray::load_ahead`](crate::metric_array::MetricArray::load_ahead).
    pub(crate) fn load_ahead(&self, stage: usize) -> u64 {
        let mut loaded = self.touched.load(Ordering::Relaxed);
        match stage {
            0 => {}
            1 => self.for_each_touched_block(|_, block| loaded ^= block.touched()),
            _ => self.for_each_touched_block(|_, block| loaded ^= block.load_ahead()),
        }
        loaded
    }

    /// Visits the blocks that may have been counted in since the cell was bound, with their
    /// indices.
    #[inline]
    fn for_each_touched_block(&self, mut visit: impl FnMut(usize, &BinBlock)) {
        for_each_bit(self.touched.load(Ordering::Relaxed), |bit| {
            for index in bit << self.shift..(bit + 1) << self.shift {
                if let Some(block) = self.blocks.get(index).and_then(RacyOnce::get) {
                    visit(index, block);
                }
            }
        });
    }
}

/// The numbers of recorders that belong to a cell and of free recorders, and the bytes of all
/// recorders.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RecorderMemory {
    pub(crate) in_use: usize,
    pub(crate) free: usize,
    pub(crate) bytes: usize,
}

impl RecorderMemory {
    pub(crate) fn current() -> Self {
        RECORDERS.iter().fold(Self::default(), |memory, slab| {
            let usage = slab.usage();
            Self {
                in_use: memory.in_use + usage.in_use,
                free: memory.free + usage.free,
                bytes: memory.bytes + slab.allocated().map(LatencyRecorder::bytes).sum::<usize>(),
            }
        })
    }
}

/// Returns the slab of the recorders of a scale.
fn slab_of(config: HistogramConfig) -> &'static Slab<LatencyRecorder> {
    &RECORDERS[config.scale() as usize]
}
