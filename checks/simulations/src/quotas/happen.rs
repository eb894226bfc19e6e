//! What happens to the clients, the instances and the limit.

use std::collections::VecDeque;
use std::time::Duration;

use leaparray::Timestamp;
use leaparray_envoy::quota::StreamId;

use super::client::{Bucket, Client};
use super::run::Run;
use super::store::Store;
use super::{Faults, Load};

/// The most clients.
const MOST: usize = 12;

impl Run<'_> {
    /// Whether a fault comes in this step.
    fn comes(&mut self, rate: f64) -> bool {
        rate > 0.0 && self.random.f64() < rate * crate::fleet::float(self.scenario.step) / 1e3
    }

    fn any(&mut self) -> Option<usize> {
        (!self.clients.is_empty()).then(|| self.random.usize(..self.clients.len()))
    }

    pub(super) fn happen(&mut self) {
        let faults = self.faults;
        if self.comes(faults.joins) && self.clients.len() < MOST {
            let load = self.load();
            self.join(load);
        }
        if self.comes(faults.breaks)
            && let Some(client) = self.any()
        {
            self.disconnect(client);
        }
        if self.comes(faults.leaves)
            && let Some(client) = self.any()
        {
            self.disconnect(client);
            self.clients.swap_remove(client);
        }
        if self.comes(faults.silent)
            && let Some(client) = self.any()
        {
            let until = Duration::from_millis(self.random.u64(..10_000));
            self.clients[client].silent_until = self.now.saturating_add(until);
        }
        if self.comes(faults.changes)
            && let Some(client) = self.any()
        {
            self.clients[client].load = self.load();
        }
        if self.comes(faults.limits) {
            let limit = self.random.u32(0..=2 * self.scenario.limit + 1);
            self.set_limit(self.limit.map(|_| limit), self.window);
        }
        if self.comes(faults.windows) {
            let limit = self.random.bool().then_some(self.scenario.limit);
            let window = self.random.u64(1..=2 * self.scenario.window);
            self.set_limit(limit, window);
        }
        if self.comes(faults.away) {
            let number = self.random.usize(..self.instances.len());
            let until = Duration::from_millis(self.random.u64(..15_000));
            self.instances[number].away_until = self.now.saturating_add(until);
        }
        if self.scenario.instances > 1 && self.comes(faults.restarts) {
            let number = self.random.usize(..self.instances.len());
            self.restart(number);
        }
    }

    fn load(&mut self) -> Load {
        let steps = self.window * 1_000 / self.scenario.step;
        Load::random(&mut self.random, self.scenario.limit, steps)
    }

    pub(super) fn join(&mut self, load: Load) {
        let client = Client {
            instance: self.random.usize(..self.instances.len()),
            stream: None,
            load,
            buckets: vec![Bucket::default(); self.scenario.buckets],
            on_way: VecDeque::new(),
            is_broken: false,
            silent_until: self.now,
            phase: self.random.u64(..self.scenario.reports),
        };
        self.clients.push(client);
    }

    pub(super) fn set_limit(&mut self, limit: Option<u32>, window: u64) {
        let (old, old_window) = (self.limit, self.window);
        (self.limit, self.window) = (limit, window);
        for instance in &mut self.instances {
            instance.quotas.reload(&|_, _| Self::limit_of(limit, window));
        }
        let lasts = self.steps(self.scenario.lasts() + Duration::from_secs(window));
        for audit in &mut self.audits {
            match (old, limit) {
                (Some(old), Some(_)) if old_window == window => {
                    audit.before.push((self.step, old.into()));
                }
                (None, None) => {}
                _ => audit.begin(self.step + lasts + 1),
            }
        }
        if old_window != window {
            // They have shares of another limit, in keys of the store of their own.
            self.stores = vec![Store::default(); self.stores.len()];
        }
    }

    /// Ends a stream. What is on its way may arrive, up to some message. The client keeps what it
    /// has.
    pub(super) fn disconnect(&mut self, client: usize) {
        let it = &mut self.clients[client];
        let arrive = self.random.usize(..=it.on_way.len());
        it.on_way.truncate(arrive);
        it.is_broken = false;
        if self.random.bool() {
            // It does not come back at once.
            let after = Duration::from_millis(self.random.u64(..5_000));
            it.silent_until = self.now.saturating_add(after);
        }
        it.buckets.iter_mut().for_each(|it| it.is_subscribed = false);
        let instance = it.instance;
        let Some(stream) = it.stream.take() else { return };
        if self.random.f64() >= self.faults.unnoticed {
            let after = Duration::from_millis(self.random.u64(..3_000));
            self.unnoticed.push((self.now.saturating_add(after), instance, stream));
        } else {
            self.unnoticed.push((Timestamp::from_secs(u64::MAX >> 32), instance, stream));
        }
        self.clients[client].instance = self.random.usize(..self.instances.len());
    }

    pub(super) fn notice(&mut self) {
        let now = self.now;
        let (due, rest) = self.unnoticed.drain(..).partition(|it| it.0 <= now);
        self.unnoticed = rest;
        let due: Vec<_> = due;
        for (_, instance, stream) in due {
            self.close(instance, stream);
        }
    }

    fn close(&mut self, instance: usize, stream: StreamId) {
        let instance = &mut self.instances[instance];
        instance.quotas.close(stream);
        instance.subscribed.retain(|it| it.0 != stream);
    }

    fn restart(&mut self, number: usize) {
        self.instances[number] = self.instance();
        self.unnoticed.retain(|it| it.1 != number);
        for client in 0..self.clients.len() {
            if self.clients[client].instance == number {
                self.disconnect(client);
            }
        }
        self.unnoticed.retain(|it| it.1 != number);
    }

    /// Ends all faults. The first client asks for all that it gets, and the others for nothing.
    pub(super) fn end_faults(&mut self) {
        self.faults = Faults { slow: self.faults.slow.min(0.1), ..Faults::NONE };
        if self.limit != Some(self.scenario.limit) || self.window != self.scenario.window {
            self.set_limit(Some(self.scenario.limit), self.scenario.window);
        }
        for client in &mut self.clients {
            client.load = Load::None;
            client.silent_until = self.now;
        }
        self.join(Load::Steady(u64::MAX));
    }

    pub(super) fn end_clients(&mut self) {
        let clients = std::mem::take(&mut self.clients);
        let streams = clients.iter().filter_map(|it| Some((it.instance, it.stream?)));
        let unnoticed = std::mem::take(&mut self.unnoticed).into_iter().map(|it| (it.1, it.2));
        for (instance, stream) in streams.chain(unnoticed) {
            self.close(instance, stream);
        }
    }
}
