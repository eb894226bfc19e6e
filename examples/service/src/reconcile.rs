//! The reconciliation: compares the counts of the nodes with counts that were made without them.

use std::fmt::{Display, Write as _};

use leaparray::array::Ledger;
use leaparray::{Clock, MetricEvent, MetricTotals, Resource, Timestamp};

use crate::metrics::Metrics;
use crate::route::Route;
use crate::tally::Tally;

/// The result of the comparison: a report to print, and a line for each difference.
pub(crate) struct Reconciliation {
    pub(crate) report: String,
    pub(crate) differences: Vec<String>,
}

/// Compares all counts. The service must have stopped, so that no request is recorded at the same
/// time.
pub(crate) fn reconcile(
    metrics: &Metrics,
    server: &Tally,
    client: Option<&Tally>,
) -> Reconciliation {
    let now = metrics.registry.clock().now();
    let mut reconciliation = Reconciliation { report: String::new(), differences: Vec::new() };
    reconciliation.line(&format!(
        "\n{:9} {:9} {:>9} {:>9} {:>9}",
        "route", "count", "client", "server", "node"
    ));
    for route in Route::ALL {
        reconciliation.compare_outside(route, &metrics.of(route).lifetime(), server, client);
    }
    reconciliation.line("\nthe ledger of passes; the window is the last minute");
    for route in Route::ALL {
        reconciliation.compare_inside(route, metrics.of(route), now);
    }
    reconciliation.compare_total(metrics, now);
    reconciliation.refuse_unexpected("server", server);
    if let Some(client) = client {
        reconciliation.refuse_unexpected("client", client);
    }
    if reconciliation.differences.is_empty() {
        reconciliation.line("\nreconciled: every count is equal");
    }
    reconciliation
}

impl Reconciliation {
    /// Compares the counts of a node with those of the server and the client.
    fn compare_outside(
        &mut self,
        route: Route,
        node: &MetricTotals,
        server: &Tally,
        client: Option<&Tally>,
    ) {
        type Count = fn(&Tally, Route) -> u64;
        let rows: [(MetricEvent, Count); 5] = [
            (MetricEvent::Pass, |tally, route| {
                tally.succeeded(route) + tally.failed(route) + tally.cancelled(route)
            }),
            (MetricEvent::Success, Tally::succeeded),
            (MetricEvent::Exception, Tally::failed),
            (MetricEvent::Cancelled, Tally::cancelled),
            (MetricEvent::Block, Tally::refused),
        ];
        for (event, count) in rows {
            let node = node.sum(event);
            let server = count(server, route);
            let client = client.map(|client| count(client, route));
            let shown = client.map_or_else(|| "-".to_owned(), |client| client.to_string());
            self.line(&format!("{route:9} {:9} {shown:>9} {server:>9} {node:>9}", event.name()));
            self.expect(route, event.name(), ("server", server), ("node", node));
            if let Some(client) = client {
                self.expect(route, event.name(), ("client", client), ("node", node));
            }
        }
    }

    /// Compares the counts of a node with each other.
    fn compare_inside(&mut self, route: Route, node: &Resource, now: Timestamp) {
        let lifetime = node.lifetime();
        let with_rt = lifetime.sum(MetricEvent::Success) + lifetime.sum(MetricEvent::Exception);
        let ended = with_rt + lifetime.sum(MetricEvent::Cancelled);
        let pass = ("pass", lifetime.sum(MetricEvent::Pass));
        self.expect(route, "passes", pass, ("success + exception + cancelled", ended));
        let rts = ("response times", lifetime.rt_count());
        self.expect(route, "ends", rts, ("success + exception", with_rt));
        let in_bins = node.lifetime_histogram().map_or(0, |histogram| histogram.count());
        self.expect(route, "ends", ("response times", lifetime.rt_count()), ("histogram", in_bins));
        self.expect(route, "gauge", ("in flight", node.concurrency()), ("expected", 0));

        let ledger = node.at(now).long().ledger();
        let recorded = ledger.recorded();
        for &event in MetricEvent::ALL {
            let (name, all) = (event.name(), lifetime.sum(event));
            self.expect(route, name, ("ledger", recorded.sum(event)), ("lifetime", all));
            let (sum, in_window) = (node.at(now).long().sum(event), ledger.in_window.sum(event));
            self.expect(route, name, ("minute", sum), ("ledger in the window", in_window));
        }
        self.line(&format!("{route:9} {}", ledger.map(|totals| totals.sum(MetricEvent::Pass))));
    }

    /// Compares the totals of the registry with the sums of its nodes.
    fn compare_total(&mut self, metrics: &Metrics, now: Timestamp) {
        let registry = &metrics.registry;
        let mut nodes = Ledger::<MetricTotals>::default();
        for ledger in metrics.all().map(|resource| resource.at(now).long().ledger()) {
            nodes.in_window += &ledger.in_window;
            nodes.expired += &ledger.expired;
            nodes.late += &ledger.late;
        }
        let (lifetime, inbound) = (registry.lifetime(), registry.at(now).inbound());
        for &event in MetricEvent::ALL {
            let (name, all) = (event.name(), nodes.recorded().sum(event));
            self.expect("total", name, ("registry", lifetime.sum(event)), ("nodes", all));
            let (minute, in_window) = (inbound.long.totals.sum(event), nodes.in_window.sum(event));
            self.expect("total", name, ("inbound", minute), ("nodes in the window", in_window));
        }
        let in_bins = registry.at(now).long().histogram().map_or(0, |it| it.count());
        let rts = ("response times", inbound.long.totals.rt_count());
        self.expect("total", "ends", rts, ("histogram", in_bins));
        self.expect("total", "gauge", ("in flight", inbound.concurrency), ("expected", 0));
        self.expect("total", "resources", ("refused", registry.refused()), ("expected", 0));
        let passes = nodes.map(|totals| totals.sum(MetricEvent::Pass));
        self.line(&format!("{:9} {passes}", "total"));
    }

    fn refuse_unexpected(&mut self, side: &str, tally: &Tally) {
        for (route, ending, count) in tally.unexpected() {
            self.differences.push(format!("{route} unexpected in the {side}: {count} × {ending}"));
        }
    }

    fn expect(&mut self, of: impl Display, what: &str, left: (&str, u64), right: (&str, u64)) {
        if left.1 != right.1 {
            let ((left, a), (right, b)) = (left, right);
            self.differences.push(format!("{of} {what}: {left} {a}, {right} {b}"));
        }
    }

    fn line(&mut self, line: &str) {
        let _ = writeln!(self.report, "{line}");
    }
}
