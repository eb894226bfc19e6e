//! Two processes with one file of rules, on a real server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use leaparray::Registry;
use leaparray_redis::{LeaseState, RedisEngine};
use leaparray_rules::{Fleet, Follow, Rules};
use tokio::time::sleep;

use crate::DEADLINE;
use crate::server::{Server, free_port};

const SECOND: Duration = Duration::from_secs(1);

/// The times between which a permit was used, since the begin.
type Use = (Duration, Duration);

/// The server and the processes are on one machine, and have one clock.
struct Uses(Vec<Use>);

impl Uses {
    /// Returns the most uses that were certainly in one second.
    fn most(&self) -> usize {
        let (mut after, mut before): (Vec<_>, Vec<_>) = self.0.iter().copied().unzip();
        after.sort_unstable();
        before.sort_unstable();
        let within = |(first, from): (usize, &Duration)| {
            before.partition_point(|it| *it < *from + SECOND) - first
        };
        after.iter().enumerate().map(within).max().unwrap_or_default()
    }
}

/// Asks in all processes, about each millisecond.
async fn ask(all: &[Rules], begin: Instant, time: Duration) -> Vec<Use> {
    let (until, mut uses) = (begin.elapsed() + time, Vec::new());
    while begin.elapsed() < until {
        for rules in all {
            let after = begin.elapsed();
            if rules.enter("a", ()).unwrap().is_admitted() {
                uses.push((after, begin.elapsed()));
            }
        }
        sleep(Duration::from_millis(1)).await;
    }
    uses
}

/// Asks until the condition holds.
async fn ask_until(all: &[Rules], begin: Instant, holds: impl Fn(&Rules) -> bool) -> Vec<Use> {
    let (deadline, mut uses) = (begin.elapsed() + DEADLINE, Vec::new());
    while !all.iter().all(&holds) {
        assert!(begin.elapsed() < deadline, "it happens in time");
        uses.extend(ask(all, begin, Duration::from_millis(10)).await);
    }
    uses
}

fn state(rules: &Rules) -> LeaseState {
    rules.leases()[0].1.clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs redis-server"]
async fn processes_with_one_file_share_its_limit_and_follow_it() {
    let (port, folder) = (free_port(), tempfile::tempdir().unwrap());
    let dir = folder.path().to_str().unwrap().to_owned();
    let arguments =
        ["--bind", "127.0.0.1", "--port", &port.to_string(), "--dir", &dir, "--save", ""];
    let name = "processes_with_one_file_share_its_limit_and_follow_it";
    let Some(mut server) = Server::start(name, "redis-server", port, folder, &arguments) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("limits.toml");
    let write = |limit: u64, away: &str| {
        let text = format!(
            "[[rule]]\nname = \"orders\"\nresource = \"a\"\nlimit = \"{limit} per second\"\n\
             over = \"fleet\"\naway = \"{away}\"\n"
        );
        std::fs::write(&path, text).unwrap();
    };
    write(40, "closed");
    let process = || {
        let engine = RedisEngine::open(&format!("redis://127.0.0.1:{port}/")).unwrap();
        let rules = Fleet::new("shop", engine).unwrap().rules(Arc::new(Registry::new()));
        let follow = Follow::file(&path).every(Duration::from_millis(10));
        rules.follow(follow).unwrap_or_else(|error| panic!("{error}"));
        rules
    };
    let all = [process(), process()];
    let begin = Instant::now();
    let is_leasing = |it: &Rules| state(it) == LeaseState::Leasing;
    let mut uses = ask_until(&all, begin, is_leasing).await;
    let steady = ask(&all, begin, SECOND * 3).await;
    assert!(steady.len() >= 80, "{} of 120 permits", steady.len());
    uses.extend(steady);
    let uses = Uses(uses);
    assert!(uses.most() <= 40, "{} in a second", uses.most());
    let mut uses = uses.0;

    write(120, "closed");
    let is_new = |it: &Rules| it.rules()[0].to_string().contains("120 per second");
    uses.extend(ask_until(&all, begin, is_new).await);
    uses.extend(ask(&all, begin, SECOND).await);
    let steady = ask(&all, begin, SECOND * 3).await;
    assert!(steady.len() >= 240, "{} of 360 permits", steady.len());
    uses.extend(steady);
    let uses = Uses(uses);
    assert!(uses.most() <= 120, "{} in a second", uses.most());

    server.kill();
    let is_away = |it: &Rules| matches!(state(it), LeaseState::Away { .. });
    ask_until(&all, begin, is_away).await;
    // The last leases end.
    ask(&all, begin, SECOND).await;
    assert_eq!(ask(&all, begin, SECOND).await.len(), 0, "closed");

    write(120, "open");
    let is_open = |it: &Rules| it.rules()[0].to_string().contains("open") && is_away(it);
    ask_until(&all, begin, is_open).await;
    assert!(ask(&all, begin, SECOND).await.len() > 240, "open");

    server.start_again();
    write(40, "closed");
    ask_until(&all, begin, is_leasing).await;
    ask(&all, begin, SECOND).await;
    let uses = Uses(ask(&all, begin, SECOND * 3).await);
    assert!(uses.0.len() >= 80 && uses.most() <= 40, "{}, {}", uses.0.len(), uses.most());
}
