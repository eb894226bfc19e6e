//! How an engine finds its server.

use std::time::Duration;

use leaparray_redis::lease::{Ask, LeaseConfig, LeaseKeys};
use leaparray_redis::{Engine, EngineError, RedisEngine, Warning};
use tokio::runtime::Runtime;

use crate::server::Server;

fn config() -> LeaseConfig {
    LeaseConfig::new(100, Duration::from_secs(1)).unwrap()
}

pub(crate) fn keys() -> LeaseKeys {
    LeaseKeys::new("orders", &config()).unwrap()
}

/// Asks once.
pub(crate) async fn ask(engine: &RedisEngine, seq: u64) -> Result<u64, EngineError> {
    let ask = Ask {
        node: 1,
        seq,
        nonce: seq,
        epoch: None,
        seen: 0,
        want: 1,
        validity: 1,
        horizon: 0,
        weight: 0,
        moves: vec![],
    };
    engine.lease(&keys(), &config(), &ask).await.map(|it| it.epoch.identity)
}

#[test]
#[ignore = "needs redis-server"]
fn address_has_the_password_and_no_text_shows_it() {
    let Some(server) = Server::start("an address with a password") else { return };
    server.run(&["ACL", "SETUSER", "limits", "on", ">s3cret", "~leaparray:*", "+@all"]);
    server.run(&["ACL", "SETUSER", "default", "off"]);
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let open = |user: &str| {
            RedisEngine::open(&format!("redis://{user}@127.0.0.1:{}", server.port())).unwrap()
        };
        let engine = open("limits:s3cret");
        ask(&engine, 1).await.unwrap();
        let error = ask(&open("limits:s4cret"), 1).await.unwrap_err();
        let texts = [format!("{engine:?}"), format!("{error:?}"), error.to_string()];
        for text in &texts {
            assert!(!text.contains("s3cret") && !text.contains("s4cret"), "{text}");
        }
        assert!(texts[2].starts_with("the server cannot be used: "), "{error}");
        let error = RedisEngine::open("redis://limits:s3cret@[").unwrap_err();
        assert!(matches!(error, EngineError::Address(_)), "{error}");
        let texts = [format!("{error:?}"), error.to_string()];
        assert!(texts.iter().all(|it| !it.contains("s3cret")), "{texts:?}");
    });
}

#[test]
#[ignore = "needs redis-server"]
fn engine_is_opened_before_the_server_is_there() {
    let Some(mut server) = Server::start("a server that starts later") else { return };
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        server.kill();
        let engine = RedisEngine::open(&server.address()).unwrap();
        let error = ask(&engine, 1).await.unwrap_err();
        assert!(matches!(error, EngineError::Server(_)), "{error}");
        server.kill_and_restart();
        ask(&engine, 2).await.unwrap();
    });
}

#[test]
#[ignore = "needs redis-server"]
fn settings_that_weaken_a_limit_are_told() {
    let Some(server) = Server::start("warnings") else { return };
    let Some(replica) = Server::start("warnings") else { return };
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let engine = RedisEngine::open(&server.address()).unwrap();
        let warnings = async || engine.warnings(&keys()).await.unwrap();
        assert_eq!(warnings().await, []);
        server.run(&["CONFIG", "SET", "maxmemory-policy", "volatile-ttl"]);
        let evicts = Warning::Evicts { policy: "volatile-ttl".to_owned() };
        assert_eq!(warnings().await, [evicts]);
        server.run(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
        replica.follow(&server);
        assert_eq!(warnings().await, [Warning::SplitBrain { replicas: 1 }]);
        server.run(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
        assert_eq!(warnings().await, []);
    });
}

