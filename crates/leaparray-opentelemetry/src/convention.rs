//! The names of metrics and attributes.

use leaparray::flow::watch::WatchedMetric;
use leaparray::registry::{SeriesKey, WatchedLimiter};
use leaparray::{MetricEvent, TrafficType};

/// Returns the name of the counter of an event.
pub(crate) fn counter(event: MetricEvent) -> String {
    format!("leaparray.{event}")
}

/// The name and the description of the counter of refusals by limiter.
pub(crate) const REFUSED_BY: [&str; 2] =
    ["leaparray.refused_by", "Refused permits by the name of the limiter"];
/// The attribute with the name of a limiter.
pub(crate) const LIMITER: &str = "leaparray.limiter";

/// The name and the description of the counter of responses by class.
pub(crate) const RESPONSES: [&str; 2] =
    ["leaparray.responses", "Responses by the class of their status"];
/// The attribute with the class.
pub(crate) const CODE: &str = "leaparray.code";

pub(crate) const PERMITS: &str = "{permit}";
pub(crate) const REQUESTS: &str = "{request}";
pub(crate) const RESPONSE_UNIT: &str = "{response}";
/// The unit of a metric of the watched limiters.
pub(crate) const ONE: &str = "1";

/// The kind of a resource, which decides the names of its metrics: those of the semantic
/// conventions for HTTP, or those of this crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    HttpServer,
    HttpClient,
    Other,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::HttpServer, Self::HttpClient, Self::Other];

    pub(crate) fn of(key: &SeriesKey) -> Self {
        match (method_and_route(&key.name), key.traffic_type) {
            (None, _) => Self::Other,
            (Some(_), TrafficType::Outbound) => Self::HttpClient,
            (Some(_), _) => Self::HttpServer,
        }
    }

    /// Returns the name of the metric of requests in flight.
    pub(crate) const fn in_flight(self) -> &'static str {
        match self {
            Self::HttpServer => "http.server.active_requests",
            Self::HttpClient => "http.client.active_requests",
            Self::Other => "leaparray.in_flight",
        }
    }

    /// Returns the description of the metric of requests in flight.
    pub(crate) const fn in_flight_description(self) -> &'static str {
        match self {
            Self::HttpServer => "Number of active HTTP server requests.",
            Self::HttpClient => "Number of active HTTP requests.",
            Self::Other => "Requests in flight",
        }
    }

    /// Returns the description of the histogram of response times.
    #[cfg(feature = "otlp")]
    pub(crate) const fn response_time_description(self) -> &'static str {
        match self {
            Self::HttpServer => "Duration of HTTP server requests.",
            Self::HttpClient => "Duration of HTTP client requests.",
            Self::Other => "Response times",
        }
    }

    /// Returns the name of the histogram of response times.
    #[cfg(feature = "otlp")]
    pub(crate) const fn response_time(self) -> &'static str {
        match self {
            Self::HttpServer => "http.server.request.duration",
            Self::HttpClient => "http.client.request.duration",
            Self::Other => "leaparray.response_time",
        }
    }
}

/// Calls `add` with the names and the values of the attributes of a series.
pub(crate) fn attributes(key: &SeriesKey, mut add: impl FnMut(&'static str, &str)) {
    let is_outbound = key.traffic_type == TrafficType::Outbound;
    match method_and_route(&key.name) {
        Some((method, route)) => {
            add("http.request.method", method);
            add(if is_outbound { "url.template" } else { "http.route" }, route);
        }
        None => add("leaparray.resource", &key.name),
    }
    if let Some(context) = &key.context {
        add("leaparray.context", context);
    }
    add("leaparray.kind", if is_outbound { "outbound" } else { "inbound" });
}

/// Returns the value of a counter of the watched limiters.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a whole number")]
pub(crate) const fn count(value: f64) -> u64 {
    value as u64
}

/// Returns the name of a metric of the watched limiters.
pub(crate) fn watched_name(metric: WatchedMetric) -> String {
    format!("leaparray.{}", metric.name())
}

/// Calls `take` with the attributes and the value of a number of each watched limiter that has it.
pub(crate) fn watched(
    metric: WatchedMetric,
    limiters: &[WatchedLimiter],
    mut take: impl FnMut(&[(String, &str)], f64),
) {
    for WatchedLimiter { name, state, .. } in limiters {
        state.for_each_metric(&mut |found, label, value| {
            if found == metric {
                let mut attributes = vec![(LIMITER.to_owned(), &**name)];
                attributes.extend(label.map(|(key, text)| (format!("leaparray.{key}"), text)));
                take(&attributes, value);
            }
        });
    }
}

/// Splits a name such as `GET /orders/{id}`; `None` if it is not a method and a path. `_OTHER` is
/// the convention's name for every method outside its list.
fn method_and_route(name: &str) -> Option<(&str, &str)> {
    const METHODS: [&str; 11] = [
        "GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "QUERY", "OPTIONS", "CONNECT", "TRACE",
        "_OTHER",
    ];
    let (method, route) = name.split_once(' ')?;
    (METHODS.contains(&method) && route.starts_with('/')).then_some((method, route))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_splits_into_method_and_path() {
        for (name, expected) in [
            ("GET /orders/{id}", Some(("GET", "/orders/{id}"))),
            ("QUERY /orders", Some(("QUERY", "/orders"))),
            ("_OTHER /a b", Some(("_OTHER", "/a b"))),
            ("GET orders", None),
            ("get /orders", None),
            ("shop.Orders/Place", None),
            ("/orders", None),
        ] {
            assert_eq!(method_and_route(name), expected, "{name}");
        }
    }
}
