//! Lines of Sentinel's metric log: they have Sentinel's format, and each line reads back as itself.

use std::time::Duration;

use leaparray::MetricEvent::{Block, Cancelled, Exception, Pass, ReservedPass, Rt, Success};
use leaparray::metric::{MetricLine, MetricLineError, SecondMetrics};
use leaparray::{EventCounts, LatencyHistogram, MetricEvent, Timestamp};
use proptest::prelude::*;

const COUNTS: &str = "0 to 9223372036854775807";

fn fat(line: &str) -> Result<MetricLine, MetricLineError> {
    line.parse()
}

fn with(change: impl FnOnce(&mut SecondMetrics)) -> SecondMetrics {
    let mut metrics = SecondMetrics::new(Timestamp::from_secs(1_564_382_218));
    change(&mut metrics);
    metrics
}

fn set_mean(of: &mut SecondMetrics, mean: Option<Duration>) {
    of.counts[Rt] = mean.is_some().into();
    of.counts.set_rt_sum(mean.unwrap_or_default());
}

/// Metrics with a different value in each field of a line, so that swapped fields are noticed.
fn each_another() -> SecondMetrics {
    with(|of| {
        let counts = [(Pass, 14), (Block, 9), (Success, 3), (Exception, 5), (ReservedPass, 6)];
        of.counts = EventCounts::from(counts);
        of.counts[Rt] = 8;
        of.counts.set_rt_sum(Duration::from_millis(8 * 25));
        of.concurrency = 2;
    })
}

#[test]
fn line_leaves_out_the_histogram() {
    let metrics = with(|of| of.histogram = Some(LatencyHistogram::default()));
    assert_eq!(MetricLine::new("/foo/*", 1, &metrics).metrics(), &with(|_| {}));
}

#[test]
fn every_field_has_its_place_in_both_forms() {
    let line = MetricLine::new("/foo/*", 1, &each_another());
    let (fat, thin) = (
        "1564382218000|2019-07-29 06:36:58|/foo/*|14|9|8|5|25|6|2|1",
        "1564382218000|/foo/*|14|9|8|5|25|6|2|1",
    );
    assert_eq!(line.to_string(), fat);
    assert_eq!(line.thin().to_string(), thin);
    for read in [fat.parse(), MetricLine::from_thin(thin)].map(Result::unwrap) {
        assert_eq!((read.resource(), read.classification()), ("/foo/*", 1));
        assert_eq!((read.completed(), read.metrics()), (8, &each_another()));
    }
}

/// Sentinel's `success` counts every completed request, and its `rt` is their mean. The first line
/// was captured from Sentinel for Java, 1.8.9.
#[test]
fn completed_requests_are_counted_as_by_sentinel() {
    // The mean is the sum of the response times divided by the completed requests.
    for (thin, success, exception, rt_sum) in [
        ("1795760020000|GET /orders|20|85|20|2|5|0|0|0", 18, 2, 100),
        ("1795760020000|GET /orders|12|3|4|2|295|0|0|0", 2, 2, 1_180),
        ("1795760020000|GET /orders|5|0|5|5|7|0|0|0", 0, 5, 35),
    ] {
        let line = MetricLine::from_thin(thin).unwrap();
        let (metrics, rt_sum) = (line.metrics(), Duration::from_millis(rt_sum));
        let counts = &metrics.counts;
        let completed = success + exception;
        let ends = [Success, Exception, Cancelled].map(|end| counts[end]);
        assert_eq!(ends, [success, exception, 0]);
        assert_eq!((line.completed(), counts[Rt]), (completed, completed));
        assert_eq!(counts.rt_sum(), rt_sum);
        assert_eq!(line.thin().to_string(), thin);

        let mut recorded = SecondMetrics::new(metrics.second);
        let ends = [(Success, success), (Exception, exception), (Rt, completed)];
        recorded.counts = EventCounts::from(ends);
        recorded.counts.set_rt_sum(rt_sum);
        (recorded.counts[Pass], recorded.counts[Block]) = (counts[Pass], counts[Block]);
        assert_eq!(MetricLine::new("GET /orders", 0, &recorded).thin().to_string(), thin);
    }
}

