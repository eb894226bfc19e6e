//! The identity of a series.

use crate::registry::TrafficType;
use crate::sync::Name;

/// The identity of a series: what a resource, or a context of one, keeps when it is evicted or
/// removed and listed again. Ordered by the name, then by the context, without one first.
///
/// ```
/// use leaparray::{Registry, TrafficType};
/// use leaparray::registry::SeriesKey;
///
/// let registry = Registry::new();
/// let web = registry.resource("orders")?.in_context("web")?;
/// let key = SeriesKey::new("orders", Some("web"), TrafficType::Inbound);
/// assert_eq!(web.series_key(), key);
/// registry.remove("orders");
/// assert_eq!(registry.resource("orders")?.in_context("web")?.series_key(), key);
/// # Ok::<_, leaparray::registry::RegistryError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct SeriesKey {
    /// The name of the resource.
    pub name: Name,
    /// The name of the context; `None` for the requests without a context.
    pub context: Option<Name>,
    /// The direction of the resource.
    pub traffic_type: TrafficType,
}

impl SeriesKey {
    /// Creates the identity of a resource, or of one of its contexts.
    #[must_use]
    pub fn new(
        name: impl Into<Name>,
        context: Option<impl Into<Name>>,
        traffic_type: TrafficType,
    ) -> Self {
        Self { name: name.into(), context: context.map(Into::into), traffic_type }
    }
}
