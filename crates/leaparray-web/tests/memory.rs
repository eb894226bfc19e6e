//! The memory of the hub, over an hour of viewers that come and go.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use leaparray::{
    Clock, HistogramConfig, ManualClock, NodeConfig, Outcome, Registry, RegistryConfig, Timestamp,
};
use leaparray_web::steps::{SteppedViewer, Steps};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

const SECOND: Duration = Duration::from_secs(1);

struct Hour {
    clock: ManualClock,
    registry: Arc<Registry<ManualClock>>,
    steps: Steps<ManualClock>,
    viewers: Vec<Guest>,
    random: Rng,
}

struct Guest {
    viewer: SteppedViewer,
    /// The second in which it leaves.
    until: u64,
    /// Whether it takes its messages.
    is_quick: bool,
}

impl Hour {
    fn new() -> Self {
        let clock = ManualClock::new(Timestamp::from_secs(1_000));
        let node = NodeConfig::default().with_histogram(HistogramConfig::default());
        let config = RegistryConfig::default().node(node);
        let registry = Arc::new(Registry::with_clock(config, clock.clone()));
        let steps = Steps::new(Arc::clone(&registry));
        Self { clock, registry, steps, viewers: Vec::new(), random: Rng::with_seed(1) }
    }

    fn second(&mut self) {
        self.record();
        self.clock.advance(SECOND);
        let now = self.clock.now();
        self.steps.step(now);
        for it in self.viewers.iter().filter(|it| it.is_quick) {
            while matches!(it.viewer.take(), Some(Ok(_))) {}
        }
        self.viewers.retain(|it| it.until > now.as_secs());
        // Ten viewers on average, for a minute each; one of five takes nothing.
        if self.random.u32(..6) == 0 {
            let resource = (self.random.u32(..2) == 0).then_some("resource 7");
            if let Some(viewer) = self.steps.join(resource, None) {
                let until = now.as_secs() + self.random.u64(1..120);
                let is_quick = self.random.u32(..5) > 0;
                self.viewers.push(Guest { viewer, until, is_quick });
            }
        }
    }

    /// Requests to resources that stay, and to one that has a new name in each second and is
    /// evicted later.
    fn record(&mut self) {
        let now = self.clock.now();
        let passing = format!("passing {}", now.as_secs());
        for name in (0..40).map(|it| format!("resource {it}")).chain([passing]) {
            let resource = self.registry.resource(&name).expect("there is room");
            for _ in 0..self.random.u32(1..6) {
                let time = Duration::from_secs_f64(0.001 * (5.0 * self.random.f64()).exp());
                resource.enter_at(now).end_at(now.saturating_add(time), Outcome::Success);
            }
        }
        self.registry.evict_idle_at(self.registry.clock().now(), Duration::from_secs(5));
    }
}

#[test]
#[ignore = "takes long"]
fn memory_is_flat_over_an_hour_of_viewers() {
    let _profiler = dhat::Profiler::builder().testing().build();
    let mut hour = Hour::new();
    // The largest amount in a period: the messages of viewers that take nothing come and go.
    let mut most_in = |minutes: u32| {
        let seconds = (0..60 * minutes).map(|_| {
            hour.second();
            dhat::HeapStats::get().curr_bytes
        });
        seconds.max().expect("there are seconds")
    };
    let early = most_in(20);
    most_in(20);
    let late = most_in(20);
    println!("{early} bytes in the first third of an hour, {late} bytes in the last");
    assert!(late <= early + early / 50, "{late} bytes are more than {early}");
}