#[test]
fn cancelled_request_is_a_completed_one() {
    let metrics = with(|of| {
        let counts = [(Pass, 9), (Success, 4), (Exception, 2), (Cancelled, 3), (Rt, 6)];
        of.counts = EventCounts::from(counts);
        of.counts.set_rt_sum(Duration::from_millis(6 * 5));
    });
    let line = MetricLine::new("a", 0, &metrics);
    assert_eq!(line.thin().to_string(), "1564382218000|a|9|0|9|2|5|0|0|0");
    let read = &line.metrics().counts;
    assert_eq!([Success, Exception, Cancelled, Rt].map(|event| read[event]), [7, 2, 0, 9]);
    assert_eq!(read.rt_sum(), Duration::from_millis(9 * 5));
}

/// Sentinel counts an exception when it is traced, before the request completes.
#[test]
fn line_can_have_more_exceptions_than_completed_requests() {
    let thin = "1564382218000|a|3|0|1|3|5|0|0|0";
    let line = MetricLine::from_thin(thin).unwrap();
    let counts = &line.metrics().counts;
    assert_eq!((line.completed(), counts[Success], counts[Exception]), (1, 0, 3));
    assert_eq!(counts.rt_sum(), Duration::from_millis(5));
    assert_eq!(line.thin().to_string(), thin);
}

/// The numbers of a thin line would otherwise be taken for those of the fields after them.
#[test]
fn thin_line_is_no_fat_one() {
    let thin = "1795760020000|GET /orders|20|85|20|2|5|0|0|0";
    let error = thin.parse::<MetricLine>().unwrap_err();
    assert_eq!(error, MetricLineError::NoDate { text: "GET /orders".to_owned() });
    let text = "the date is \"GET /orders\"; expected a date such as 2019-07-29 06:36:58";
    assert_eq!(error.to_string(), text);
    for date in ["2019-07-29", "2019-07-29T06:36:58", "2019-07-29 06:36:5x", "119-07-29 06:36:58"] {
        let line = format!("1|{date}|a|0|0|0|0|0|0|0|0");
        assert!(line.parse::<MetricLine>().is_err(), "{date}");
    }
}

/// The first line has the date that Sentinel writes in a time zone eight hours ahead of UTC.
#[test]
fn date_is_ignored_when_read_and_written_in_utc() {
    let local = "1564382218000|2019-07-29 14:36:58|/foo/*|4|9|3|0|25|0|2|1";
    let utc = "1564382218000|2019-07-29 06:36:58|/foo/*|4|9|3|0|25|0|2|1";
    assert_eq!(fat(local), fat(utc));
    assert_eq!(fat(&local.replace("2019-07-29 14:36:58", "")), fat(utc));
    assert_eq!(fat(local).unwrap().to_string(), utc);
}

#[test]
fn dates_are_those_of_the_calendar() {
    for (millis, date) in [
        (0, "1970-01-01 00:00:00"),
        (951_868_799_999, "2000-02-29 23:59:59"),
        (1_709_210_096_000, "2024-02-29 12:34:56"),
        (4_107_542_400_000, "2100-03-01 00:00:00"),
        (Timestamp::MAX.as_millis(), "2554-07-21 23:34:33"),
    ] {
        let line = format!("{millis}|{date}|a|0|0|0|0|0|0|0|0");
        assert_eq!(fat(&line).unwrap().to_string(), line);
    }
}

#[test]
fn fields_that_older_lines_lack_are_zero() {
    let thin = "1564382218000|/foo/*|14|9|8|5|25|6|2|1";
    for (lacking, reserved_pass, concurrency, classification) in
        [("", 6, 2, 1), ("|1", 6, 2, 0), ("|2|1", 6, 0, 0), ("|6|2|1", 0, 0, 0)]
    {
        let older = thin.strip_suffix(lacking).unwrap();
        let mut metrics = each_another();
        (metrics.counts[ReservedPass], metrics.concurrency) = (reserved_pass, concurrency);
        let line = MetricLine::new("/foo/*", classification, &metrics);
        assert_eq!(MetricLine::from_thin(older), Ok(line.clone()), "{older}");
        let older = older.replacen('|', "|2019-07-29 14:36:58|", 1);
        assert_eq!(fat(&older), Ok(line), "{older}");
    }
}

