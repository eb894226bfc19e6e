//! HTTP: requests as JSON, health, metrics, and the live page.

use std::sync::Arc;

use axum::extract::rejection::JsonRejection;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use envoy_types::pb::envoy::extensions::common::ratelimit::v3 as common;
use envoy_types::pb::envoy::service::ratelimit::v3 as pb;
use envoy_types::pb::google::protobuf;
use leaparray_prometheus::Exposition;
use leaparray_web::{Access, Page};
use pb::rate_limit_response::quota::ExpirationSpecifier;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::bounds::Bounds;
use super::rls::RateLimits;
use crate::config::Unit;

pub(super) fn router(
    limits: RateLimits,
    bounds: Bounds,
    metrics: Exposition,
    page: Option<Access>,
    registry: Arc<leaparray::Registry>,
    mut stopped: watch::Receiver<bool>,
) -> Router {
    let health = {
        let stopped = stopped.clone();
        move || {
            let is_stopping = *stopped.borrow();
            let status = if is_stopping { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
            async move { (status, if is_stopping { "stopping" } else { "OK" }) }
        }
    };
    let app = Router::new()
        .route("/json", post(json).layer(DefaultBodyLimit::max(bounds.max_request)))
        .with_state(limits)
        .route("/healthcheck", get(health))
        .route("/metrics", get(async move |headers: HeaderMap| metrics.respond(&headers)));
    let Some(access) = page else { return app };
    let page = Page::new(registry, access).name("leaparray-envoy");
    let closer = page.closer();
    tokio::spawn(async move {
        let _ = stopped.wait_for(|it| *it).await;
        closer.close();
    });
    app.nest_service("/leaparray", page.into_service())
}

/// Answers a `RateLimitRequest` in the JSON of protocol buffers with a `RateLimitResponse`: 200, or
/// 429 if it is over a limit.
async fn json(
    State(limits): State<RateLimits>,
    request: Result<Json<RateLimitRequest>, JsonRejection>,
) -> Response {
    let request = match request {
        Ok(Json(request)) => request,
        Err(error) => return (error.status(), error.body_text()).into_response(),
    };
    let decision = match request.into_message() {
        Ok(message) => limits.decide(message).await,
        Err(error) => Err(error),
    };
    match decision {
        Ok(response) => {
            let is_over = response.overall_code() == pb::rate_limit_response::Code::OverLimit;
            let status = if is_over { StatusCode::TOO_MANY_REQUESTS } else { StatusCode::OK };
            (status, Json(RateLimitResponse::new(response))).into_response()
        }
        Err(error) => (StatusCode::BAD_REQUEST, error).into_response(),
    }
}

// The JSON of protocol buffers: names in camel case, or as in the protocol; numbers of 64 bits also
// as texts.

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RateLimitRequest {
    #[serde(default)]
    domain: String,
    #[serde(default)]
    descriptors: Vec<Descriptor>,
    #[serde(default, alias = "hits_addend")]
    hits_addend: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Descriptor {
    #[serde(default)]
    entries: Vec<Entry>,
    limit: Option<Limit>,
    #[serde(alias = "hits_addend")]
    hits_addend: Option<Number>,
    #[serde(default, alias = "is_negative_hits")]
    is_negative_hits: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    #[serde(default)]
    key: String,
    #[serde(default)]
    value: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Limit {
    #[serde(default, alias = "requests_per_unit")]
    requests_per_unit: u32,
    #[serde(default)]
    unit: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Number {
    Number(u64),
    Text(String),
}

impl RateLimitRequest {
    fn into_message(self) -> Result<pb::RateLimitRequest, String> {
        let descriptors = self.descriptors.into_iter().map(Descriptor::into_message);
        let descriptors = descriptors.collect::<Result<_, _>>()?;
        let Self { domain, hits_addend, .. } = self;
        Ok(pb::RateLimitRequest { domain, descriptors, hits_addend })
    }
}

impl Descriptor {
    fn into_message(self) -> Result<common::RateLimitDescriptor, String> {
        use common::rate_limit_descriptor::{Entry as Message, RateLimitOverride};
        let limit = self.limit.map(|it| {
            let unit = Unit::parse(&it.unit).map(Unit::number);
            let unit = unit.ok_or_else(|| format!("unit {:?} of a limit is not known", it.unit))?;
            Ok::<_, String>(RateLimitOverride { requests_per_unit: it.requests_per_unit, unit })
        });
        let hits_addend = self.hits_addend.map(|it| {
            let value = match it {
                Number::Number(number) => number,
                Number::Text(text) => {
                    text.parse().map_err(|_| format!("hits_addend {text:?} is no number"))?
                }
            };
            Ok::<_, String>(protobuf::UInt64Value { value })
        });
        let entries = self.entries.into_iter().map(|Entry { key, value }| Message { key, value });
        Ok(common::RateLimitDescriptor {
            entries: entries.collect(),
            limit: limit.transpose()?,
            hits_addend: hits_addend.transpose()?,
            is_negative_hits: self.is_negative_hits,
        })
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RateLimitResponse {
    overall_code: &'static str,
    statuses: Vec<DescriptorStatus>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    response_headers_to_add: Vec<Header>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dynamic_metadata: Option<serde_json::Value>,
}

#[derive(Serialize)]
struct Header {
    key: String,
    value: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DescriptorStatus {
    code: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    current_limit: Option<CurrentLimit>,
    #[serde(skip_serializing_if = "is_zero")]
    limit_remaining: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_until_reset: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    quota: Option<Quota>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Quota {
    requests: u32,
    valid_until: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CurrentLimit {
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
    requests_per_unit: u32,
    unit: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl RateLimitResponse {
    fn new(message: pb::RateLimitResponse) -> Self {
        let headers = message.response_headers_to_add.iter();
        let headers = headers.map(|it| Header { key: it.key.clone(), value: it.value.clone() });
        Self {
            overall_code: message.overall_code().as_str_name(),
            response_headers_to_add: headers.collect(),
            dynamic_metadata: message.dynamic_metadata.map(object),
            statuses: message.statuses.into_iter().map(DescriptorStatus::new).collect(),
        }
    }
}

impl DescriptorStatus {
    fn new(status: pb::rate_limit_response::DescriptorStatus) -> Self {
        let code = status.code().as_str_name();
        let limit = status.current_limit.map(|it| CurrentLimit {
            unit: it.unit().as_str_name().to_owned(),
            name: it.name,
            requests_per_unit: it.requests_per_unit,
        });
        let reset = status.duration_until_reset.map(|it| match it.nanos {
            0 => format!("{}s", it.seconds),
            nanos => format!("{}.{nanos:09}s", it.seconds),
        });
        let quota = status.quota.map(|it| {
            let Some(ExpirationSpecifier::ValidUntil(until)) = it.expiration_specifier else {
                return Quota { requests: it.requests, valid_until: String::new() };
            };
            let until = prost_types::Timestamp { seconds: until.seconds, nanos: until.nanos };
            Quota { requests: it.requests, valid_until: until.to_string() }
        });
        let limit_remaining = status.limit_remaining;
        Self { code, current_limit: limit, limit_remaining, duration_until_reset: reset, quota }
    }
}

fn object(fields: protobuf::Struct) -> serde_json::Value {
    let fields = fields.fields.into_iter().map(|(name, it)| (name, value(it)));
    serde_json::Value::Object(fields.collect())
}

fn value(message: protobuf::Value) -> serde_json::Value {
    use protobuf::value::Kind;
    match message.kind {
        None | Some(Kind::NullValue(_)) => serde_json::Value::Null,
        Some(Kind::NumberValue(number)) => number.into(),
        Some(Kind::StringValue(text)) => text.into(),
        Some(Kind::BoolValue(truth)) => truth.into(),
        Some(Kind::StructValue(fields)) => object(fields),
        Some(Kind::ListValue(list)) => list.values.into_iter().map(value).collect(),
    }
}
