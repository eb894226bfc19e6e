use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use leaparray::MetricEvent::Block;
use leaparray::flow::{Account, Ask, ConcurrencyLimiter, Decision, Limiter, Quota, Reason};
use leaparray::{
    Clock, ManualClock, NodeConfig, Registry, RegistryConfig, Timestamp, WindowConfig,
};
use tokio::time::{Instant, sleep};

use crate::format::{ByeReason, ChangeKind, ControllerState, Level, Message, Second, UnreadCause};
use crate::hub::{Encoding, Hub, Identity, Viewer, Viewers, Wish};
use crate::source::FleetSource;

fn hub<C: Clock + Clone + Send + Sync + 'static>(clock: C) -> Arc<Hub<C>> {
    hub_of(Registry::with_clock(RegistryConfig::default(), clock))
}

fn hub_of<C: Clock + Clone + Send + Sync + 'static>(registry: Registry<C>) -> Arc<Hub<C>> {
    let identity = Identity::new(Timestamp::from_secs(60));
    let life = Duration::from_secs(300);
    Arc::new(Hub::new(
        Arc::new(registry),
        identity,
        FleetSource::default(),
        Arc::new(Viewers::new(60)),
        4,
        life,
    ))
}

fn join<C: Clock + Clone + Send + Sync + 'static>(hub: &Arc<Hub<C>>) -> Arc<Viewer> {
    hub.join(Wish { encoding: Encoding::Lines, since: None, target: None, is_light: false })
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn task_ends_a_minute_after_the_last_viewer() {
    let hub = hub(ManualClock::new(Timestamp::from_secs(60)));
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
    let hub = hub(ManualClock::new(Timestamp::from_secs(60)));
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

    fn decide(&self, _ask: &Ask<'_>) -> Decision {
        Decision::Admitted(())
    }

    fn account(&self) -> &dyn Account {
        self
    }
}

impl Account for Panics {
    fn quota(&self, _now: Timestamp) -> Option<Quota> {
        panic!("a limiter of the user");
    }
}

/// Takes all messages.
fn take(viewer: &Viewer) -> Vec<Message> {
    let mut context = Context::from_waker(Waker::noop());
    let mut messages = Vec::new();
    while let Poll::Ready(bytes) = viewer.poll_next(&mut context) {
        let is_last = bytes.is_err();
        let bytes = bytes.unwrap_or_else(|bye| bye);
        messages.extend(Message::parse(std::str::from_utf8(&bytes).unwrap()).unwrap());
        if is_last {
            break;
        }
    }
    messages
}

#[tokio::test(start_paused = true)]
async fn limiter_that_panics_is_unknown_and_the_others_are_shown() {
    let hub = hub(ManualClock::new(Timestamp::from_millis(61_100)));
    hub.registry().watch("broken", Panics).unwrap();
    hub.registry().watch("orders", Arc::new(ConcurrencyLimiter::new(7))).unwrap();
    let viewer = join(&hub);
    sleep(Duration::from_secs(1)).await;
    let Some(Message::Second(second)) = take(&viewer).pop() else { panic!("a second") };
    let [broken, orders] = &second.controllers.unwrap()[..] else { panic!("two of them") };
    assert_eq!((broken.resource.as_str(), &broken.state), ("broken", &ControllerState::Unknown));
    assert!(matches!(orders.state, ControllerState::Limit { limit: 7, .. }));
}

/// A clock that panics if it is told to.
#[derive(Clone, Default)]
struct Broken {
    is_broken: Arc<AtomicBool>,
}

impl Clock for Broken {
    fn now(&self) -> Timestamp {
        assert!(!self.is_broken.load(Ordering::Relaxed), "a clock of the user");
        Timestamp::from_secs(61)
    }
}

#[tokio::test(start_paused = true)]
async fn panic_in_a_clock_ends_the_streams_as_failed_and_the_next_one_starts_again() {
    let clock = Broken::default();
    let hub = hub(clock.clone());
    for _ in 0..2 {
        let viewer = join(&hub);
        clock.is_broken.store(true, Ordering::Relaxed);
        sleep(Duration::from_secs(2)).await;
        assert!(!hub.viewers().is_running());
        assert_eq!(hub.viewers().len(), 0);
        let Some(Message::Bye(bye)) = take(&viewer).pop() else { panic!("a last message") };
        assert_eq!(bye.reason, ByeReason::Failed);
        clock.is_broken.store(false, Ordering::Relaxed);
    }
}

