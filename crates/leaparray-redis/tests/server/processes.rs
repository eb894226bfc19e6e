//! Several processes, one of which is killed.

use std::env;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use leaparray_redis::lease::LeaseConfig;
use leaparray_redis::{LeasedLimiter, RedisEngine};

use crate::audit::{Audit, Use};
use crate::server::Server;
use crate::worker::work;

/// The address of the server, and the file in which a process notes its uses.
const ADDRESS: &str = "LEAPARRAY_REDIS_TEST_ADDRESS";
const FILE: &str = "LEAPARRAY_REDIS_TEST_FILE";
const SPAN: Duration = Duration::from_secs(4);

fn config() -> LeaseConfig {
    let config = LeaseConfig::new(200, Duration::from_secs(1)).unwrap();
    config.with_validity(15).unwrap()
}

#[test]
#[ignore = "a process of the other test"]
fn process() {
    let (Ok(address), Ok(file)) = (env::var(ADDRESS), env::var(FILE)) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let engine = RedisEngine::open(&address).unwrap();
        let limiter = LeasedLimiter::builder("orders", config()).start(engine).unwrap();
        let mut file = File::create(file).unwrap();
        work(&limiter, SPAN, Duration::from_millis(2), |it| {
            writeln!(file, "{} {}", it.after, it.before).unwrap();
        })
        .await;
        limiter.close().await;
    });
}

fn spawn(server: &Server, file: &Path) -> Child {
    Command::new(env::current_exe().unwrap())
        .args(["processes::process", "--exact", "--ignored"])
        .env(ADDRESS, server.address())
        .env(FILE, file)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// Returns the uses that a process has noted.
fn uses(file: &Path) -> Vec<Use> {
    let text = fs::read_to_string(file).unwrap();
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.map(|(a, b)| Use { after: a.parse().unwrap(), before: b.parse().unwrap() }).collect()
}

#[test]
#[ignore = "needs redis-server"]
fn limit_holds_for_processes_that_race_and_are_killed() {
    let Some(server) = Server::start("processes that race") else { return };
    let folder = tempfile::tempdir().unwrap();
    let files: Vec<_> = (0..5).map(|it| folder.path().join(format!("uses{it}"))).collect();
    let mut children: Vec<_> = files[..4].iter().map(|it| spawn(&server, it)).collect();
    thread::sleep(Duration::from_millis(2_500));
    // SIGKILL.
    children[0].kill().unwrap();
    children.push(spawn(&server, &files[4]));
    for (index, child) in children.iter_mut().enumerate() {
        assert_eq!(child.wait().unwrap().success(), index != 0, "process {index}");
    }
    let noted: Vec<_> = files.iter().map(|it| uses(it)).collect();
    assert!(noted.iter().all(|it| !it.is_empty()), "each process has used permits");
    Audit::new(noted.into_iter().flatten()).check(config(), 6.5, 0.4);
}
