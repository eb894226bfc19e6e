//! The settings of a window over a fleet: what is allowed, and what an error says.

use std::sync::Arc;
use std::time::Duration;

use leaparray::Registry;
use leaparray_redis::engine::MemoryFleet;
use leaparray_redis::fleet::{Budget, FleetConfig, FleetConfigError};
use leaparray_redis::{
    FleetReader, FleetReaderBuilder, FleetReporter, FleetReporterBuilder, FleetStartError,
};

const MILLI: Duration = Duration::from_millis(1);
const NANO: Duration = Duration::from_nanos(1);

fn reader() -> FleetReaderBuilder {
    FleetReader::builder("shop")
}

fn reporter() -> FleetReporterBuilder {
    FleetReporter::builder("shop", "orders-1")
}

fn read(builder: FleetReaderBuilder) -> Result<(), FleetStartError> {
    builder.start(MemoryFleet::new()).map(drop)
}

fn report(builder: FleetReporterBuilder) -> Result<(), FleetStartError> {
    builder.start(&Arc::new(Registry::new()), MemoryFleet::new()).map(drop)
}

/// A fleet whose times differ from the default ones.
fn config() -> FleetConfig {
    FleetConfig::default().with_lost_after(7).unwrap().with_history(20).unwrap()
}

#[tokio::test]
async fn period_is_from_10_milliseconds_to_the_history() {
    let min = FleetReaderBuilder::MIN_PERIOD;
    assert_eq!(min, 10 * MILLI);
    for (config, max) in [(FleetConfig::default(), 60), (config(), 20)] {
        let (builder, max) = (reader().with_config(config), Duration::from_secs(max));
        for period in [min, max] {
            assert_eq!(read(builder.clone().with_period(period)), Ok(()));
        }
        for period in [Duration::ZERO, min.saturating_sub(NANO), max + NANO, Duration::MAX] {
            let error = FleetStartError::Period { period, min, max };
            assert_eq!(read(builder.clone().with_period(period)), Err(error));
        }
    }
    let error = read(reader().with_period(Duration::ZERO)).unwrap_err();
    assert_eq!(error.to_string(), "the period of a reader is from 10ms to 60s, not 0ns");
}

#[tokio::test]
async fn reader_waits_for_an_answer_from_a_millisecond_to_the_history() {
    let min = FleetReaderBuilder::MIN_ANSWER_TIMEOUT;
    assert_eq!(min, MILLI);
    for (config, max) in [(FleetConfig::default(), 60), (config(), 20)] {
        let (builder, max) = (reader().with_config(config), Duration::from_secs(max));
        for timeout in [min, max] {
            assert_eq!(read(builder.clone().with_answer_timeout(timeout)), Ok(()));
        }
        for timeout in [Duration::ZERO, min.saturating_sub(NANO), max + NANO, Duration::MAX] {
            let error = FleetStartError::AnswerTimeout { timeout, min, max };
            assert_eq!(read(builder.clone().with_answer_timeout(timeout)), Err(error));
        }
    }
    let error = read(reader().with_answer_timeout(Duration::ZERO)).unwrap_err();
    assert_eq!(error.to_string(), "an answer is waited for from 1ms to 60s, not 0ns");
}

#[tokio::test]
async fn reporter_waits_for_an_answer_from_a_millisecond_until_it_counts_as_lost() {
    let min = FleetReporterBuilder::MIN_ANSWER_TIMEOUT;
    assert_eq!(min, MILLI);
    for (config, max) in [(FleetConfig::default(), 5), (config(), 7)] {
        let (builder, max) = (reporter().with_config(config), Duration::from_secs(max));
        for timeout in [min, max] {
            assert_eq!(report(builder.clone().with_answer_timeout(timeout)), Ok(()));
        }
        for timeout in [Duration::ZERO, min.saturating_sub(NANO), max + NANO, Duration::MAX] {
            let error = FleetStartError::AnswerTimeout { timeout, min, max };
            assert_eq!(report(builder.clone().with_answer_timeout(timeout)), Err(error));
        }
    }
}

