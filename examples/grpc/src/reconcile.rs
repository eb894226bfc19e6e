//! The reconciliation: compares the counts of the resources with those of the client.

use std::fmt::Write as _;

use leaparray::MetricEvent::{self, Block, Cancelled, Exception, Pass, Success};
use leaparray::{MetricTotals, Registry};
use tonic::Code;

use crate::client::{Ending, Tally};
use crate::{METHODS, UNKNOWN};

/// The events that are compared. The others are a sum of times, and permits that are reserved.
const EVENTS: [MetricEvent; 5] = [Pass, Success, Exception, Cancelled, Block];

/// How many names the layer of the server lists that no response has confirmed.
const MAX_UNCONFIRMED: usize = 100;

/// The name of the sum of all methods.
const ALL: &str = "all";

/// The side whose layer has recorded the calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Server,
}

impl Side {
    /// Returns whether the layer of this side records this event for a call with this ending. The
    /// layer of the client records every call, so a call with another ending is a difference there.
    fn has(self, event: MetricEvent, ending: Ending) -> bool {
        let end = match (self, ending) {
            // For the client, a refusal by the server is an answer.
            (_, Ending::Status(Code::Ok))
            | (Self::Client, Ending::Status(Code::ResourceExhausted)) => Success,
            (_, Ending::Status(Code::Internal | Code::Unimplemented)) => Exception,
            (_, Ending::Dropped) => Cancelled,
            (Self::Server, Ending::Status(Code::ResourceExhausted))
            | (Self::Client, Ending::Refused) => Block,
            _ => return false,
        };
        event == end || event == Pass && end != Block
    }
}

/// Returns the totals of all resources but those of the methods: of the unknown methods, each of
/// which has another name, and of the requests without a name of their own.
fn unknown(registry: &Registry) -> MetricTotals {
    let mut totals = MetricTotals::default();
    for resource in registry {
        if !METHODS.iter().any(|method| method.trim_start_matches('/') == resource.name()) {
            totals += &resource.lifetime();
        }
    }
    totals
}

/// A report to print, and a line for each difference.
#[derive(Default)]
pub(crate) struct Reconciliation {
    pub(crate) report: String,
    pub(crate) differences: Vec<String>,
}

impl Reconciliation {
    /// Compares all counts of one side. All calls must have ended.
    pub(crate) fn compare(&mut self, side: Side, registry: &Registry, tally: &Tally) {
        let heading = format!("{side:?}");
        let _ =
            writeln!(self.report, "\n{heading:21} {:9} {:>8} {:>8}", "count", "calls", "resource");
        for method in METHODS.into_iter().chain([UNKNOWN, ALL]) {
            let name = method.trim_start_matches('/');
            let totals = match method {
                ALL => registry.lifetime(),
                UNKNOWN => unknown(registry),
                _ => registry.get(name).map(|resource| resource.lifetime()).unwrap_or_default(),
            };
            for event in EVENTS {
                let calls = tally.iter().filter(|((of, ending), _)| {
                    (method == ALL || *of == method) && side.has(event, *ending)
                });
                let (calls, recorded) = (calls.map(|(_, calls)| calls).sum(), totals.sum(event));
                let event = event.name();
                let _ = writeln!(self.report, "{name:21} {event:9} {calls:>8} {recorded:>8}");
                self.expect(&format!("{side:?}, {name} {event}"), calls, recorded);
            }
        }
        if side == Side::Server {
            // One more, for the requests without a name of their own.
            let most = METHODS.len() + 1 + MAX_UNCONFIRMED;
            if registry.len() > most {
                self.differences.push(format!("{side:?}: {} resources", registry.len()));
            }
        }
        let in_flight = registry.now().snapshot().total().concurrency;
        self.expect(&format!("{side:?}, in flight"), 0, in_flight);
    }

    fn expect(&mut self, what: &str, expected: u64, recorded: u64) {
        if expected != recorded {
            self.differences.push(format!("{what}: expected {expected}, recorded {recorded}"));
        }
    }
}