#[cfg(feature = "cluster")]
#[test]
#[ignore = "needs redis-server"]
fn keys_of_a_limit_are_in_one_slot_of_a_cluster() {
    let args = ["--cluster-enabled", "yes"];
    let Some(server) = Server::start_with("a cluster", &args) else { return };
    // Redis 6.2 has no command for a range.
    let slots: Vec<_> = (0..16_384).map(|slot| slot.to_string()).collect();
    let slots = slots.iter().map(String::as_str);
    server.run(&["CLUSTER", "ADDSLOTS"].into_iter().chain(slots).collect::<Vec<_>>());
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let engine = RedisEngine::open_cluster(vec![server.address()]).unwrap();
        // The cluster needs a moment.
        let mut seq = 1;
        while ask(&engine, seq).await.is_err() {
            assert!(seq < 300, "{:?}", ask(&engine, seq).await);
            seq += 1;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(engine.warnings(&keys()).await.unwrap(), []);
    });
}

#[cfg(feature = "sentinel")]
#[test]
#[ignore = "needs redis-server"]
fn sentinel_names_the_new_primary_after_a_failover() {
    let Some((primary, replica, sentinel)) = Server::start_with_sentinel("Sentinel") else {
        return;
    };
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let engine = RedisEngine::open_sentinel(vec![sentinel.address()], "limits").unwrap();
        let before = ask(&engine, 1).await.unwrap();
        drop(primary);
        let mut seq = 2;
        let after = loop {
            match ask(&engine, seq).await {
                Ok(identity) => break identity,
                Err(error) => assert!(seq < 300, "{error}"),
            }
            seq += 1;
            tokio::time::sleep(Duration::from_millis(100)).await;
        };
        assert_ne!(before, after);
        drop(replica);
    });
}

/// The address of the server for the process that connects by TLS.
#[cfg(feature = "tls")]
const TLS_ADDRESS: &str = "LEAPARRAY_REDIS_TEST_TLS_ADDRESS";

#[cfg(feature = "tls")]
#[test]
#[ignore = "a process of another test"]
fn tls_client() {
    let Ok(address) = std::env::var(TLS_ADDRESS) else { return };
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let engine = RedisEngine::open(&address).unwrap();
        ask(&engine, 1).await.unwrap();
    });
}

/// A process of its own, because the certificates of the operating system are named by the
/// environment.
#[cfg(feature = "tls")]
#[test]
#[ignore = "needs redis-server"]
fn address_of_tls_is_encrypted_and_verified() {
    let certificate = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let cert = file("cert.pem", certificate.cert.pem());
    let key = file("key.pem", certificate.signing_key.serialize_pem());
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let tls_port = port.to_string();
    let args = ["--tls-port", &tls_port, "--tls-cert-file", &cert, "--tls-key-file", &key];
    let args = [&args[..], &["--tls-auth-clients", "no"]].concat();
    let Some(_server) = Server::start_with("an address of TLS", &args) else { return };
    let connects = |trusted: &str| {
        std::process::Command::new(std::env::current_exe().unwrap())
            .args(["addresses::tls_client", "--exact", "--ignored"])
            .env(TLS_ADDRESS, format!("rediss://localhost:{tls_port}"))
            .env("SSL_CERT_FILE", trusted)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .status()
            .unwrap()
            .success()
    };
    assert!(connects(&cert));
    let other = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    assert!(!connects(&file("other.pem", other.cert.pem())), "the certificate is not trusted");
}

#[cfg(feature = "tracing")]
#[test]
#[ignore = "needs redis-server"]
fn settings_that_weaken_a_limit_are_events_of_the_first_ask() {
    let Some(server) = Server::start("warnings as events") else { return };
    server.run(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    let log = tempfile::NamedTempFile::new().unwrap();
    let writer = std::sync::Arc::new(log.reopen().unwrap());
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(writer).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let engine = RedisEngine::open(&server.address()).unwrap();
        for seq in 1..3 {
            ask(&engine, seq).await.unwrap();
        }
    });
    let text = std::fs::read_to_string(log.path()).unwrap();
    let events = text.lines().filter(|it| it.contains("maxmemory-policy is allkeys-lru"));
    assert_eq!(events.count(), 1, "{text}");
}
