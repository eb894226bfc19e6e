//! Tests of the whole example, with fewer calls.

use tonic::Code;

use crate::client::Ending;
use crate::{COUNT, DOUBLE, FAILING, LIMITED, UNKNOWN, reconcile, run};

#[tokio::test]
async fn counts_of_both_sides_equal_those_of_the_callers() {
    let (server, client, mut tally) = run(4, 30, 10).await.unwrap();
    assert_eq!(reconcile(&server, &client, &tally).differences, [""; 0]);

    let count = |method, ending| tally.get(&(method, ending)).copied().unwrap_or(0);
    assert_eq!(tally.values().sum::<u64>(), 4 * 30 * 6);
    assert_eq!(count(DOUBLE, Ending::Status(Code::Ok)), 120);
    assert_eq!(count(COUNT, Ending::Status(Code::Ok)), 120);
    assert_eq!(count(COUNT, Ending::Dropped), 120);
    assert!(count(FAILING, Ending::Status(Code::Internal)) > 0);
    assert!(count(LIMITED, Ending::Status(Code::Ok)) >= 10);
    assert!(count(LIMITED, Ending::Status(Code::ResourceExhausted)) > 0);
    assert_eq!(count(UNKNOWN, Ending::Status(Code::Unimplemented)), 120);

    // The rows of a side add up to its sum, those of the unknown methods included.
    let report = reconcile(&server, &client, &tally).report;
    let passes = |name: &str| -> Vec<u64> {
        let rows = report.lines().filter(|line| line.starts_with(name) && line.contains(" pass "));
        rows.map(|row| row.split_whitespace().last().unwrap().parse().unwrap()).collect()
    };
    assert_eq!(passes("demo.Numbers/Unknown"), [120, 120], "{report}");
    let methods: u64 = passes("demo.").iter().sum();
    assert_eq!(methods, passes("all").iter().sum::<u64>(), "{report}");

    // A call that no layer has recorded is a difference of each side: of its method and of all, in
    // passes and cancellations.
    *tally.entry((COUNT, Ending::Dropped)).or_default() += 1;
    assert_eq!(reconcile(&server, &client, &tally).differences.len(), 8);
}
