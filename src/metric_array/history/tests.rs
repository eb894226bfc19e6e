use std::cell::Cell;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::*;
use crate::metric::{Counts, MetricEvent};

/// One publication, by random numbers.
type Turn = ([u8; 4], [u8; MetricEvent::COUNT], u64);

/// Two histories with the same publications: one that fills the next bucket in one pass, and one
/// that always goes by the general rules.
struct Twins<'a> {
    config: WindowConfig,
    cells: CellTable,
    history: History,
    general: History,
    has_bins: bool,
    /// The number of publications that were filled in one pass.
    filled_next: &'a Cell<u32>,
}

impl Twins<'_> {
    /// Publishes in both histories, and compares all their words.
    fn publish(&self, sealed: &SealRequest<'_>) {
        let Self { config, cells, history, general, .. } = self;
        let (index, draft) = history.descriptors.take();
        let spare = draft.spare_of(sealed.target).load(Ordering::Relaxed);
        let current = history.descriptor(history.complete_head(cells));
        let is_next = history.fill_next(draft, config, current, sealed, spare).is_some();
        self.filled_next.set(self.filled_next.get() + u32::from(is_next));
        draft.spare_of(sealed.target).store(spare, Ordering::Relaxed);
        history.descriptors.give(index, draft);

        history.publish(config, cells, sealed);
        let (index, draft) = general.descriptors.take();
        let spare = draft.spare_of(sealed.target).load(Ordering::Relaxed);
        general.publish_slowly(config, cells, sealed, (index, draft, spare));
        assert_eq!(words_of(history), words_of(general), "{sealed:?}");
    }

    /// Makes one publication. Returns the number of its bucket.
    fn turn(
        &self,
        newest: u64,
        last: u64,
        &([kind, step, seldom, bits], small, large): &Turn,
    ) -> u64 {
        let samples = self.config.sample_count() as u64;
        let more = u64::from(step);
        let number = match kind % 16 {
            0 => newest,
            1 => newest.saturating_sub(more % (2 * samples)),
            2 => newest + 2 + more % (2 * samples),
            _ => newest + 1,
        }
        .min(last);
        let mut counts = Counts::ZERO;
        for (event, small) in MetricEvent::EVENTS.into_iter().zip(small) {
            let is_seldom = matches!(
                event,
                MetricEvent::Block
                    | MetricEvent::Exception
                    | MetricEvent::ReservedPass
                    | MetricEvent::Cancelled
            );
            // In most buckets, no event that is seldom; in others, one or several.
            if !is_seldom || seldom & 0xC0 == 0 && seldom & 1 << (event as u8 % 6) != 0 {
                counts.events[event as usize] = small.into();
            }
        }
        if bits & 1 != 0 {
            counts.rt_count = 1 + more;
            (counts.min_rt, counts.max_rt) = (more, large >> 40);
        }
        counts.max_concurrency = u64::from(bits >> 4);
        if bits & 0xE == 0 {
            // Some number that has no room in a packed row. Sums reach the ceiling only if it is
            // one of the largest.
            let event = MetricEvent::EVENTS[seldom as usize % MetricEvent::COUNT];
            let bits = if bits & 0xF0 == 0xF0 { 62 } else { 50 };
            counts.events[event as usize] = (large >> 1).clamp(1 << (bits - 1), 1 << bits);
        }
        let source = if self.has_bins && bits & 1 != 0 {
            BinSource::One(usize::from(step))
        } else {
            BinSource::None
        };
        let target = match kind {
            240.. if self.has_bins => Target::Lifetime,
            _ => Target::Bucket { number, is_late: kind % 64 == 1 },
        };
        if let Target::Lifetime = target {
            counts.events = [0; _];
        }
        let gauge = GaugeCounts { entered: more % 3, ended: more % 5 };
        let counts = &SealedCounts::of(number, &counts);
        self.publish(&SealRequest { target, counts, gauge, bins: source, cell: None });
        newest.max(number)
    }
}

/// Returns all words of a history, as text.
fn words_of(history: &History) -> Vec<String> {
    let History { head, slots, rows, bins, descriptors } = history;
    let mut words = vec![format!("{head:?} {slots:?}")];
    for index in 0..rows.made() {
        let row = rows.get(index);
        words.push(format!("{index}: {} {:?}", row.bucket(), row.counts()));
        words.extend(bins.iter().map(|bins| format!("{:#?}", bins.get(index))));
    }
    for index in 0..descriptors.made() {
        let descriptor = descriptors.get(index);
        words.push(format!("{descriptor:#?}"));
        words.push(format!("{index}: {:?}", descriptor.late()));
    }
    // Without the addresses of what is made later.
    let lines = words.iter().flat_map(|words| words.lines()).filter(|line| !line.contains("0x"));
    lines.map(str::to_owned).collect()
}

/// Each bucket is a day long, so that a few turns reach the end of time.
const BUCKET: Duration = Duration::from_secs(24 * 60 * 60);

#[test]
fn next_bucket_is_filled_as_by_the_general_rules() {
    let filled_next = Cell::new(0);
    let turns = prop::collection::vec(any::<Turn>(), 1..48);
    let cases = ProptestConfig::with_cases(256);
    let mut runner = TestRunner::new(ProptestConfig { source_file: Some(file!()), ..cases });
    let last = u64::MAX / u64::try_from(BUCKET.as_nanos()).unwrap();
    let starts = prop_oneof![Just(0), Just(1_000), Just(last - 24)];
    let result = runner.run(&(1_u32..=4, starts, any::<bool>(), turns), |case| {
        let (samples, start, has_bins, turns) = case;
        let config = WindowConfig::new(samples as usize, BUCKET * samples).unwrap();
        let new = || History::new(&config, has_bins);
        let (history, general, cells) = (new(), new(), CellTable::new());
        let filled_next = &filled_next;
        let twins = Twins { config, cells, history, general, has_bins, filled_next };
        turns.iter().fold(start, |newest, turn| twins.turn(newest, last, turn));
        Ok(())
    });
    result.unwrap();
    assert!(filled_next.get() > 1_000, "{} times", filled_next.get());
}
