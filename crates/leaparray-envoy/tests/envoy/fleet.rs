//! Three instances over a real Redis; one of them, Redis and an Envoy are killed.

use std::process::Command;
use std::time::Duration;

use crate::audit::{Upstream, assert_never_over, now, used};
use crate::program::{Ports, Program, envoy, load, ports, skip, wait_for};
use crate::world::{LIMIT, World, service};

const SECOND: u64 = 1_000_000_000;

/// Starts a Redis server without a dump; `None` if it is not installed.
fn redis(port: u16, world: &World) -> Option<Program> {
    let mut command = Command::new("redis-server");
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
    let program = Program::start(command.arg("--dir").arg(world.folder.path()));
    match program {
        Some(_) => wait_for(port),
        None => skip("redis-server is not installed"),
    }
    program
}

/// The parts of the limit that are used before something is killed, while the other instances go
/// on, and at the end.
struct Parts {
    at_first: f64,
    without_an_instance: f64,
    at_the_end: f64,
}

/// Loads a port of each Envoy. Kills an instance after 10 s, Redis after 15 s, which starts again
/// with nothing, and the second Envoy after 17 s.
async fn kill_all(is_rls: bool) -> Option<Parts> {
    let (world, upstream) = (World::new(), Upstream::default());
    let [store] = ports();
    let mut redis_server = redis(store, &world)?;
    let address = format!("redis://127.0.0.1:{store}/");
    let options = ["--redis", &address, "--name", "mesh", "--quota-ttl", "2"];
    let limits: [u16; 3] = ports();
    let mut instances = limits.map(|port| {
        let [http] = ports();
        service(port, http, &world.config, &options)
    });
    let envoys = [Ports::new(), Ports::new()];
    let to = upstream.serve().await;
    // Each Envoy begins with another instance.
    let first = envoy(world.folder.path(), &envoys[0], to, &limits)?;
    let mut second =
        envoy(world.folder.path(), &envoys[1], to, &[limits[1], limits[2], limits[0]])?;
    let port = |it: &Ports| if is_rls { it.rls } else { it.rlqs };
    let begin = now();
    let seconds = 26;
    let first_load = load(port(&envoys[0]), seconds)?;
    let second_load = load(port(&envoys[1]), seconds)?;
    tokio::time::sleep(Duration::from_secs(10)).await;
    instances[0].kill();
    tokio::time::sleep(Duration::from_secs(5)).await;
    redis_server.kill();
    let _redis = redis(store, &world)?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    second.kill();
    let was_sent = tokio::task::spawn_blocking(move || first_load.was_sent()).await.unwrap();
    drop((first, second_load));
    let uses = upstream.take();
    let most = assert_never_over(&uses, LIMIT);
    let in_use =
        |from: u64, to: u64| used(&uses, LIMIT, begin + from * SECOND, begin + to * SECOND);
    let parts = Parts {
        at_first: in_use(7, 10),
        without_an_instance: in_use(11, 15),
        at_the_end: in_use(23, 26),
    };
    println!(
        "{most} of {LIMIT} in the fullest second; used: {:.3}, without an instance {:.3}, at the \
         end {:.3}",
        parts.at_first, parts.without_an_instance, parts.at_the_end
    );
    was_sent.then_some(parts)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Envoy, named by ENVOY, h2load and redis-server"]
async fn instances_over_redis_are_never_over_when_all_are_killed() {
    let Some(parts) = kill_all(true).await else { return };
    // On a busy machine, an answer takes longer than a request waits for it.
    assert!(parts.at_first >= 0.3, "{}", parts.at_first);
    assert!(parts.without_an_instance > 0.2 && parts.at_the_end > 0.2);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Envoy, named by ENVOY, h2load and redis-server"]
async fn quotas_over_redis_are_never_over_when_all_are_killed() {
    let Some(parts) = kill_all(false).await else { return };
    // Less than the limit, as clients on a busy machine lose tokens. In the seconds after the kill,
    // the streams connect to another instance, which has to wait for the share of the killed one.
    assert!(parts.at_first >= 0.1, "{}", parts.at_first);
    assert!(parts.at_the_end > 0.1, "{}", parts.at_the_end);
}
