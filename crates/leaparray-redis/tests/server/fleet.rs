//! A window over a fleet on a real server: processes that race and are killed, and a server that is
//! away.

use std::env;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use leaparray::MetricEvent::Success;
use leaparray::{LatencyHistogram, Registry};
use leaparray_redis::fleet::{FleetView, ProcessState, Record};
use leaparray_redis::{FleetReader, FleetReporter, FleetState, RedisEngine};
use tokio::runtime::Runtime;
use tokio::time::sleep;

use crate::server::Server;

/// The address of the server, the name of the process, and the file in which it notes its requests.
const ADDRESS: &str = "LEAPARRAY_REDIS_TEST_FLEET_ADDRESS";
const NAME: &str = "LEAPARRAY_REDIS_TEST_FLEET_NAME";
const FILE: &str = "LEAPARRAY_REDIS_TEST_FLEET_FILE";

fn reader(server: &Server) -> FleetReader {
    FleetReader::builder("shop").start(RedisEngine::open(&server.address()).unwrap()).unwrap()
}

fn reporter(server: &Server, name: &str, registry: &Arc<Registry>) -> FleetReporter {
    let engine = RedisEngine::open(&server.address()).unwrap();
    let builder = FleetReporter::builder("shop", name);
    builder.with_answer_timeout(Duration::from_millis(300)).start(registry, engine).unwrap()
}

/// Requests, until `end`: returns their number.
async fn work(registry: &Registry, end: Instant, mut on_each: impl FnMut(u64)) -> u64 {
    let orders = registry.resource("orders").unwrap();
    let mut count = 0;
    while Instant::now() < end {
        orders.enter().success();
        count += 1;
        on_each(count);
        sleep(Duration::from_millis(1)).await;
    }
    count
}

/// Checks that each count of a record is in one place.
#[track_caller]
fn check(record: &Record) {
    let mut sum = record.unfinished();
    for part in [&record.delivered.1, &record.missed.1, &record.late, &record.waiting] {
        sum += part;
    }
    assert_eq!(sum, record.lifetime, "{record:?}");
}

/// Polls until something is true of the fleet.
async fn wait_for(reader: &FleetReader, condition: impl Fn(&FleetView) -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        // The server may be away.
        let _ = reader.poll().await;
        if reader.with(&condition) {
            return;
        }
        assert!(Instant::now() < end, "{:?}", reader.with(FleetView::sum));
        sleep(Duration::from_millis(100)).await;
    }
}

#[test]
#[ignore = "a process of the other test"]
fn process() {
    let of = |name| env::var(name).ok();
    let (Some(address), Some(name), Some(file)) = (of(ADDRESS), of(NAME), of(FILE)) else { return };
    Runtime::new().unwrap().block_on(async {
        let registry = Arc::new(Registry::new());
        let engine = RedisEngine::open(&address).unwrap();
        let reporter = FleetReporter::builder("shop", &name).start(&registry, engine).unwrap();
        let end = Instant::now() + Duration::from_secs(4);
        // A byte for each request: a kill leaves the file whole.
        let mut file = File::create(file).unwrap();
        work(&registry, end, |_| file.write_all(b".").unwrap()).await;
        let record = reporter.close().await;
        check(&record);
        assert!(record.waiting.is_zero() && record.unfinished().is_zero(), "{record:?}");
    });
}

