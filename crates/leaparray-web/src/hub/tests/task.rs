use std::sync::Arc;
use std::time::Duration;

use leaparray::flow::{Decision, Limiter, Quota};
use leaparray::{ManualClock, Registry, RegistryConfig, Timestamp};
use tokio::time::sleep;

use crate::controllers::Controllers;
use crate::hub::{Encoding, Hub, Identity, Viewer, Wish};

fn hub(controllers: Controllers) -> Arc<Hub<ManualClock>> {
    let clock = ManualClock::new(Timestamp::from_secs(60));
    let registry = Arc::new(Registry::with_clock(RegistryConfig::default(), clock));
    let identity = Identity::new(Timestamp::from_secs(60));
    let life = Duration::from_secs(300);
    Arc::new(Hub::new(registry, identity, controllers, Arc::default(), 4, life))
}

fn join(hub: &Arc<Hub<ManualClock>>) -> Arc<Viewer> {
    hub.join(Wish { encoding: Encoding::Lines, since: None, target: None }).unwrap()
}

#[tokio::test(start_paused = true)]
async fn task_ends_a_minute_after_the_last_viewer() {
    let hub = hub(Controllers::default());
    let viewer = join(&hub);
    sleep(Duration::from_secs(100)).await;
    assert!(hub.viewers().is_running());
    hub.viewers().leave(&viewer);
    sleep(Duration::from_secs(55)).await;
    assert!(hub.viewers().is_running());
    sleep(Duration::from_secs(10)).await;
    assert!(!hub.viewers().is_running());
    join(&hub);
    assert!(hub.viewers().is_running());
}

#[tokio::test(start_paused = true)]
async fn task_ends_when_the_page_is_closed() {
    let hub = hub(Controllers::default());
    let _viewer = join(&hub);
    sleep(Duration::from_millis(10)).await;
    hub.viewers().close();
    sleep(Duration::from_millis(100)).await;
    assert!(!hub.viewers().is_running());
}

/// A limiter whose code panics.
struct Panics;

impl Limiter for Panics {
    type Permit = ();

    fn now(&self) -> Timestamp {
        Timestamp::MIN
    }

    fn try_acquire_at(&self, _: Timestamp, _: u64) -> Decision {
        Decision::Admitted(())
    }

    fn quota(&self) -> Option<Quota> {
        panic!("a limiter of the user");
    }
}

#[tokio::test(start_paused = true)]
async fn panic_in_a_limiter_ends_the_streams_and_the_next_one_starts_again() {
    let mut controllers = Controllers::default();
    controllers.add_limiter("orders".into(), Panics);
    let hub = hub(controllers);
    for _ in 0..2 {
        let _viewer = join(&hub);
        sleep(Duration::from_secs(1)).await;
        assert!(!hub.viewers().is_running());
        assert_eq!(hub.viewers().len(), 0);
    }
}
