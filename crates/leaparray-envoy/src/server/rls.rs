//! RLS v3.

use std::sync::Arc;
use std::time::SystemTime;

use envoy_types::pb::envoy::config::core::v3::HeaderValue;
use envoy_types::pb::envoy::service::ratelimit::v3 as pb;
use envoy_types::pb::google::protobuf::{Struct, Value, value::Kind};
use tonic::{Request, Response};

use super::convert;
use super::metrics::Counts;
use crate::service::{By, Decision, Service, Status};
use pb::rate_limit_response::Code;

/// The service of RLS. Clones are cheap.
#[derive(Clone, Debug)]
pub(super) struct RateLimits {
    service: Service,
    counts: Arc<Counts>,
    headers: bool,
}

impl RateLimits {
    pub(super) const fn new(service: Service, counts: Arc<Counts>, headers: bool) -> Self {
        Self { service, counts, headers }
    }

    /// Decides on a request.
    ///
    /// # Errors
    ///
    /// Returns what is wrong with the request.
    pub(super) async fn decide(
        &self,
        message: pb::RateLimitRequest,
    ) -> Result<pb::RateLimitResponse, String> {
        let request = convert::request(message).inspect_err(|_| {
            self.counts.invalid.inc();
        })?;
        // Before the time of the decision, so that no quota is valid for longer than it is charged.
        let begun = SystemTime::now();
        let decision = self.service.decide(&request, self.service.now()).await;
        self.counts.count(&decision);
        Ok(response(&decision, self.headers, begun))
    }
}

#[tonic::async_trait]
impl pb::rate_limit_service_server::RateLimitService for RateLimits {
    async fn should_rate_limit(
        &self,
        request: Request<pb::RateLimitRequest>,
    ) -> Result<Response<pb::RateLimitResponse>, tonic::Status> {
        let response = self.decide(request.into_inner()).await;
        response.map(Response::new).map_err(tonic::Status::invalid_argument)
    }
}

fn response(decision: &Decision, headers: bool, begun: SystemTime) -> pb::RateLimitResponse {
    let code = if decision.over { Code::OverLimit } else { Code::Ok };
    let statuses = decision.statuses();
    pb::RateLimitResponse {
        overall_code: code.into(),
        statuses: statuses.iter().map(|it| convert::status(it, begun)).collect(),
        response_headers_to_add: if headers { limit_headers(statuses) } else { Vec::new() },
        dynamic_metadata: fallback(statuses),
        ..Default::default()
    }
}

/// Returns the headers of the descriptor that is nearest to its limit.
fn limit_headers(statuses: &[Status]) -> Vec<HeaderValue> {
    let limited = statuses.iter().filter_map(|it| Some((it, it.limit.as_ref()?)));
    let Some((status, limit)) = limited.min_by_key(|(it, _)| it.remaining) else {
        return Vec::new();
    };
    // Not earlier than the reset.
    let reset = status.until_reset.unwrap_or_default();
    let seconds = reset.as_secs() + u64::from(reset.subsec_nanos() > 0);
    let header = |name: &str, value: u64| HeaderValue {
        key: name.to_owned(),
        value: value.to_string(),
        raw_value: Vec::new(),
    };
    vec![
        header("RateLimit-Limit", limit.requests_per_unit.into()),
        header("RateLimit-Remaining", status.remaining),
        header("RateLimit-Reset", seconds),
    ]
}

/// Returns dynamic metadata that tells if a policy has decided, and not a limit.
fn fallback(statuses: &[Status]) -> Option<Struct> {
    let reason = statuses.iter().find_map(|it| match it.by {
        By::StoreAway => Some("store away"),
        By::NoRoom => Some("no room for a further key"),
        By::TooManyWaiting => Some("too many requests wait for the store"),
        _ => None,
    })?;
    let value = Value { kind: Some(Kind::StringValue(reason.to_owned())) };
    Some(Struct { fields: [("fallback".to_owned(), value)].into() })
}