/// The time of the paused runtime.
#[derive(Clone)]
struct Paused(Instant);

impl Clock for Paused {
    fn now(&self) -> Timestamp {
        Timestamp::from_secs(60).saturating_add(self.0.elapsed())
    }
}

fn seconds(viewer: &Viewer) -> Vec<Second> {
    let second = |message| match message {
        Message::Second(second) => Some(second),
        _ => None,
    };
    take(viewer).into_iter().filter_map(second).collect()
}

/// A thread that has read the clock at the end of a second, and records just after it.
#[tokio::test(start_paused = true)]
async fn first_reading_waits_for_threads_that_record_late() {
    let clock = Paused(Instant::now());
    let hub = hub(clock.clone());
    let orders = hub.registry().resource("orders").unwrap();
    sleep(Duration::from_millis(1_001)).await;
    let viewer = join(&hub);
    sleep(Duration::from_millis(20)).await;
    orders.block_many_at(Timestamp::from_millis(60_999), 1);
    sleep(Duration::from_millis(50)).await;
    let seconds = seconds(&viewer);
    assert_eq!(seconds.last().map(|it| (it.t, it.total.events[Block])), Some((60, 1)));
}

/// The reading that finds the node has only the second before the start of the page, in which
/// nothing was recorded.
#[tokio::test(start_paused = true)]
async fn node_of_a_reading_without_a_known_second_is_listed_with_the_next_one() {
    let clock = Paused(Instant::now());
    let hub = hub(clock.clone());
    let viewer = join(&hub);
    sleep(Duration::from_millis(20)).await;
    let orders = hub.registry().resource("orders").unwrap();
    orders.refuse(Reason::Failing);
    sleep(Duration::from_secs(1)).await;
    orders.refuse_many_at(
        clock.now().saturating_sub(Duration::from_millis(30)),
        1,
        Reason::Failing,
    );
    sleep(Duration::from_millis(50)).await;
    let seconds = seconds(&viewer);
    let [second] = &seconds[..] else { panic!("{seconds:?}") };
    assert_eq!((second.t, second.new.len(), second.rows.len()), (60, 1, 1));
    let refused = second.refused.as_ref().unwrap();
    assert_eq!(
        (second.total.events[Block], refused.len(), refused[0].counts[Reason::Failing]),
        (2, 1, 2)
    );
}

#[tokio::test(start_paused = true)]
async fn long_window_is_known_to_have_no_complete_seconds() {
    for (buckets, millis, has_seconds) in
        [(2, 1_000, false), (101, 1_010, false), (3, 1_500, true), (10, 10_000, true)]
    {
        let clock = Paused(Instant::now());
        let long = WindowConfig::new(buckets, Duration::from_millis(millis)).unwrap();
        let config = RegistryConfig::default().node(NodeConfig::new(long, long).unwrap());
        let hub = hub_of(Registry::with_clock(config, clock.clone()));
        let orders = hub.registry().resource("orders").unwrap();
        let viewer = join(&hub);
        let mut blocked = 0;
        for _ in 0..50 {
            orders.block();
            sleep(Duration::from_millis(100)).await;
        }
        let messages = take(&viewer);
        let Message::Hello(hello) = &messages[0] else { panic!("{messages:?}") };
        assert_eq!(hello.has_seconds, has_seconds, "{millis} ms");
        for message in messages {
            if let Message::Second(second) = message {
                assert_eq!(second.total.events[Block], 10, "{millis} ms: second {}", second.t);
                blocked += second.total.events[Block];
            }
        }
        assert_eq!(blocked > 0, has_seconds, "{millis} ms: {blocked}");
    }
}

#[tokio::test(start_paused = true)]
async fn viewer_that_joins_between_readings_gets_the_history_at_once() {
    let clock = Paused(Instant::now());
    let hub = hub(clock.clone());
    let _first = join(&hub);
    sleep(Duration::from_millis(500)).await;
    // A change after which the message with the nodes has to be serialized again.
    hub.registry().resource("orders").unwrap().block();
    sleep(Duration::from_millis(600)).await;
    let viewer = join(&hub);
    sleep(Duration::from_millis(10)).await;
    let messages = take(&viewer);
    let [Message::Hello(_), Message::Resources(resources), _, Message::Second(second)] =
        &messages[..]
    else {
        panic!("{messages:?}")
    };
    assert_eq!((resources.resources.len(), second.t, second.total.events[Block]), (1, 60, 1));
}

