//! The plain data of `leaparray-redis` that has the traits of serde.

use std::time::Duration;

use leaparray::EventCounts;
use leaparray::MetricEvent::{Pass, Rt, Success};
use leaparray_redis::fleet::Record;
use leaparray_serde_formats::Failures;

#[test]
fn records_of_a_fleet() {
    let mut totals = EventCounts::from([(Pass, 30), (Success, 20), (Rt, 20)]);
    totals.set_rt_sum(Duration::new(1 << 40, 999_999_999));
    let mut record = Record::default();
    (record.first, record.next, record.clock_ahead) = (60, 64, -7);
    (record.delivered, record.lifetime, record.has_left) = ((3, totals), totals, true);
    record.name = "orders: \"1\"".to_owned();

    let mut failures = Failures::default();
    failures.round_trip("totals", totals);
    failures.round_trip("record", record);
    failures.round_trip("new record", Record::default());
    failures.assert_none();
}
