//! Between the messages of the protocol and plain types.

use envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use envoy_types::pb::envoy::service::rate_limit_quota::v3 as quota_pb;
use envoy_types::pb::envoy::service::ratelimit::v3 as pb;
use envoy_types::pb::envoy::r#type::v3 as type_pb;
use envoy_types::pb::google::protobuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use quota_pb::rate_limit_quota_response::BucketAction;
use quota_pb::rate_limit_quota_response::bucket_action::{
    AbandonAction, BucketAction as Kind, QuotaAssignmentAction,
};
use type_pb::rate_limit_strategy::{BlanketRule, Strategy as StrategyKind};

use crate::config::Unit;
use crate::quota::{Action, BucketId, Strategy, Usage};
use crate::service::{Code, Descriptor, LimitOverride, Quota, Request, Status};

/// Converts a request. The texts move.
///
/// # Errors
///
/// Returns what is wrong with it.
pub(super) fn request(message: pb::RateLimitRequest) -> Result<Request, String> {
    let pb::RateLimitRequest { domain, descriptors, hits_addend } = message;
    if domain.is_empty() {
        return Err("the request has no domain".to_owned());
    }
    if descriptors.is_empty() {
        return Err("the request has no descriptors".to_owned());
    }
    let descriptors = descriptors.into_iter().map(descriptor).collect::<Result<_, _>>()?;
    Ok(Request { domain, descriptors, hits: hits_addend })
}

fn descriptor(message: RateLimitDescriptor) -> Result<Descriptor, String> {
    let RateLimitDescriptor { entries, limit, hits_addend, is_negative_hits } = message;
    let limit = limit.map(|it| {
        let unit = Unit::from_number(it.unit);
        let unit = unit.ok_or_else(|| format!("unit {} of a limit is not known", it.unit))?;
        Ok::<_, String>(LimitOverride { requests_per_unit: it.requests_per_unit, unit })
    });
    // Charges stay: to give back requests that were admitted would exceed the limit.
    let hits = if is_negative_hits { Some(0) } else { hits_addend.map(|it| it.value) };
    let entries = entries.into_iter().map(|it| (it.key, it.value)).collect();
    Ok(Descriptor { entries, limit: limit.transpose()?, hits })
}

/// Converts the status of a descriptor. `decided` is a time at or before the one of the decision.
pub(super) fn status(
    status: &Status,
    decided: SystemTime,
) -> pb::rate_limit_response::DescriptorStatus {
    use pb::rate_limit_response::{Code as CodeKind, DescriptorStatus, RateLimit};
    let code = match status.code {
        Code::Ok => CodeKind::Ok,
        Code::OverLimit => CodeKind::OverLimit,
    };
    let limit = status.limit.as_ref().map(|it| RateLimit {
        name: it.name.as_deref().unwrap_or_default().to_owned(),
        requests_per_unit: it.requests_per_unit,
        unit: it.unit.number(),
    });
    DescriptorStatus {
        code: code.into(),
        current_limit: limit,
        limit_remaining: u32::try_from(status.remaining).unwrap_or(u32::MAX),
        duration_until_reset: status.until_reset.map(duration),
        quota: status.quota.as_ref().map(|it| quota(it, decided)),
    }
}

fn quota(quota: &Quota, decided: SystemTime) -> pb::rate_limit_response::Quota {
    use pb::rate_limit_response::quota::ExpirationSpecifier;
    let until = decided + quota.valid_for;
    let until = until.duration_since(UNIX_EPOCH).unwrap_or_default();
    let protobuf::Duration { seconds, nanos } = duration(until);
    let until = ExpirationSpecifier::ValidUntil(protobuf::Timestamp { seconds, nanos });
    pb::rate_limit_response::Quota {
        requests: quota.requests,
        id: String::new(),
        expiration_specifier: Some(until),
    }
}

pub(super) fn duration(time: Duration) -> protobuf::Duration {
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    protobuf::Duration { seconds, nanos: i32::try_from(time.subsec_nanos()).unwrap_or(0) }
}

/// Converts the usages of a report.
pub(super) fn usages(
    usages: Vec<quota_pb::rate_limit_quota_usage_reports::BucketQuotaUsage>,
) -> impl Iterator<Item = Usage> {
    usages.into_iter().map(|it| Usage {
        bucket: BucketId::new(it.bucket_id.unwrap_or_default().bucket),
        allowed: it.num_requests_allowed,
        denied: it.num_requests_denied,
    })
}

/// Converts an action.
pub(super) fn action(action: Action) -> BucketAction {
    let (bucket, kind) = match action {
        Action::Assign { bucket, strategy, ttl } => {
            let strategy = type_pb::RateLimitStrategy { strategy: Some(strategy_kind(strategy)) };
            let action = QuotaAssignmentAction {
                assignment_time_to_live: Some(duration(ttl)),
                rate_limit_strategy: Some(strategy),
            };
            (bucket, Kind::QuotaAssignmentAction(action))
        }
        Action::Abandon { bucket } => (bucket, Kind::AbandonAction(AbandonAction {})),
    };
    let bucket = bucket.entries().iter().cloned().collect();
    BucketAction { bucket_id: Some(quota_pb::BucketId { bucket }), bucket_action: Some(kind) }
}

fn strategy_kind(strategy: Strategy) -> StrategyKind {
    match strategy {
        Strategy::AllowAll => StrategyKind::BlanketRule(BlanketRule::AllowAll.into()),
        Strategy::DenyAll => StrategyKind::BlanketRule(BlanketRule::DenyAll.into()),
        Strategy::TokenBucket { max_tokens, tokens_per_fill, fill_interval } => {
            StrategyKind::TokenBucket(type_pb::TokenBucket {
                max_tokens,
                tokens_per_fill: Some(protobuf::UInt32Value { value: tokens_per_fill }),
                fill_interval: Some(duration(fill_interval)),
            })
        }
    }
}