#[tokio::test(start_paused = true)]
async fn changes_outlive_the_task_and_its_gap_is_reported() {
    let clock = Paused(Instant::now());
    let hub = hub(clock.clone());
    let first = join(&hub);
    sleep(Duration::from_millis(100)).await;
    hub.registry().resource("POST /pay").unwrap().block_many_at(hub.registry().clock().now(), 50);
    sleep(Duration::from_secs(2)).await;
    hub.viewers().leave(&first);
    sleep(Duration::from_secs(300)).await;
    assert!(!hub.viewers().is_running());
    let later = join(&hub);
    sleep(Duration::from_secs(2)).await;
    let changes = take(&later).into_iter().filter_map(|message| match message {
        Message::Changes(it) => Some(it.changes),
        _ => None,
    });
    let kinds = changes.flatten().map(|it| it.kind);
    let [ChangeKind::Trouble { name, .. }, ChangeKind::Listed { .. }, end, gap] =
        &kinds.collect::<Vec<_>>()[..]
    else {
        panic!("four changes")
    };
    assert_eq!(name, "POST /pay");
    assert!(matches!(end, ChangeKind::Trouble { level: Level::Quiet, .. }), "{end:?}");
    let is_told_apart = matches!(gap, ChangeKind::Unread { cause: UnreadCause::NoViewer, .. });
    assert!(is_told_apart, "{gap:?}");
}

/// A browser sends the id of the last event when it resumes.
#[tokio::test(start_paused = true)]
async fn second_of_a_light_stream_has_an_id() {
    let clock = Paused(Instant::now());
    let hub = hub(clock.clone());
    hub.registry().resource("POST /pay").unwrap().block_many_at(hub.registry().clock().now(), 50);
    let light = |since| Wish { encoding: Encoding::Events, since, target: None, is_light: true };
    let mut context = Context::from_waker(Waker::noop());
    let mut take = |viewer: &Viewer| {
        let mut text = String::new();
        while let Poll::Ready(Ok(bytes)) = viewer.poll_next(&mut context) {
            text.push_str(std::str::from_utf8(&bytes).unwrap());
        }
        text
    };
    let viewer = hub.join(light(None)).unwrap();
    sleep(Duration::from_millis(2_100)).await;
    let text = take(&viewer);
    let ids: Vec<_> = text.lines().filter_map(|it| it.strip_prefix("id: ")).collect();
    let second_of = |id: &&str| hub.identity().second_of(id);
    assert_eq!(ids.iter().filter_map(second_of).collect::<Vec<_>>(), [60, 61], "{text}");
    assert_eq!(text.matches(r#""type":"changes""#).count(), 1);
    let since = ids.last().and_then(|it| hub.identity().second_of(it));
    let again = hub.join(light(since)).unwrap();
    sleep(Duration::from_millis(10)).await;
    assert_eq!(take(&again).matches(r#""type":"changes""#).count(), 0, "it has them");
}

/// Its seconds are not read either, and viewers have asked for them.
#[tokio::test(start_paused = true)]
async fn gap_after_a_failed_task_is_told_apart() {
    let start = Instant::now();
    let clock = Failing { is_broken: Arc::default(), clock: Paused(start) };
    let hub = hub(clock.clone());
    let _first = join(&hub);
    sleep(Duration::from_secs(2)).await;
    clock.is_broken.store(true, Ordering::Relaxed);
    sleep(Duration::from_secs(300)).await;
    clock.is_broken.store(false, Ordering::Relaxed);
    let later = join(&hub);
    sleep(Duration::from_secs(2)).await;
    let changes = take(&later).into_iter().find_map(|message| match message {
        Message::Changes(it) => Some(it.changes),
        _ => None,
    });
    let changes = changes.unwrap();
    let [ChangeKind::Unread { from: 61 | 62, cause: UnreadCause::Failed }] =
        &changes.iter().map(|it| it.kind.clone()).collect::<Vec<_>>()[..]
    else {
        panic!("{changes:?}")
    };
}

/// The time of the paused runtime, with a clock that panics if it is told to.
#[derive(Clone)]
struct Failing {
    is_broken: Arc<AtomicBool>,
    clock: Paused,
}

impl Clock for Failing {
    fn now(&self) -> Timestamp {
        assert!(!self.is_broken.load(Ordering::Relaxed), "a clock of the user");
        self.clock.now()
    }
}