fn spawn(server: &Server, name: &str, file: &Path) -> Child {
    Command::new(env::current_exe().unwrap())
        .args(["fleet::process", "--exact", "--ignored"])
        .env(ADDRESS, server.address())
        .env(NAME, name)
        .env(FILE, file)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
#[ignore = "needs redis-server"]
fn fleet_has_what_its_processes_have_counted() {
    let Some(server) = Server::start("a fleet whose processes are killed") else { return };
    let runtime = Runtime::new().unwrap();
    let reader = runtime.block_on(async { reader(&server) });
    let folder = tempfile::tempdir().unwrap();
    let file = |index: usize| folder.path().join(format!("count{index}"));
    let mut children: Vec<_> =
        (0..3).map(|it| spawn(&server, &format!("shop-{it}"), &file(it))).collect();
    thread::sleep(Duration::from_millis(3_500));
    // SIGKILL.
    children[0].kill().unwrap();
    for (index, child) in children.iter_mut().enumerate() {
        assert_eq!(child.wait().unwrap().success(), index != 0, "process {index}");
    }
    let counted: Vec<u64> = (0..3).map(|it| fs::metadata(file(it)).unwrap().len()).collect();
    runtime.block_on(async {
        wait_for(&reader, |it| it.wanted().is_none() && it.processes().count() == 3).await;
        reader.with(|fleet| {
            let mut all: Vec<_> = fleet.processes().map(|it| (it.1.clone(), it.2)).collect();
            all.sort_by(|one, other| one.0.name.cmp(&other.0.name));
            for ((record, state), counted) in all[1..].iter().zip(&counted[1..]) {
                check(record);
                assert_eq!((record.lifetime[Success], *state), (*counted, ProcessState::Left));
                assert_eq!(record.delivered.1[Success] + record.late[Success], *counted);
            }
            // The killed process has not delivered its last two seconds at most.
            let killed = &all[0].0;
            check(killed);
            let not_delivered = counted[0] - killed.delivered.1[Success];
            assert!(killed.delivered.1[Success] > 0 && not_delivered < 2_000, "{not_delivered}");
            let first = all.iter().map(|it| it.0.first).min().unwrap();
            let end = all.iter().map(|it| it.0.next).max().unwrap();
            let window = fleet.window(first..end);
            assert_eq!(window.total.metrics.counts[Success], fleet.sum().delivered.1[Success]);
            assert_eq!(window.resources.len(), 1);
            assert_eq!(
                window.resources[0].counts.metrics.counts[Success],
                window.total.metrics.counts[Success]
            );
            let histogram = window.total.metrics.histogram.as_ref();
            assert_eq!(histogram.map_or(0, LatencyHistogram::count), 0, "the nodes have none");
        });
    });
}

#[test]
#[ignore = "needs redis-server"]
fn seconds_wait_for_a_server_that_is_away_and_restarts_without_data() {
    let Some(mut server) = Server::start("a fleet whose server restarts") else { return };
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let registry = Arc::new(Registry::new());
        let reporter = reporter(&server, "shop-1", &registry);
        let reader = reader(&server);
        let begin = Instant::now();
        work(&registry, begin + Duration::from_secs(2), |_| {}).await;
        server.kill();
        work(&registry, begin + Duration::from_secs(5), |_| {}).await;
        assert!(matches!(reporter.state(), FleetState::Away { .. }), "{}", reporter.state());
        assert!(reporter.record().waiting[Success] > 0);
        server.kill_and_restart();
        work(&registry, begin + Duration::from_secs(7), |_| {}).await;
        let record = reporter.close().await;
        check(&record);
        assert_eq!(reporter.state(), FleetState::Closed);
        assert_eq!(record.missed.0, 0);
        assert_eq!(record.delivered.1[Success] + record.late[Success], record.lifetime[Success]);
        assert!(record.unfinished().is_zero() && record.waiting.is_zero(), "{record:?}");
        wait_for(&reader, |it| it.sum().delivered.0 == record.delivered.0 && it.wanted().is_none())
            .await;
        // A reader that joins after the restart misses only what the server has lost.
        let late = self::reader(&server);
        wait_for(&late, |it| it.sum().delivered.0 == record.delivered.0 && it.wanted().is_none())
            .await;
        let lost = late.with(|it| it.window(record.first..record.next).processes[0].missing);
        assert!((1..=3).contains(&lost), "{lost} seconds were lost");
    });
}

#[test]
#[ignore = "needs redis-server"]
fn paused_server_delays_and_loses_nothing() {
    let Some(server) = Server::start("a fleet whose server pauses") else { return };
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let registry = Arc::new(Registry::new());
        let reporter = reporter(&server, "shop-1", &registry);
        let begin = Instant::now();
        work(&registry, begin + Duration::from_millis(1_500), |_| {}).await;
        // Asks arrive, and their answers are too late: each is sent again.
        server.run(&["CLIENT", "PAUSE", "1500", "ALL"]);
        let counted = work(&registry, begin + Duration::from_secs(5), |_| {}).await;
        let record = reporter.close().await;
        check(&record);
        assert_eq!(record.missed.0, 0);
        assert_eq!(record.delivered.1[Success] + record.late[Success], record.lifetime[Success]);
        assert!(record.lifetime[Success] > counted);
    });
}

#[test]
#[ignore = "needs redis-server"]
fn flushed_server_gets_all_that_follows() {
    let Some(server) = Server::start("a fleet whose server is flushed") else { return };
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let registry = Arc::new(Registry::new());
        let reporter = reporter(&server, "shop-1", &registry);
        let begin = Instant::now();
        for second in 1..=3 {
            // Another resource, whose name is sent after the first one's.
            registry.resource(&format!("orders {second}")).unwrap().enter().success();
            work(&registry, begin + Duration::from_secs(second), |_| {}).await;
            server.run(&["FLUSHALL"]);
        }
        let record = reporter.close().await;
        check(&record);
        let reader = reader(&server);
        wait_for(&reader, |it| it.wanted().is_none() && it.wanted_names().is_empty()).await;
        let window = reader.with(|it| it.window(record.next - 1..record.next));
        assert_eq!(window.presence.present, 1);
        assert_eq!(record.missed.0, 0);
    });
}

#[test]
#[ignore = "needs redis-server"]
fn promoted_replica_goes_on() {
    let Some(primary) = Server::start("a fleet whose replica is promoted") else { return };
    let Some(replica) = Server::start("a fleet whose replica is promoted") else { return };
    replica.follow(&primary);
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let registry = Arc::new(Registry::new());
        let before = reporter(&primary, "shop-1", &registry);
        work(&registry, Instant::now() + Duration::from_millis(2_500), |_| {}).await;
        let record = before.close().await;
        replica.run(&["REPLICAOF", "NO", "ONE"]);
        let reader = reader(&replica);
        wait_for(&reader, |it| it.sum().lifetime == record.lifetime && it.wanted().is_none()).await;
        let window = reader.with(|it| it.window(record.first..record.next));
        assert_eq!(window.total.metrics.counts[Success], record.delivered.1[Success]);
        assert_eq!(window.presence.to_string(), "1 of 1 process");
    });
}