#[test]
fn line_break_at_the_end_is_not_part_of_the_line() {
    let line = "1564382218000|2019-07-29 06:36:58|/foo/*|4|9|3|0|25|0|2|1";
    for end in ["\n", "\r\n", "\r"] {
        assert_eq!(fat(&format!("{line}{end}")), fat(line), "{end:?}");
    }
}

#[test]
fn name_breaks_neither_the_line_nor_its_fields() {
    let line = MetricLine::new("a|b\nc\r\nd e\u{2028}", 0, &each_another());
    assert_eq!(line.resource(), "a_b_c__d e\u{2028}");
    assert_eq!(fat(&line.to_string()), Ok(line.clone()));
    assert_eq!(MetricLine::from_thin(&line.thin().to_string()), Ok(line));
    let nameless = MetricLine::new("", 0, &each_another());
    assert_eq!(fat(&nameless.to_string()), Ok(nameless));
}

#[test]
fn times_are_rounded_down_to_the_millisecond() {
    let mut metrics = each_another();
    metrics.second = Timestamp::from_nanos(1_564_382_218_007_999_999);
    metrics.counts.set_rt_sum(Duration::from_nanos(8 * 8_000_000 - 1));
    let line = MetricLine::new("a", 0, &metrics);
    assert!(line.thin().to_string().starts_with("1564382218007|a|14|9|8|5|7|"), "{line}");
    let read = line.metrics();
    assert_eq!(read.avg_rt(), Some(Duration::from_millis(7)));
    let rts = (read.counts.rt_sum(), read.counts[Rt]);
    assert_eq!(rts, (Duration::from_millis(8 * 7), 8), "eight ended");
}

#[test]
fn response_time_is_read_as_zero_only_where_a_request_completed() {
    let short = Some(Duration::from_micros(999));
    for (success, exception, cancelled, avg_rt, read) in [
        (0, 0, 0, None, None),
        (0, 0, 0, short, None),
        (1, 0, 0, short, Some(Duration::ZERO)),
        (0, 1, 0, short, Some(Duration::ZERO)),
        (1, 0, 0, None, Some(Duration::ZERO)),
        (0, 0, 1, None, Some(Duration::ZERO)),
        (0, 0, 0, Some(Duration::from_millis(1)), Some(Duration::from_millis(1))),
    ] {
        let metrics = with(|of| {
            of.counts = [(Success, success), (Exception, exception), (Cancelled, cancelled)].into();
            set_mean(of, avg_rt);
        });
        let line = MetricLine::new("a", 0, &metrics);
        assert_eq!(line.metrics().avg_rt(), read, "{success} {exception} {cancelled} {avg_rt:?}");
        assert_eq!(fat(&line.to_string()), Ok(line));
    }
}

#[test]
fn numbers_that_sentinel_cannot_read_are_cut() {
    let metrics = with(|of| {
        of.second = Timestamp::MAX;
        of.counts = [Pass, Success, Exception, ReservedPass].map(|event| (event, u64::MAX)).into();
        of.counts[Block] = 1 << 63;
        set_mean(of, Some(Duration::MAX));
        of.concurrency = 1 << 31;
    });
    let line = MetricLine::new("a", i32::MIN, &metrics);
    let most = i64::MAX;
    assert_eq!(
        line.thin().to_string(),
        format!(
            "18446744073709|a|{most}|{most}|{most}|{most}|{most}|{most}|2147483647|-2147483648"
        )
    );
    assert_eq!(MetricLine::from_thin(&line.thin().to_string()), Ok(line));
}