#[tokio::test]
async fn waiting_bytes_are_from_two_seconds_to_a_gibibyte() {
    let max = FleetReporterBuilder::MAX_WAITING_BYTES;
    assert_eq!((FleetReporterBuilder::MIN_WAITING_BYTES, max), (64 << 10, 1 << 30));
    let budget = |process, fleet| Budget { process, fleet };
    let budgets = [
        (Budget::default(), 2 * ((32 << 10) + 256)),
        (budget(100, 1 << 20), 64 << 10),
        (budget(1 << 20, usize::MAX), 2 * ((1 << 20) + 256)),
        // No process has more than the fleet.
        (budget(usize::MAX, 1 << 20), 2 * ((1 << 20) + 256)),
        (budget(usize::MAX, usize::MAX), max),
    ];
    for (budget, min) in budgets {
        let with = |bytes| report(reporter().with_budget(budget).with_max_waiting_bytes(bytes));
        assert_eq!((with(min), with(max)), (Ok(()), Ok(())), "{budget:?}");
        for bytes in [0, min - 1, max + 1, usize::MAX] {
            assert_eq!(with(bytes), Err(FleetStartError::WaitingBytes { bytes, min, max }));
        }
    }
    let error = report(reporter().with_max_waiting_bytes(0)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "with this budget, the limit of waiting bytes is from 66048 to 1073741824, not 0"
    );
}

/// The shortest times that are allowed leave room for the defaults of the tasks.
#[tokio::test]
async fn default_settings_suit_each_fleet() {
    let config = FleetConfig::default().with_lost_after(3).unwrap().with_history(2).unwrap();
    assert_eq!(read(reader().with_config(config)), Ok(()));
    assert_eq!(report(reporter().with_config(config)), Ok(()));
}

#[test]
fn times_of_a_fleet_are_bounded_by_a_day_and_by_each_other() {
    let (config, day) = (FleetConfig::default(), FleetConfig::MAX_SECONDS);
    assert_eq!(day, 86_400);
    let error = |result: Result<FleetConfig, FleetConfigError>| {
        let FleetConfigError { setting, seconds, min, max, .. } = result.unwrap_err();
        (setting, seconds, min, max)
    };
    let long = config.with_departed(u32::MAX).unwrap();
    assert_eq!(long.departed(), u32::MAX);
    let longest = long.with_history(day).unwrap().with_delivery(day).unwrap();
    assert_eq!(error(longest.with_history(day + 1)), ("history", day + 1, 2, day));
    assert_eq!(error(longest.with_delivery(day + 1)), ("delivery", day + 1, 6, day));
    assert_eq!(longest.with_lost_after(day - 1).map(|it| it.lost_after()), Ok(day - 1));
    assert_eq!(error(longest.with_lost_after(day)), ("lost_after", day, 3, day - 1));
    assert_eq!(longest.with_grace(day).map(|it| it.grace()), Ok(day));
    assert_eq!(error(longest.with_grace(day + 1)), ("grace", day + 1, 1, day));
    // A record is kept for as long as a second, which is longer than a day here.
    let kept = 2 * day + 10;
    assert_eq!(longest.with_departed(kept).map(|it| it.departed()), Ok(kept));
    let refused = longest.with_departed(kept - 1);
    assert_eq!(error(refused), ("departed", kept - 1, kept, u32::MAX));
    assert_eq!(
        refused.unwrap_err().to_string(),
        "`departed` of a fleet is from 172810 to 4294967295 seconds, not 172809"
    );
}

#[tokio::test]
async fn name_of_a_process_has_up_to_256_bytes() {
    let start = |len: usize| report(FleetReporter::builder("shop", &"x".repeat(len)));
    let max = FleetReporterBuilder::MAX_PROCESS_NAME_LEN;
    assert_eq!((max, start(max)), (256, Ok(())));
    assert_eq!(start(257), Err(FleetStartError::ProcessName { len: 257, max }));
}

#[test]
fn fleet_needs_timers() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let _guard = runtime.enter();
    assert_eq!(report(reporter()), Err(FleetStartError::NoTimers));
    assert_eq!(read(reader()), Err(FleetStartError::NoTimers));
}
