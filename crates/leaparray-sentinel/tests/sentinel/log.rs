//! The metric log, read by its index as Sentinel's tools do.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use leaparray::metric::MetricLine;
use leaparray::{ManualClock, Registry, RegistryConfig, Timestamp};
use leaparray_sentinel::MetricLog;

/// A reader that finds lines by the index.
struct Searcher<'a> {
    folder: &'a Path,
    base: &'a str,
}

impl Searcher<'_> {
    /// Returns the files in the order in which they are read: by the day, then by the length of the
    /// name, then by the name.
    fn files(&self) -> Vec<PathBuf> {
        let names = fs::read_dir(self.folder).unwrap();
        let names = names.map(|it| it.unwrap().file_name().into_string().unwrap());
        let is_file = |it: &String| it.starts_with(self.base) && !it.contains(".idx");
        let mut names: Vec<_> = names.filter(is_file).collect();
        names.sort_by_key(|it| (it.split('.').nth(2).unwrap().to_owned(), it.len(), it.clone()));
        names.iter().map(|it| self.folder.join(it)).collect()
    }

    /// Returns the position of the first line whose second is not before `second`.
    fn offset(file: &Path, second: u64) -> Option<usize> {
        let index = fs::read(format!("{}.idx", file.display())).ok()?;
        let number = |it: &[u8]| u64::from_be_bytes(it.try_into().unwrap());
        let mut entries = index.chunks_exact(16).map(|it| (number(&it[..8]), number(&it[8..])));
        let found = entries.find(|it| it.0 >= second)?;
        Some(found.1.try_into().unwrap())
    }

    /// Returns the lines between two times, of one resource if it has a name.
    fn find(&self, begin: u64, end: u64, identity: Option<&str>) -> Vec<MetricLine> {
        let mut found = Vec::new();
        let mut files = self.files().into_iter();
        let first = files.find_map(|it| Some((Self::offset(&it, begin / 1_000)?, it)));
        let Some((offset, first)) = first else { return found };
        for (offset, file) in std::iter::once((offset, first)).chain(files.map(|it| (0, it))) {
            let text = fs::read_to_string(file).unwrap();
            for line in text[offset..].lines() {
                let line: MetricLine = line.parse().expect(line);
                let second = line.metrics().second.as_secs();
                assert!(second >= begin / 1_000, "a wrong index");
                if second > end / 1_000 {
                    return found;
                }
                if identity.is_none_or(|it| it == line.resource()) {
                    found.push(line);
                }
            }
        }
        found
    }
}

/// 2026-11-28 23:59:00.
const START: u64 = 1_795_910_340;

fn registry() -> Arc<Registry<ManualClock>> {
    let clock = ManualClock::new(Timestamp::from_secs(START));
    Arc::new(Registry::with_clock(RegistryConfig::default(), clock))
}

#[test]
fn each_second_is_found_by_the_index() {
    let (folder, registry) = (tempfile::tempdir().unwrap(), registry());
    let path = folder.path();
    let log = MetricLog::new(Arc::clone(&registry), path, "shop.orders");
    let mut log = log.max_file_size(3_000).max_files(100).open().unwrap();
    let resources = ["a|b", "pay"].map(|it| registry.resource(it).unwrap());
    let mut expected = Vec::new();
    for second in 0..120 {
        // Some seconds are idle.
        if second % 7 != 3 {
            for (resource, name) in resources.iter().zip(["a_b", "pay"]) {
                (0..=second % 5).for_each(|_| resource.block());
                expected.push((START + second, name.to_owned(), second % 5 + 1));
            }
        }
        registry.clock().advance(Duration::from_secs(1));
        // Some writes are late.
        if second % 5 != 1 {
            log.write().unwrap();
        }
    }
    registry.clock().advance(Duration::from_secs(1));
    log.write().unwrap();
    assert_eq!(log.missed(), 0);

    let searcher = Searcher { folder: path, base: "shop-orders-metrics.log" };
    let files = searcher.files();
    let names = files.iter().map(|it| it.file_name().unwrap().to_str().unwrap());
    let names: Vec<_> = names.collect();
    assert_eq!(
        names[..2],
        ["shop-orders-metrics.log.2026-11-28", "shop-orders-metrics.log.2026-11-28.1"]
    );
    assert!(names.contains(&"shop-orders-metrics.log.2026-11-29"), "{names:?}");
    let sizes = files.iter().map(|it| fs::metadata(it).unwrap().len());
    assert!(sizes.max().unwrap() < 3_300);
    let find = |begin: u64, end: u64| {
        let of = |it: &MetricLine| {
            let metrics = it.metrics();
            let blocks = metrics.counts[leaparray::MetricEvent::Block];
            (metrics.second.as_secs(), it.resource().to_owned(), blocks)
        };
        let all = searcher.find(begin * 1_000, end * 1_000, None);
        let is_resource = |it: &&MetricLine| !it.resource().starts_with("__");
        all.iter().filter(is_resource).map(of).collect::<Vec<_>>()
    };
    for begin in START - 3..START + 123 {
        for end in [begin, begin + 6, START + 1_000] {
            let of_span = |it: &&(u64, String, u64)| (begin..=end).contains(&it.0);
            let of_span: Vec<_> = expected.iter().filter(of_span).cloned().collect();
            assert_eq!(find(begin, end), of_span, "{begin}..={end}");
        }
    }
    let of_one = searcher.find(0, u64::MAX, Some("pay"));
    assert_eq!(of_one.len(), expected.len() / 2);
}

