//! Rules over a fleet lease their limit, and keep it through changes.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use leaparray::flow::{Ask, Limiter, LimiterExt, Reason};
use leaparray::{Clock, Registry, RegistryConfig};
use leaparray_redis::{LeaseState, MemoryEngine, StartError};
use leaparray_rules::{Fleet, RuleSet, Rules};
use tokio::time::sleep;

use super::engine::{Server, Simulated, admitted, file, is_admitted, limit, names, process};

const SECOND: Duration = Duration::from_secs(1);

/// The time from which on a new limit is granted, and in use.
const OPENED: Duration = Duration::from_secs(3);

fn state(rules: &Rules<Simulated>) -> LeaseState {
    let leases = rules.leases();
    let [(name, state)] = &leases[..] else { panic!("{leases:?}") };
    assert_eq!(&**name, "r");
    state.clone()
}

#[tokio::test(start_paused = true)]
async fn processes_share_one_limit() {
    let clock = Simulated::start();
    let server = Server::start(clock);
    let [one, two] = [(); 2].map(|()| process(clock, &server));
    for rules in [&one, &two] {
        assert_eq!(names(&rules.apply(&limit(100, "")))[0], ["r"]);
    }
    admitted(&[&one, &two], OPENED).await;
    for _ in 0..3 {
        let count = admitted(&[&one, &two], SECOND).await;
        assert!((80..=110).contains(&count), "{count}");
    }
    assert_eq!((state(&one), state(&two)), (LeaseState::Leasing, LeaseState::Leasing));
}

#[tokio::test(start_paused = true)]
async fn rule_that_is_applied_again_keeps_its_leases() {
    let clock = Simulated::start();
    let server = Server::start(clock);
    let rules = process(clock, &server);
    rules.apply(&limit(100, ""));
    admitted(&[&rules], OPENED).await;
    let asks = server.asks();
    for _ in 0..100 {
        assert_eq!(rules.apply(&limit(100, "")).unchanged, 1);
    }
    sleep(Duration::from_millis(50)).await;
    assert!(server.asks() - asks < 10, "{} asks", server.asks() - asks);
    assert_eq!(state(&rules), LeaseState::Leasing);
}

#[tokio::test(start_paused = true)]
async fn changed_number_is_in_force_without_a_gap_and_without_new_permits() {
    let clock = Simulated::start();
    let server = Server::start(clock);
    let rules = process(clock, &server);
    rules.apply(&limit(100, ""));
    admitted(&[&rules], OPENED).await;
    // Waits until there are permits again.
    while !is_admitted(&rules) {
        sleep(Duration::from_millis(1)).await;
    }
    for next in [300, 200, 400] {
        assert_eq!(names(&rules.apply(&limit(next, "")))[1], ["r"]);
        admitted(&[&rules], SECOND).await;
        let count = admitted(&[&rules], SECOND).await;
        assert!((next * 8 / 10..=next * 11 / 10).contains(&count), "{count} of {next}");
    }
    // The server counts the permits of the former number for the next one.
    rules.apply(&limit(10, ""));
    let count = admitted(&[&rules], SECOND).await;
    assert!(count <= 50, "{count}");
    let count = admitted(&[&rules], SECOND * 2).await;
    assert!(count <= 22, "{count}");
}

