//! The settings of a breaker, which change in place.

use std::sync::PoisonError;

use super::config::BreakerConfig;
use super::evidence::Rule;
use crate::flow::feedback::breaker::BreakerConfigError;
use crate::node::{AtomicOnDrop, OnDrop};
use crate::sync::{AtomicU64, Mutex, Ordering};
use crate::time::saturating_nanos;

/// The settings as decisions read them, and as they were set.
///
/// # Orderings
///
/// Decisions load single settings, relaxed. A decision beside a change may use some settings from
/// before the change and some from after it. After a change, the breaker takes a turn of `Chance`,
/// which releases. A thread that computes the probability has acquired that turn and reads the new
/// settings, or its word is replaced.
#[derive(Debug)]
pub(super) struct Settings {
    k_bits: AtomicU64,
    min_requests: AtomicU64,
    recovery_nanos: AtomicU64,
    probe_nanos: AtomicU64,
    on_drop: AtomicOnDrop,
    /// Locked by `set` and `config` only.
    config: Mutex<BreakerConfig>,
}

impl Settings {
    pub(super) fn new(config: BreakerConfig) -> Self {
        Self {
            k_bits: AtomicU64::new(config.k.to_bits()),
            min_requests: AtomicU64::new(config.min_requests),
            recovery_nanos: AtomicU64::new(saturating_nanos(config.recovery)),
            probe_nanos: AtomicU64::new(saturating_nanos(config.probe_interval)),
            on_drop: AtomicOnDrop::new(config.on_drop),
            config: Mutex::new(config),
        }
    }

    /// Replaces all settings, unless the windows differ.
    pub(super) fn set(&self, config: BreakerConfig) -> Result<(), BreakerConfigError> {
        // No code panics under the lock. It is held throughout, so the settings are those of one
        // configuration.
        let mut current = self.config.lock().unwrap_or_else(PoisonError::into_inner);
        if current.window != config.window {
            let (window, asked) = (current.window, config.window);
            return Err(BreakerConfigError::OtherWindow { window, asked });
        }
        self.k_bits.store(config.k.to_bits(), Ordering::Relaxed);
        self.min_requests.store(config.min_requests, Ordering::Relaxed);
        self.recovery_nanos.store(saturating_nanos(config.recovery), Ordering::Relaxed);
        self.probe_nanos.store(saturating_nanos(config.probe_interval), Ordering::Relaxed);
        self.on_drop.set(config.on_drop);
        *current = config;
        Ok(())
    }

    pub(super) fn config(&self) -> BreakerConfig {
        *self.config.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn rule(&self) -> Rule {
        Rule {
            k: f64::from_bits(self.k_bits.load(Ordering::Relaxed)),
            min_requests: self.min_requests.load(Ordering::Relaxed),
            recovery_nanos: self.recovery_nanos.load(Ordering::Relaxed),
        }
    }

    #[inline]
    pub(super) fn probe_nanos(&self) -> u64 {
        self.probe_nanos.load(Ordering::Relaxed)
    }

    pub(super) fn on_drop(&self) -> OnDrop {
        self.on_drop.get()
    }
}