#[test]
fn oldest_files_are_removed_with_their_indices() {
    let (folder, registry) = (tempfile::tempdir().unwrap(), registry());
    let path = folder.path();
    let other = path.join("orders-metrics.log.pid7.2026-11-28");
    fs::write(&other, "").unwrap();
    let log =
        || MetricLog::new(Arc::clone(&registry), path, "orders").max_files(3).max_file_size(1);
    let mut writer = log().open().unwrap();
    let resource = registry.resource("pay").unwrap();
    let second = |writer: &mut leaparray_sentinel::MetricLogWriter<_>| {
        resource.block();
        registry.clock().advance(Duration::from_millis(1_500));
        assert_eq!(writer.write().unwrap(), 2);
        let names = fs::read_dir(path).unwrap();
        names.map(|it| it.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>()
    };
    for _ in 0..12 {
        let names = second(&mut writer);
        assert!(names.len() <= 2 * 3 + 1, "{names:?}");
    }
    // A restart continues the numbers.
    let mut names = second(&mut log().open().unwrap());
    names.sort();
    let of = |it: &str| format!("orders-metrics.log.2026-11-28.{it}");
    let expected = ["10", "10.idx", "11", "11.idx", "12", "12.idx"].map(of);
    assert_eq!(names[..6], expected);
    assert!(other.exists());
}

#[test]
fn write_that_fails_begins_a_new_file_later() {
    let (folder, registry) = (tempfile::tempdir().unwrap(), registry());
    let path = folder.path().join("logs");
    let mut log = MetricLog::new(Arc::clone(&registry), &path, "orders").open().unwrap();
    let resource = registry.resource("pay").unwrap();
    fs::remove_dir(&path).unwrap();
    resource.block();
    registry.clock().advance(Duration::from_millis(1_500));
    log.write().unwrap_err();
    fs::create_dir(&path).unwrap();
    resource.block();
    registry.clock().advance(Duration::from_millis(1_500));
    assert_eq!(log.write().unwrap(), 2);
}

/// An index that is a full device stands for a full disk.
#[cfg(target_os = "linux")]
#[test]
fn write_that_fails_leaves_the_older_files() {
    let (folder, registry) = (tempfile::tempdir().unwrap(), registry());
    let path = folder.path();
    let older = path.join("orders-metrics.log.2026-11-27");
    fs::write(&older, "").unwrap();
    let day = path.join("orders-metrics.log.2026-11-28");
    let full = |number: &str| {
        let index = format!("{}{number}.idx", day.display());
        let _ = std::os::unix::fs::symlink("/dev/full", index);
    };
    let log = MetricLog::new(Arc::clone(&registry), path, "orders").max_files(2);
    let mut log = log.open().unwrap();
    let resource = registry.resource("pay").unwrap();
    let mut second = || {
        resource.block();
        registry.clock().advance(Duration::from_millis(1_500));
        log.write()
    };
    for _ in 0..5 {
        ["", ".1", ".2", ".3", ".4"].into_iter().for_each(full);
        second().unwrap_err();
        assert!(older.exists());
    }
    for number in ["", ".1", ".2", ".3", ".4"] {
        let _ = fs::remove_file(format!("{}{number}.idx", day.display()));
    }
    assert_eq!(second().unwrap(), 2);
    let names = fs::read_dir(path).unwrap();
    let mut names: Vec<_> =
        names.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    let of = |end: &str| format!("orders-metrics.log.2026-11-{end}");
    assert_eq!(names, ["27", "28", "28.idx"].map(of));
}

#[test]
fn thread_writes_a_last_time_at_its_end() {
    let (folder, registry) = (tempfile::tempdir().unwrap(), registry());
    let log = MetricLog::new(Arc::clone(&registry), folder.path(), "orders");
    let log = log.with_process_id().start().unwrap();
    registry.resource("pay").unwrap().block();
    registry.clock().advance(Duration::from_millis(1_500));
    let state = log.close();
    assert_eq!((state.lines, state.failures, state.error), (2, 0, None));
    let name = format!("orders-metrics.log.pid{}.2026-11-28", std::process::id());
    assert!(folder.path().join(name).exists());
}