#[test]
fn response_times_of_a_line_are_as_many_as_the_completed_requests_that_have_the_mean() {
    let of = |line| {
        let line = MetricLine::from_thin(line).unwrap();
        let metrics = line.metrics();
        assert_eq!((metrics.min_rt, metrics.max_rt, metrics.counts[Cancelled]), (None, None, 0));
        (metrics.counts[Rt], metrics.counts.rt_sum())
    };
    assert_eq!(of("0|a|9|0|5|2|25"), (5, Duration::from_millis(125)));
    assert_eq!(of("0|a|9|0|5|2|0"), (5, Duration::ZERO));
    assert_eq!(of("0|a|9|0|0|0|25"), (1, Duration::from_millis(25)));
    assert_eq!(of("0|a|9|0|0|0|0"), (0, Duration::ZERO));
    // The sum of more than 2,000 of them would be above the longest duration.
    let longest = Duration::from_millis(i64::MAX.unsigned_abs());
    let line = format!("0|a|0|0|{}|1|{}", i64::MAX, i64::MAX);
    assert_eq!(of(&line), (2_000, longest * 2_000));
}

#[test]
fn error_names_the_field_and_what_stands_there() {
    let not = |field, text: &str, min, max| MetricLineError::NotInRange {
        field,
        text: text.to_owned(),
        min,
        max,
    };
    let (count, last) = (i64::MAX, 18_446_744_073_709);
    let date = "2019-07-29 06:36:58";
    for (line, error, text) in [
        (
            String::new(),
            not("timestamp", "", 0, last),
            r#"timestamp is "", no whole number from 0 to 18446744073709"#.to_owned(),
        ),
        (
            format!("18446744073710|{date}|a|0|0|0|0|0"),
            not("timestamp", "18446744073710", 0, last),
            r#"timestamp is "18446744073710", no whole number from 0 to 18446744073709"#.to_owned(),
        ),
        (
            "1".to_owned(),
            MetricLineError::Missing { field: "date" },
            "the line ends before its date".to_owned(),
        ),
        (
            format!("1|{date}"),
            MetricLineError::Missing { field: "resource" },
            "the line ends before its resource".to_owned(),
        ),
        (
            format!("1|{date}|a|0|0|0|0"),
            MetricLineError::Missing { field: "rt" },
            "the line ends before its rt".to_owned(),
        ),
        (
            format!("1|{date}|foo|baz|4|9|3|0|25|0|2|1"),
            not("pass", "baz", 0, count),
            format!(r#"pass is "baz", no whole number from {COUNTS}"#),
        ),
        (
            format!("1|{date}|a|0|-3|0|0|0"),
            not("block", "-3", 0, count),
            format!(r#"block is "-3", no whole number from {COUNTS}"#),
        ),
        (
            format!("1|{date}|a|0|0|9223372036854775808|0|0"),
            not("success", "9223372036854775808", 0, count),
            format!(r#"success is "9223372036854775808", no whole number from {COUNTS}"#),
        ),
        (
            format!("1|{date}|a|0|0|0| 1|0"),
            not("exception", " 1", 0, count),
            format!(r#"exception is " 1", no whole number from {COUNTS}"#),
        ),
        (
            format!("1|{date}|a|0|0|0|0|2.5"),
            not("rt", "2.5", 0, count),
            format!(r#"rt is "2.5", no whole number from {COUNTS}"#),
        ),
        (
            format!("1|{date}|a|0|0|0|0|0|"),
            not("occupiedPass", "", 0, count),
            format!(r#"occupiedPass is "", no whole number from {COUNTS}"#),
        ),
        (
            format!("1|{date}|a|0|0|0|0|0|0|2147483648"),
            not("concurrency", "2147483648", 0, i32::MAX.into()),
            r#"concurrency is "2147483648", no whole number from 0 to 2147483647"#.to_owned(),
        ),
        (
            format!("1|{date}|a|0|0|0|0|0|0|0|web"),
            not("classification", "web", i32::MIN.into(), i32::MAX.into()),
            r#"classification is "web", no whole number from -2147483648 to 2147483647"#.to_owned(),
        ),
        (
            format!("1|{date}|a|0|0|0|0|0|0|0|0|7"),
            MetricLineError::TooMany { text: "7".to_owned() },
            r#"after the last field there is "7""#.to_owned(),
        ),
        (
            "1||a\nb|0|0|0|0|0".to_owned(),
            MetricLineError::LineBreak { position: 4 },
            "there is a line break within the line, after 4 bytes".to_owned(),
        ),
    ] {
        assert_eq!(error.to_string(), text);
        assert_eq!(fat(&line), Err(error), "{line}");
    }
    assert_eq!(
        MetricLine::from_thin("1|2019-07-29 06:36:58|a|0|0|0|0|0|0|0|0"),
        Err(not("pass", "a", 0, count)),
        "a fat line is not a thin line"
    );
}

fn any_name() -> impl Strategy<Value = String> {
    let char = prop_oneof![Just('|'), Just('\n'), Just('\r'), Just('/'), any::<char>()];
    prop::collection::vec(char, 0..12).prop_map(String::from_iter)
}

/// Mostly a number that is valid in each numeric field; otherwise, few lines would be read to their
/// end.
fn any_field() -> impl Strategy<Value = String> {
    prop_oneof![20 => (0..=i32::MAX).prop_map(|number| number.to_string()), 1 => any_name()]
}

/// A small number, a number next to a bound, or any number.
fn any_count() -> impl Strategy<Value = u64> {
    let bounds = [u64::MAX, 1 << 63, 1 << 31].map(|bound| bound - 2..=bound);
    let [largest, long, int] = bounds;
    prop_oneof![3 => 0_u64..3, 1 => largest, 1 => long, 1 => int, 3 => any::<u64>()]
}

fn any_metrics() -> impl Strategy<Value = SecondMetrics> {
    let rt = prop::option::of((any_count(), 0_u32..1_000_000_000, any_count()));
    (prop::array::uniform8(any_count()), rt).prop_map(|(counts, rt)| {
        let [nanos, concurrency, counts @ ..] = counts;
        let mut metrics = SecondMetrics::new(Timestamp::from_nanos(nanos));
        metrics.concurrency = concurrency;
        for (event, count) in MetricEvent::OF_PERMITS.iter().zip(counts) {
            metrics.counts[*event] = count;
        }
        if let Some((secs, nanos, rt_count)) = rt {
            let rt_sum = Duration::new(secs >> (nanos % 64), nanos);
            metrics.counts[Rt] = rt_count;
            metrics.counts.set_rt_sum(rt_sum);
            (metrics.min_rt, metrics.max_rt) = (Some(Duration::ZERO), Some(rt_sum));
        }
        metrics
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn every_line_reads_back_as_itself(
        name in any_name(), classification in any::<i32>(), metrics in any_metrics(),
    ) {
        let line = MetricLine::new(&name, classification, &metrics);
        prop_assert_eq!(fat(&line.to_string()), Ok(line.clone()));
        prop_assert_eq!(MetricLine::from_thin(&line.thin().to_string()), Ok(line.clone()));
        let again = MetricLine::new(line.resource(), classification, line.metrics());
        prop_assert_eq!(again, line, "a second conversion loses nothing");
    }

    #[test]
    fn line_is_written_as_it_was_read(
        millis in 0..=Timestamp::MAX.as_millis(), name in "[^|\n\r]{0,12}",
        counts in prop::array::uniform6(0..=i64::MAX), concurrency in 0..=i32::MAX,
        classification in any::<i32>(),
    ) {
        let counts = counts.map(|count| (count >> (count % 64)).to_string());
        let [before @ .., occupied] = &counts;
        let thin = format!(
            "{millis}|{name}|{}|{occupied}|{concurrency}|{classification}", before.join("|")
        );
        let line = MetricLine::from_thin(&thin).unwrap();
        prop_assert_eq!(line.thin().to_string(), thin);
        prop_assert_eq!(fat(&line.to_string()), Ok(line));
    }

    #[test]
    fn no_text_panics(text in any::<String>(), fields in prop::collection::vec(any_field(), 0..14)) {
        for text in [text, fields.join("|")] {
            for line in [fat(&text), MetricLine::from_thin(&text)].into_iter().flatten() {
                prop_assert_eq!(fat(&line.to_string()), Ok(line));
            }
        }
    }
}
