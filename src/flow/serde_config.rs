//! The serialized forms of the configurations of controllers.

use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error as _};
use serde::ser::{Serialize, Serializer};

use crate::flow::contract::Rate;
use crate::flow::feedback::breaker::{AdaptiveBreakerConfig, AdaptiveBreakerConfigError};
use crate::flow::limiters::WarmUpConfig;
use crate::node::OnDrop;
use crate::time::{WindowConfig, serde_duration};

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields, expecting = "a rate such as { permits = 100, per = \"1s\" }")]
struct RateForm {
    permits: u64,
    #[serde(with = "serde_duration")]
    per: Duration,
}

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let per = Duration::from_nanos(self.nanos.value());
        RateForm { permits: self.permits.value(), per }.serialize(to)
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let RateForm { permits, per } = RateForm::deserialize(from)?;
        Self::new(permits, per).map_err(D::Error::custom)
    }
}

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a warm-up with `period` and `cold_factor`")]
struct WarmUpForm {
    #[serde(with = "serde_duration")]
    period: Duration,
    cold_factor: f64,
}

impl From<WarmUpConfig> for WarmUpForm {
    fn from(config: WarmUpConfig) -> Self {
        Self { period: config.period(), cold_factor: config.cold_factor() }
    }
}

impl Default for WarmUpForm {
    fn default() -> Self {
        WarmUpConfig::default().into()
    }
}

impl Serialize for WarmUpConfig {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        WarmUpForm::from(*self).serialize(to)
    }
}

impl<'de> Deserialize<'de> for WarmUpConfig {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let WarmUpForm { period, cold_factor } = WarmUpForm::deserialize(from)?;
        Self::new(period, cold_factor).map_err(D::Error::custom)
    }
}

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(
    default,
    deny_unknown_fields,
    expecting = "a breaker with `window`, `k`, `min_requests`, `probe_interval`, `recovery` and `on_drop`"
)]
struct BreakerForm {
    window: WindowConfig,
    k: f64,
    min_requests: u64,
    #[serde(with = "serde_duration")]
    probe_interval: Duration,
    #[serde(with = "serde_duration")]
    recovery: Duration,
    on_drop: OnDrop,
}

impl From<AdaptiveBreakerConfig> for BreakerForm {
    fn from(config: AdaptiveBreakerConfig) -> Self {
        let AdaptiveBreakerConfig { window, k, min_requests, probe_interval, recovery, on_drop } =
            config;
        Self { window, k, min_requests, probe_interval, recovery, on_drop }
    }
}

impl Default for BreakerForm {
    fn default() -> Self {
        AdaptiveBreakerConfig::default().into()
    }
}

impl TryFrom<BreakerForm> for AdaptiveBreakerConfig {
    type Error = AdaptiveBreakerConfigError;

    fn try_from(form: BreakerForm) -> Result<Self, AdaptiveBreakerConfigError> {
        let BreakerForm { window, k, min_requests, probe_interval, recovery, on_drop } = form;
        let config = Self::default().window(window).min_requests(min_requests).on_drop(on_drop);
        config.k(k)?.probe_interval(probe_interval)?.recovery(recovery)
    }
}

impl Serialize for AdaptiveBreakerConfig {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        BreakerForm::from(*self).serialize(to)
    }
}

impl<'de> Deserialize<'de> for AdaptiveBreakerConfig {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        BreakerForm::deserialize(from)?.try_into().map_err(D::Error::custom)
    }
}
