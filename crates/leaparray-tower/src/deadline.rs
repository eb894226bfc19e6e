//! The times from which the end of a request tells that its deadline has expired.

use std::time::Duration;

use http::{Method, Request};
use leaparray::Timestamp;

use crate::grpc;

/// The least time from the entry of a client's call until it is overdue by its own deadline.
const LEAST_INBOUND: Duration = Duration::from_millis(10);

/// The times from which a request that is dropped or cancelled is overdue, and thereby an
/// exception.
#[derive(Clone, Copy)]
pub(crate) struct Deadlines {
    /// Until the head of the response.
    pub(crate) of_head: Timestamp,
    /// After the head.
    pub(crate) of_body: Timestamp,
}

impl Deadlines {
    /// Returns the times for a request that enters at `now`, if a time-out of `around` is outside
    /// of the layer.
    pub(crate) fn of<A>(
        request: &Request<A>,
        is_outbound: bool,
        around: Option<Duration>,
        now: Timestamp,
    ) -> Self {
        let end_of = |span: Duration| now.saturating_add(span);
        // All calls of gRPC are posted. For other requests, the look-up would be wasted.
        let is_posted = request.method() == Method::POST;
        let of_call = if is_posted { grpc::timeout(request.headers()) } else { None };
        // Half: the client measures the time from before it connects, so it gives up before all of
        // it has passed here. The difference is large if the server is slow to read its requests.
        let of_body = of_call.map_or(Timestamp::MAX, |it| {
            // A client could otherwise make exceptions by requests that it drops at once.
            let least = if is_outbound { Duration::ZERO } else { LEAST_INBOUND };
            end_of((it / 2).max(least))
        });
        // Nine tenths: the timer is in this process, but it may start before the request enters,
        // and it reads another clock.
        let of_head = around.map_or(Timestamp::MAX, |it| end_of(it.saturating_sub(it / 10)));
        let of_head = of_head.min(of_body);
        Self { of_head, of_body }
    }
}
