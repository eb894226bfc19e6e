//! What the service records: one resource for each route, in one registry.

use std::time::Duration;

use leaparray::{NodeConfig, Registry, RegistryConfig, Resource, WindowConfig};

use crate::route::Route;

/// The last second in ten buckets: the limit sees at least 0.9 s of it, where with two it could be
/// 0.5 s. The last minute is in buckets of the same length.
const GEOMETRY: NodeConfig = {
    let second = WindowConfig::new(10, Duration::from_secs(1));
    let minute = WindowConfig::new(600, Duration::from_secs(60));
    match (second, minute) {
        (Ok(second), Ok(minute)) => match NodeConfig::new(second, minute) {
            Ok(config) => config,
            Err(_) => panic!("100 ms divide both"),
        },
        _ => panic!("100 ms divide both"),
    }
};

/// The metrics of every route, on one timeline.
pub(crate) struct Metrics {
    pub(crate) registry: Registry,
    /// Looked up once: after that, a request costs what it costs on the node itself.
    resources: [Resource; Route::COUNT],
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let config = RegistryConfig::default().node(GEOMETRY).max_resources(Route::COUNT);
        let registry = Registry::with_config(config);
        let resources = Route::ALL
            .map(|route| registry.resource(route.path()).expect("there is a place for each"));
        Self { registry, resources }
    }

    pub(crate) fn of(&self, route: Route) -> &Resource {
        &self.resources[route as usize]
    }
}