/// The accounts of a request's rules pass calls on to the leases, whichever rules are beside them.
#[tokio::test(start_paused = true)]
async fn waiting_requests_are_known_to_the_leases() {
    let clock = Simulated::start();
    let server = Server::start(clock);
    let leased = "limit = \"100 per second\"\nover = \"fleet\"";
    let shadow = format!("{leased}\nmode = \"shadow\"");
    let two = "[[rule]]\nname = \"other\"\nresource = \"a\"\nin_flight = 9";
    let two = format!("{leased}\n{two}");
    for text in [leased, &shadow, &two] {
        let set = file(text);
        let rules = process(clock, &server);
        rules.apply(&set);
        let resource = rules.registry().resource("a").unwrap();
        let limiter = rules.limiter(&resource, &());
        assert!(limiter.account().note_wait(3).is_some(), "{text}");
        drop(limiter.ask(&Ask::at(clock.now())));
        assert!(limiter.account().wake_on_answer(Waker::noop()), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn requests_beside_a_change_are_decided_by_leases() {
    let clock = Simulated::start();
    let server = Server::start(clock);
    for away in ["", "away = \"open\""] {
        let rules = process(clock, &server);
        // The demand is a tenth of the limit, so that permits are in hand.
        let calm = async |requests: u32| {
            let mut refused = 0;
            for _ in 0..requests {
                refused += u32::from(!is_admitted(&rules));
                sleep(Duration::from_millis(10)).await;
            }
            refused
        };
        rules.apply(&limit(1_000, away));
        calm(300).await;
        assert_eq!(calm(300).await, 0);
        for next in [900, 1_100, 1_000] {
            rules.apply(&limit(next, away));
            let refused = calm(100).await;
            assert!(refused <= 3, "{refused} at {next} {away}");
        }
        // Nor is the rule open while the new leases connect.
        rules.apply(&limit(20, away));
        let burst = (0..2_000).filter(|_| is_admitted(&rules)).count();
        assert!(burst < 1_000, "{burst}");
    }
}

#[tokio::test(start_paused = true)]
async fn policy_decides_while_the_server_is_away_and_can_be_changed_then() {
    let clock = Simulated::start();
    let server = Server::start(clock);
    let rules = process(clock, &server);
    rules.apply(&limit(100, ""));
    admitted(&[&rules], OPENED).await;
    server.set_away(true);
    admitted(&[&rules], SECOND * 2).await;
    assert!(!is_admitted(&rules), "closed");
    assert!(matches!(state(&rules), LeaseState::Away { .. }), "{}", state(&rules));
    let refusal = rules.enter("a", ()).unwrap().refusal().unwrap();
    assert_eq!(refusal.reason, Reason::Custom("the server of the limit is away"));
    assert_eq!(refusal.limiter(), Some("r"));

    let changes = rules.apply(&limit(100, "away = \"open\""));
    assert_eq!(names(&changes)[1], ["r"]);
    sleep(Duration::from_millis(20)).await;
    assert!((0..500).all(|_| is_admitted(&rules)), "open");

    rules.apply(&limit(100, "away = { part = 0.5, processes = 5 }"));
    // An earlier incarnation may have used the share.
    admitted(&[&rules], SECOND * 2).await;
    let count = admitted(&[&rules], SECOND * 10).await;
    assert!((80..=110).contains(&count), "a share of 10 each second: {count}");

    server.set_away(false);
    admitted(&[&rules], OPENED).await;
    assert_eq!(state(&rules), LeaseState::Leasing);
}

#[tokio::test(start_paused = true)]
async fn removed_rule_gives_its_leases_back() {
    let clock = Simulated::start();
    let server = Server::start(clock);
    let [one, two] = [(); 2].map(|()| process(clock, &server));
    one.apply(&limit(100, ""));
    admitted(&[&one], OPENED).await;
    sleep(SECOND * 2).await;
    // It has taken one permit, and has many in hand.
    for _ in 0..100 {
        is_admitted(&one);
        sleep(Duration::from_millis(20)).await;
    }
    // A thread keeps the plan by which it has decided last.
    assert_eq!(names(&one.apply(&RuleSet::default()))[3], ["r"]);
    assert!(one.leases().is_empty());
    sleep(Duration::from_millis(50)).await;
    let asks = server.asks();
    sleep(SECOND * 5).await;
    assert_eq!(server.asks(), asks, "the rule has no task");
    // It comes back by new leases of the limit that is known on the server.
    assert_eq!(names(&one.apply(&limit(100, "")))[0], ["r"]);
    two.apply(&limit(100, ""));
    for _ in 0..2 {
        admitted(&[&one, &two], SECOND).await;
    }
    assert_eq!((state(&one), state(&two)), (LeaseState::Leasing, LeaseState::Leasing));
}

#[tokio::test(start_paused = true)]
async fn rule_of_another_interval_or_kind_begins_anew() {
    let clock = Simulated::start();
    let server = Server::start(clock);
    let rules = process(clock, &server);
    rules.apply(&limit(100, ""));
    for next in [
        "limit = \"100 per 2s\"\nbuckets = 10\nover = \"fleet\"",
        "limit = \"100 per 2s\"\nover = \"fleet\"",
        "limit = \"100 per 2s\"\nover = \"process\"",
        "limit = \"100 per 2s\"\nover = \"fleet\"",
    ] {
        assert_eq!(names(&rules.apply(&file(next)))[2], ["r"], "{next}");
        sleep(Duration::from_millis(50)).await;
    }
    assert!(matches!(state(&rules), LeaseState::Leasing | LeaseState::Quarantine { .. }));
}

#[tokio::test(start_paused = true)]
async fn times_of_refusals_are_of_the_clock_of_the_rules() {
    let clock = Simulated::start();
    let server = Server::start(clock);
    let fleet = Fleet::new("shop", server.clone()).unwrap().with_clock(clock);
    // As a clock that stands still while the machine sleeps.
    let other = clock.from(Duration::from_secs(7));
    let rules = fleet.rules(Arc::new(Registry::with_clock(RegistryConfig::default(), other)));
    rules.apply(&limit(100, ""));
    assert!(!is_admitted(&rules));
    sleep(Duration::from_millis(50)).await;
    let refusal = rules.enter("a", ()).unwrap().refusal().unwrap();
    let wait = refusal.retry_after(other.now()).expect("the end of the quarantine is known");
    assert!((SECOND..=SECOND * 2).contains(&wait), "{wait:?}");
    let resource = rules.registry().resource("a").unwrap();
    let limiter = rules.limiter(&resource, &());
    let quota = Limiter::account(&limiter).quota(other.now()).unwrap();
    assert_eq!((quota.limit, quota.window), (100, Some(SECOND)));
    assert!(Limiter::decide(&limiter, &Ask::at(other.now())).is_refused());
}

#[tokio::test(start_paused = true)]
async fn rule_is_in_the_shadow_over_a_fleet_too() {
    let clock = Simulated::start();
    let server = Server::start(clock);
    let rules = process(clock, &server);
    rules.apply(&limit(1, "mode = \"shadow\""));
    sleep(OPENED).await;
    assert!((0..100).all(|_| is_admitted(&rules)));
}

#[test]
fn fleet_needs_a_runtime_with_timers_and_a_name() {
    let new = |name: &str| Fleet::new(name, MemoryEngine::new()).map(drop);
    assert_eq!(new("shop"), Err(StartError::NoRuntime));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert_eq!(runtime.block_on(async { new("shop") }), Err(StartError::NoTimers));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        for (name, message) in [
            ("", "the name of a limit or a fleet has from 1 to 64 bytes, not 0"),
            (&"/".repeat(22), "the name of a limit or a fleet has from 1 to 64 bytes, not 66"),
        ] {
            assert_eq!(new(name).unwrap_err().to_string(), message);
        }
        assert_eq!(new(&"x".repeat(64)), Ok(()));
    });
}

#[tokio::test(start_paused = true)]
async fn names_that_differ_are_limits_that_differ() {
    let clock = Simulated::start();
    let server = Server::start(clock);
    // Each pair would share a limit of 1 if its names were the same on the server.
    for [(fleet, rule), (other_fleet, other_rule)] in
        [[("a/b", "c"), ("a", "b/c")], [("a", "{"), ("a", "%7B")], [("a{", "b"), ("a%7B", "b")]]
    {
        let mut rules = Vec::new();
        for (fleet, rule) in [(fleet, rule), (other_fleet, other_rule)] {
            let fleet = Fleet::new(fleet, server.clone()).unwrap().with_clock(clock);
            let config = RegistryConfig::default();
            let process = fleet.rules(Arc::new(Registry::with_clock(config, clock)));
            let text = format!(
                "[[rule]]\nname = \"{rule}\"\nresource = \"a\"\nlimit = \"1 per hour\"\n\
                 over = \"fleet\"\n"
            );
            process.apply(&RuleSet::parse(&text).unwrap());
            rules.push(process);
        }
        sleep(SECOND * 5_000).await;
        for process in &rules {
            assert_eq!(admitted(&[process], SECOND).await, 1, "{fleet:?} {rule:?}");
        }
    }
}

#[test]
fn rule_without_a_fleet_decides_as_if_the_server_was_away() {
    for (away, is_open) in [("", false), ("away = \"open\"", true)] {
        let rules = Rules::new(Arc::new(Registry::new()));
        let changes = rules.apply(&limit(100, away));
        assert_eq!(changes.not_started, [Arc::from("r")]);
        assert_eq!(is_admitted(&rules), is_open);
        assert!(rules.leases().is_empty());
        // Also after a change of the numbers, and back to one process.
        assert_eq!(rules.apply(&limit(200, away)).not_started, [Arc::from("r")]);
        assert_eq!(is_admitted(&rules), is_open);
        assert!(rules.apply(&file("limit = \"1 per hour\"")).not_started.is_empty());
        assert!(is_admitted(&rules) && !is_admitted(&rules));
    }
}
