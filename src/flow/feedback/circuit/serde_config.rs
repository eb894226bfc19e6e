//! The serialized form of the configuration of a circuit breaker.

use std::fmt;
use std::time::Duration;

use serde::de::{self, Deserialize, Deserializer, Error as _, MapAccess, Unexpected, Visitor};
use serde::ser::{Serialize, SerializeStruct, Serializer};

use super::config::{Calls, CircuitConfig, SlowLimit};
use super::ratio::RatioLimit;
use super::wait::Wait;
use crate::flow::feedback::circuit::CircuitConfigError;
use crate::node::OnDrop;
use crate::time::{WindowConfig, serde_duration};

/// A limit of a share; TOML has no null, so that no limit has a name.
///
/// In a format for people, it is a field such as `{ at_least = 0.5 }`, and not an enum, which each
/// format writes in a way of its own: `!at_least 0.5` in YAML, and `at_least(0.5)` in RON.
#[derive(Clone, Copy)]
enum RatioForm {
    AtLeast(f64),
    Above(f64),
    None,
}

const AT_LEAST: &str = "at_least";
const ABOVE: &str = "above";
const NO_RATIO: &str = "none";

/// The form in a binary format.
#[derive(serde::Serialize, serde::Deserialize)]
enum BinaryRatio {
    AtLeast(f64),
    Above(f64),
    None,
}

impl Serialize for RatioForm {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if !to.is_human_readable() {
            return match *self {
                Self::AtLeast(ratio) => BinaryRatio::AtLeast(ratio),
                Self::Above(ratio) => BinaryRatio::Above(ratio),
                Self::None => BinaryRatio::None,
            }
            .serialize(to);
        }
        let (field, ratio) = match self {
            Self::AtLeast(ratio) => (AT_LEAST, ratio),
            Self::Above(ratio) => (ABOVE, ratio),
            Self::None => return to.serialize_str(NO_RATIO),
        };
        let mut form = to.serialize_struct("RatioLimit", 1)?;
        form.serialize_field(field, ratio)?;
        form.end()
    }
}

impl<'de> Deserialize<'de> for RatioForm {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        if from.is_human_readable() {
            return from.deserialize_any(RatioVisitor);
        }
        Ok(match BinaryRatio::deserialize(from)? {
            BinaryRatio::AtLeast(ratio) => Self::AtLeast(ratio),
            BinaryRatio::Above(ratio) => Self::Above(ratio),
            BinaryRatio::None => Self::None,
        })
    }
}

struct RatioVisitor;

impl<'de> Visitor<'de> for RatioVisitor {
    type Value = RatioForm;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a ratio such as { at_least = 0.5 } or { above = 0.5 }, or \"none\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<RatioForm, E> {
        if text == NO_RATIO {
            return Ok(RatioForm::None);
        }
        Err(E::invalid_value(Unexpected::Str(text), &self))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<RatioForm, A::Error> {
        let Some(field) = fields.next_key::<String>()? else {
            return Err(A::Error::invalid_length(0, &self));
        };
        let ratio = match &*field {
            AT_LEAST => RatioForm::AtLeast(fields.next_value()?),
            ABOVE => RatioForm::Above(fields.next_value()?),
            _ => return Err(A::Error::unknown_field(&field, &[AT_LEAST, ABOVE])),
        };
        match fields.next_key::<String>()? {
            None => Ok(ratio),
            Some(_) => Err(A::Error::invalid_length(2, &self)),
        }
    }
}

impl From<Option<RatioLimit>> for RatioForm {
    fn from(limit: Option<RatioLimit>) -> Self {
        match limit.map(RatioLimit::parts) {
            None => Self::None,
            Some((ratio, false)) => Self::AtLeast(ratio),
            Some((ratio, true)) => Self::Above(ratio),
        }
    }
}

impl TryFrom<RatioForm> for Option<RatioLimit> {
    type Error = CircuitConfigError;

    fn try_from(form: RatioForm) -> Result<Self, CircuitConfigError> {
        match form {
            RatioForm::None => Ok(None),
            RatioForm::AtLeast(ratio) => RatioLimit::at_least(ratio).map(Some),
            RatioForm::Above(ratio) => RatioLimit::above(ratio).map(Some),
        }
    }
}

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields, expecting = "a limit with `ratio` and `slow_above`")]
struct SlowForm {
    ratio: RatioForm,
    #[serde(with = "serde_duration")]
    slow_above: Duration,
}

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(
    default,
    deny_unknown_fields,
    expecting = "a wait with `first`, `factor`, `max` and `jitter`"
)]
struct WaitForm {
    #[serde(with = "serde_duration")]
    first: Duration,
    factor: f64,
    /// `None` if the wait does not grow.
    max: Option<DurationForm>,
    jitter: f64,
}

