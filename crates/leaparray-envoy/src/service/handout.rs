//! Quotas of RLS: hits that a caller may decide on by itself.
//!
//! The hits of a quota are charged in one bucket of the window when it is handed out, and it is
//! valid until that bucket ends. A window is the sum of whole buckets, so it cannot tell whether a
//! hit was used when it was charged or later in the bucket: the limit holds as it does for hits
//! that are asked for one by one. A quota that is valid for longer would need charges in each
//! bucket of its life.

use std::time::Duration;

use leaparray::flow::{Account, Ask, Limiter};
use leaparray::{Clock, Timestamp};
use smallvec::SmallVec;

use super::asked::Asked;
use super::decision::Quota;

/// Hands out and charges the quotas of a request that is admitted: one for each descriptor, or none
/// at all, since a caller without a quota for one of them asks in any case.
#[inline]
pub(super) fn hand_out<C: Clock>(asked: &mut [Asked<'_, C>], skew: Duration, now: Timestamp) {
    let may_have = |one: &Asked<'_, C>| one.has_quotas() && one.is_taken && one.hits == 1;
    if asked.iter().all(may_have) {
        charge(asked, skew, now);
    }
}

#[cold]
fn charge<C: Clock>(asked: &mut [Asked<'_, C>], skew: Duration, now: Timestamp) {
    let quotas: Option<SmallVec<[Quota; 2]>> =
        asked.iter().map(|one| quota(one, skew, now)).collect();
    let Some(quotas) = quotas else { return };
    for (index, (one, quota)) in asked.iter().zip(&quotas).enumerate() {
        if !take(one, quota, now) {
            let taken = asked.iter().zip(&quotas).take(index);
            taken.for_each(|(one, quota)| give_back(one, quota, now));
            return;
        }
    }
    for (one, quota) in asked.iter_mut().zip(quotas) {
        one.hits = quota.requests.into();
        one.quota = Some(quota);
    }
}

/// Returns the quota of a descriptor; `None` if so little time is left that it would have less than
/// one request beside the one that was asked for.
fn quota<C: Clock>(one: &Asked<'_, C>, skew: Duration, now: Timestamp) -> Option<Quota> {
    let per_bucket = one.rule?.requests_per_quota?;
    let config = one.window()?.config();
    let valid_for = config.bucket_end(now).saturating_since(now).checked_sub(skew)?;
    let requests = u128::from(per_bucket) * valid_for.as_nanos() / config.bucket_len().as_nanos();
    let requests = u32::try_from(requests).ok().filter(|requests| *requests >= 2)?;
    Some(Quota { requests, valid_for })
}

/// Charges the hits of a quota beside the one that was asked for.
fn take<C: Clock>(one: &Asked<'_, C>, quota: &Quota, now: Timestamp) -> bool {
    let ask = Ask::at(now).many(u64::from(quota.requests) - 1);
    one.window().is_some_and(|window| window.decide(&ask).is_admitted())
}

fn give_back<C: Clock>(one: &Asked<'_, C>, quota: &Quota, now: Timestamp) {
    let ask = Ask::at(now).many(u64::from(quota.requests) - 1);
    let _: Option<bool> = one.window().map(|window| window.refund(&ask, Duration::ZERO));
}
