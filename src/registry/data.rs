//! The data that lives with a resource or a context.

use std::any::Any;
use std::convert::Infallible;

use super::Resource;

impl<C> Resource<C> {
    /// Returns the value of the type `T` that lives with this resource; `None` if there is none.
    ///
    /// See [`data_or_insert_with`](Self::data_or_insert_with), which inserts the value. This call
    /// never waits: while another thread makes the value, it returns `None`. The values are
    /// searched one after the other, so a resource should have values of few types.
    ///
    /// ```
    /// use leaparray::Registry;
    ///
    /// struct Owner(&'static str);
    ///
    /// let registry = Registry::new();
    /// let orders = registry.resource("GET /orders")?;
    /// assert!(orders.data::<Owner>().is_none());
    /// orders.data_or_insert_with(|| Owner("shop"));
    /// assert_eq!(orders.data().map(|&Owner(name)| name), Some("shop"));
    /// # Ok::<_, leaparray::registry::RegistryError>(())
    /// ```
    #[must_use]
    pub fn data<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.type_map().get()
    }

    /// Returns the value of the type `T` that lives with this resource. If there is none, inserts
    /// the result of `make`.
    ///
    /// A resource has at most one value of each type, such as a limiter, a breaker, or a setting. A
    /// value is never replaced: to change it later, insert a type that can be changed by a shared
    /// reference. For two values of one type, define a type for each. A geometry that is
    /// [changed](crate::Registry::reconfigure) leaves the values as they are.
    ///
    /// A handle [to a context](Self::in_context) has the values of the context, as it has the node
    /// of the context. The values of the resource itself belong to the handles [without a
    /// context](Self::without_context).
    ///
    /// `make` is called once for each type, however many threads race: the other callers wait until
    /// the thread that makes the value has made it. The drop of a value may call the registry,
    /// which holds no lock then. It should not panic: the panic would reach an unrelated call, and
    /// values that are freed with it would leak. A call for a value that exists does not wait, and
    /// neither does a call for a value of another type.
    ///
    /// A value is dropped after the resource was [evicted](crate::Registry::evict_idle_at) or
    /// [removed](crate::Registry::remove), and after its last handle was dropped. A resource that
    /// is listed again under the same name begins without values. The registry frees resources in
    /// batches: the value may be dropped later, at the latest with the registry, and by any thread
    /// that uses the registry. A value that has a handle to its own resource prevents the eviction,
    /// and is never dropped.
    ///
    /// An eviction looks at what was recorded in the nodes, and not at the values. A limiter that
    /// is evicted and made anew has forgotten its requests, so evict resources that have been idle
    /// for at least as long as their limiters remember: the interval of a window, or the time in
    /// which a bucket fills up.
    ///
    /// # Panics
    ///
    /// Panics if `make` panics. There is then no value, and the next call makes one. If `make`
    /// calls this for the same type of the same resource, it waits for ever, and so do two threads
    /// whose `make`s ask for each other's values.
    ///
    /// ```
    /// use leaparray::flow::{LimiterExt, Rate, TokenBucket};
    /// use leaparray::{ManualClock, Registry, RegistryConfig, Timestamp};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new(Timestamp::from_secs(60));
    /// let registry = Registry::with_clock(RegistryConfig::default(), clock.clone());
    /// let rate = Rate::new(10, Duration::from_secs(1))?;
    /// let is_admitted = |name: &str| {
    ///     let resource = registry.resource(name)?;
    ///     let bucket = || TokenBucket::with_clock(rate, 1, clock.clone());
    ///     let bucket = resource.data_or_insert_with(bucket);
    ///     Ok::<_, leaparray::registry::RegistryError>(bucket.try_acquire().is_admitted())
    /// };
    /// assert!(is_admitted("GET /orders")?);
    /// assert!(!is_admitted("GET /orders")?, "the same bucket");
    /// assert!(is_admitted("GET /users")?, "another bucket");
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn data_or_insert_with<T: Any + Send + Sync>(&self, make: impl FnOnce() -> T) -> &T {
        let result = self.data_or_try_insert_with(|| Ok::<_, Infallible>(make()));
        result.unwrap_or_else(|never| match never {})
    }

    /// Like [`data_or_insert_with`](Self::data_or_insert_with), for a value that cannot always be
    /// made. If `make` returns an error, there is no value, and the next call makes one.
    ///
    /// # Errors
    ///
    /// Returns the error of `make`.
    ///
    /// # Panics
    ///
    /// As for [`data_or_insert_with`](Self::data_or_insert_with).
    ///
    /// ```
    /// use leaparray::Registry;
    /// use leaparray::flow::{LimitError, LimiterExt, SlidingWindowLimiter};
    ///
    /// let registry = Registry::new();
    /// let orders = registry.resource("GET /orders")?;
    /// let second = *orders.config().short();
    /// let limiter = |limit| {
    ///     orders.data_or_try_insert_with(|| SlidingWindowLimiter::of_buckets(second, limit))
    /// };
    /// assert!(matches!(limiter(u64::MAX), Err(LimitError::TooHigh { .. })));
    /// limiter(100)?.try_enter(&*orders)?.success();
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn data_or_try_insert_with<T: Any + Send + Sync, E>(
        &self,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<&T, E> {
        self.type_map().get_or_try_insert_with(make)
    }
}
