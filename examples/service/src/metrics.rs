//! The metrics of the service: one resource for each route, in one registry.

use std::sync::Arc;
use std::time::Duration;

use leaparray::{HistogramConfig, NodeConfig, Registry, RegistryConfig, Resource, WindowConfig};
use leaparray_tower::OTHER;

use crate::route::Route;

/// The last second has ten buckets, so the limit covers at least 0.9 s of it; with two buckets, it
/// would be 0.5 s. The last minute has buckets of the same length.
const GEOMETRY: NodeConfig = {
    let second = WindowConfig::new(10, Duration::from_secs(1));
    let minute = WindowConfig::new(600, Duration::from_secs(60));
    match (second, minute) {
        (Ok(second), Ok(minute)) => match NodeConfig::new(second, minute) {
            Ok(config) => config,
            Err(_) => panic!("100 ms divides both"),
        },
        _ => panic!("100 ms divides both"),
    }
};

/// The metrics of all routes, with one clock.
pub(crate) struct Metrics {
    pub(crate) registry: Arc<Registry>,
    /// Their handles prevent an eviction.
    resources: [Resource; Route::COUNT],
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let config = RegistryConfig::default()
            .node(GEOMETRY.with_histogram(HistogramConfig::default()))
            // One more, for the requests without a route.
            .max_resources(Route::COUNT + 1);
        let registry = Arc::new(Registry::with_config(config));
        let resources = Route::ALL
            .map(|route| registry.resource(route.path()).expect("there is room for each"));
        Self { registry, resources }
    }

    pub(crate) fn of(&self, route: Route) -> &Resource {
        &self.resources[route as usize]
    }

    /// Returns the resources of all routes, and that of the requests without a route.
    pub(crate) fn all(&self) -> impl Iterator<Item = Resource> {
        self.resources.iter().cloned().chain(self.registry.get(OTHER))
    }
}