#[derive(Clone, Copy, serde::Serialize, serde::Deserialize)]
struct DurationForm(#[serde(with = "serde_duration")] Duration);

impl From<Wait> for WaitForm {
    fn from(wait: Wait) -> Self {
        let Wait { first, factor, max, jitter } = wait;
        let grows = factor > 1.0 || max != first;
        let max = grows.then_some(DurationForm(max));
        Self { first, factor, max, jitter }
    }
}

impl Default for WaitForm {
    fn default() -> Self {
        CircuitConfig::default().wait.into()
    }
}

impl TryFrom<WaitForm> for Wait {
    type Error = CircuitConfigError;

    fn try_from(form: WaitForm) -> Result<Self, CircuitConfigError> {
        let WaitForm { first, factor, max, jitter } = form;
        let max = match max {
            Some(max) => max.0,
            None if factor > 1.0 => return Err(CircuitConfigError::NoMaxWait { factor }),
            None => first,
        };
        Self::new(first).growing(factor, max)?.with_jitter(jitter)
    }
}

/// The time-out of a half-open breaker.
#[derive(Clone, Copy)]
struct TimeoutForm(Option<Duration>);

const NO_TIMEOUT: &str = "none";

impl Serialize for TimeoutForm {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            None => to.serialize_str(NO_TIMEOUT),
            Some(timeout) => serde_duration::serialize(timeout, to),
        }
    }
}

impl<'de> Deserialize<'de> for TimeoutForm {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        if text == NO_TIMEOUT {
            return Ok(Self(None));
        }
        serde_duration::deserialize(de::value::StringDeserializer::new(text))
            .map(|timeout| Self(Some(timeout)))
    }
}

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "the settings of a circuit breaker")]
struct CircuitForm {
    window: Option<WindowConfig>,
    last_calls: Option<u32>,
    min_calls: u64,
    exception_ratio: RatioForm,
    slow: Option<SlowForm>,
    exceptions: Option<u64>,
    consecutive_exceptions: Option<u64>,
    wait: WaitForm,
    probes: u16,
    half_open_timeout: TimeoutForm,
    on_drop: OnDrop,
}

impl From<CircuitConfig> for CircuitForm {
    fn from(config: CircuitConfig) -> Self {
        let CircuitConfig {
            calls,
            min_calls,
            exception_ratio,
            slow,
            exceptions,
            consecutive_exceptions,
            wait,
            probes,
            half_open_timeout,
            on_drop,
        } = config;
        let (window, last_calls) = match calls {
            Calls::InWindow(window) => (Some(window), None),
            Calls::Last(calls) => (None, Some(calls)),
        };
        let slow = slow.map(|SlowLimit { ratio, above }| SlowForm {
            ratio: Some(ratio).into(),
            slow_above: Duration::from_nanos(above),
        });
        Self {
            window,
            last_calls,
            min_calls,
            exception_ratio: exception_ratio.into(),
            slow,
            exceptions,
            consecutive_exceptions,
            wait: wait.into(),
            probes,
            half_open_timeout: TimeoutForm(half_open_timeout),
            on_drop,
        }
    }
}

#[expect(clippy::derivable_impls, reason = "the defaults are not those of the types of the fields")]
impl Default for CircuitForm {
    fn default() -> Self {
        // The default window is not a choice of the file, which may have `last_calls`.
        Self { window: None, ..CircuitConfig::default().into() }
    }
}

impl TryFrom<CircuitForm> for CircuitConfig {
    type Error = CircuitConfigError;

    fn try_from(form: CircuitForm) -> Result<Self, CircuitConfigError> {
        let mut config = Self {
            exception_ratio: form.exception_ratio.try_into()?,
            exceptions: form.exceptions,
            consecutive_exceptions: form.consecutive_exceptions,
            ..Self::default()
        };
        config = match (form.window, form.last_calls) {
            (Some(_), Some(calls)) => return Err(CircuitConfigError::WindowAndCalls { calls }),
            (Some(window), None) => config.window(window)?,
            (None, Some(calls)) => config.last_calls(calls)?,
            (None, None) => config,
        };
        if let Some(SlowForm { ratio, slow_above }) = form.slow
            && let Some(ratio) = ratio.try_into()?
        {
            config = config.slow_ratio(ratio, slow_above);
        }
        let config = config.min_calls(form.min_calls).wait(form.wait.try_into()?);
        let config = config.probes(form.probes)?.on_drop(form.on_drop);
        config.half_open_timeout(form.half_open_timeout.0)
    }
}

impl Serialize for CircuitConfig {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        CircuitForm::from(*self).serialize(to)
    }
}

impl<'de> Deserialize<'de> for CircuitConfig {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        CircuitForm::deserialize(from)?.try_into().map_err(D::Error::custom)
    }
}
