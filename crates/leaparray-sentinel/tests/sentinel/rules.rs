//! Rules that are pushed are in force as a whole, or not at all.

use leaparray_rules::{Document, Rules, SentinelKind};
use leaparray_sentinel::{RuleBook, SetError};

use crate::service::{Service, encoded};

#[tokio::test]
async fn pushed_rule_decides_from_the_next_request_on() {
    let service = Service::new();
    assert_eq!(service.admitted("pay", 10), 10);
    let pushed = service.set("flow", r#"[{"resource":"pay","grade":1,"count":3.0}]"#).await;
    assert_eq!(pushed, (200, "success".into()));
    service.pass(1_000);
    assert_eq!(service.admitted("pay", 10), 3);
    // The change of a number forgets nothing.
    assert_eq!(service.set("flow", r#"[{"resource":"pay","count":5}]"#).await.0, 200);
    assert_eq!(service.admitted("pay", 10), 2);
    assert_eq!(service.set("FLOW", "[]").await.0, 200);
    assert_eq!(service.admitted("pay", 10), 10);
}

#[tokio::test]
async fn kinds_are_beside_each_other() {
    let service = Service::new();
    assert_eq!(service.set("flow", r#"[{"resource":"a","count":3}]"#).await.0, 200);
    assert_eq!(service.set("system", r#"[{"qps":4}]"#).await.0, 200);
    let parameters = encoded(r#"[{"resource":"a","paramIdx":0,"count":1}]"#);
    let form = format!("data={parameters}");
    assert_eq!(service.post("/setParamFlowRules", &form).await, (200, "success".into()));
    assert_eq!(service.admitted("b", 10), 4);
    service.pass(1_000);
    assert_eq!(service.admitted("a", 10), 3);
    for (path, expected) in [
        ("/getRules?type=flow", r#"[{"count":3,"resource":"a"}]"#),
        ("/getRules?type=system", r#"[{"qps":4}]"#),
        ("/getRules?type=degrade", "[]"),
        ("/getParamFlowRules", r#"[{"count":1,"paramIdx":0,"resource":"a"}]"#),
    ] {
        assert_eq!(service.get(path).await, (200, expected.into()), "{path}");
    }
}

#[tokio::test]
async fn rule_that_cannot_be_kept_is_refused_with_all_others() {
    let service = Service::new();
    assert_eq!(service.set("flow", r#"[{"resource":"a","count":3}]"#).await.0, 200);
    let two = r#"[{"resource":"a","count":9},{"resource":"b","count":1,"strategy":3}]"#;
    let (status, text) = service.set("flow", two).await;
    assert_eq!(status, 400);
    assert_eq!(
        text,
        "flow:1: rule \"flow b\": strategy: 3 is not kept: there is no such strategy; write \
         0, 1 or 2"
    );
    assert_eq!(service.admitted("a", 10), 3);
    assert_eq!(service.get("/getRules?type=flow").await.1, r#"[{"count":3,"resource":"a"}]"#);
    let (status, text) = service.set("flow", "[{\"resource\":").await;
    assert!(status == 400 && text.starts_with("flow:1: "), "{text}");
    assert_eq!(service.post("/setRules", "type=flow").await.0, 400);
    assert_eq!(service.post("/setRules", "type=flow&data=%FF").await.0, 400);
    assert_eq!(service.admitted("a", 10), 0);
    // Only a program with a fleet can limit all processes.
    let over = r#"[{"resource":"a","count":3,"clusterMode":true,"clusterConfig":{"flowId":1,"thresholdType":1}}]"#;
    let (status, text) = service.set("flow", over).await;
    assert!(status == 400 && text.contains("clusterMode"), "{text}");
}

#[tokio::test]
async fn json_that_cannot_be_shown_is_refused() {
    let service = Service::new();
    assert_eq!(service.set("flow", r#"[{"resource":"a","count":3}]"#).await.0, 200);
    let brackets = format!("{}{}", "[".repeat(200), "]".repeat(200));
    for field in [r#""count":1e999"#, r#""count":9,"note":"\ud800""#, r#""count":9,"note":1e999"#] {
        let json = format!(r#"[{{"resource":"a",{field}}}]"#);
        let (status, text) = service.set("flow", &json).await;
        assert!(status == 400 && text.starts_with("flow:1: no JSON array: "), "{text}");
    }
    let deep = format!(r#"[{{"resource":"a","count":9,"note":{brackets}}}]"#);
    assert_eq!(service.set("flow", &deep).await.0, 400);
    assert_eq!(service.admitted("a", 10), 3);
    assert_eq!(service.get("/getRules?type=flow").await.1, r#"[{"count":3,"resource":"a"}]"#);
}

#[tokio::test]
async fn data_is_decoded_once() {
    let service = Service::new();
    for name in ["a+b", "c%25d", "100%", "é 漢"] {
        let json = format!(r#"[{{"count":1,"resource":"{name}"}}]"#);
        assert_eq!(service.set("flow", &json).await, (200, "success".into()), "{name}");
        assert_eq!(service.get("/getRules?type=flow").await.1, json);
        assert_eq!(service.admitted(name, 3), 1, "{name}");
        // By GET, as a dashboard sends it to a client before 1.6.0.
        let data = encoded(&json.replace(":1", ":2"));
        assert_eq!(service.get(&format!("/setRules?type=flow&data={data}")).await.0, 200);
        assert_eq!(service.admitted(name, 3), 1, "one of two was left");
    }
}

#[tokio::test]
async fn switch_leaves_all_rules_aside_and_keeps_their_state() {
    let service = Service::new();
    service.set("flow", r#"[{"resource":"a","count":3}]"#).await;
    assert_eq!(service.admitted("a", 2), 2);
    let off = service.get("/setSwitch?value=false").await;
    assert_eq!(off, (200, "Sentinel set switch value: false".into()));
    assert_eq!(service.get("/getSwitch").await.1, "Sentinel switch value: false");
    assert_eq!(service.admitted("a", 10), 10);
    assert_eq!(service.set("flow", r#"[{"resource":"a","count":4}]"#).await.0, 200);
    assert_eq!(service.admitted("a", 10), 10, "it stays off");
    assert_eq!(service.get("/setSwitch?value=true").await.0, 200);
    service.pass(1_000);
    assert_eq!(service.admitted("a", 10), 4);
    assert_eq!(service.get("/setSwitch?value=maybe").await.0, 400);
    assert!(service.book.is_on());
}

fn book() -> RuleBook {
    RuleBook::new(Rules::new(std::sync::Arc::default()))
}

#[test]
fn rules_of_the_service_stay() {
    let base = |rule: &str| {
        let text = format!("[[rule]]\nname = \"{rule}\"\nresource = \"a\"\nlimit = \"9 per hour\"");
        Document::new("limits.toml", text)
    };
    let book = book().base(base("mine")).unwrap();
    book.set(SentinelKind::Flow, r#"[{"resource":"a","count":3}]"#).unwrap();
    let names = || book.rules().rules().iter().map(|it| it.name.to_string()).collect::<Vec<_>>();
    assert_eq!(names(), ["mine", "flow a"]);
    book.set(SentinelKind::Flow, "[]").unwrap();
    assert_eq!(names(), ["mine"]);
    let same_name = book
        .base(base("flow a"))
        .unwrap()
        .set(SentinelKind::Flow, "[{\"resource\":\"a\",\"count\":1}]");
    assert!(matches!(same_name, Err(SetError::Wrong(_))), "{same_name:?}");
}

#[test]
fn rules_survive_a_restart_in_their_folder() {
    let folder = tempfile::tempdir().unwrap();
    let open = || book().folder(folder.path());
    let json = r#"[{"resource":"a","count":3}]"#;
    open().unwrap().set(SentinelKind::Flow, json).unwrap();
    let again = open().unwrap();
    assert_eq!(again.json(SentinelKind::Flow), r#"[{"count":3,"resource":"a"}]"#);
    assert_eq!(again.rules().rules().len(), 1);
    assert!(again.set(SentinelKind::Flow, "{}").is_err());
    let path = folder.path().join("flow.json");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), json);
    std::fs::write(&path, "[{\"resource\":\"a\"").unwrap();
    assert!(matches!(open(), Err(SetError::Wrong(_))));
}

#[test]
fn rules_that_cannot_be_stored_are_not_in_force() {
    let folder = tempfile::tempdir().unwrap();
    let book = book().folder(folder.path()).unwrap();
    book.set(SentinelKind::Flow, r#"[{"resource":"a","count":3}]"#).unwrap();
    let path = folder.path().to_owned();
    drop(folder);
    assert!(!path.exists());
    let error = book.set(SentinelKind::Flow, r#"[{"resource":"b","count":3}]"#).unwrap_err();
    assert!(matches!(error, SetError::Store(_)), "{error}");
    assert_eq!(&*book.rules().rules()[0].name, "flow a");
    assert_eq!(book.json(SentinelKind::Flow), r#"[{"count":3,"resource":"a"}]"#);
}

/// Rules with all fields, in the order in which the dashboard's serializer writes them.
const PUSHED: [(&str, &str); 5] = [
    (
        "flow",
        r#"[{"clusterConfig":{"acquireRefuseStrategy":0,"clientOfflineTime":2000,"fallbackToLocalWhenFail":true,"resourceTimeout":2000,"resourceTimeoutStrategy":0,"sampleCount":10,"strategy":0,"thresholdType":0,"windowIntervalMs":1000},"clusterMode":false,"controlBehavior":0,"count":20.0,"grade":1,"id":1,"limitApp":"default","maxQueueingTimeMs":500,"regex":false,"resource":"GET /orders","strategy":0,"warmUpPeriodSec":10}]"#,
    ),
    (
        "degrade",
        r#"[{"count":0.5,"grade":1,"id":2,"limitApp":"default","minRequestAmount":5,"regex":false,"resource":"pay","slowRatioThreshold":1.0,"statIntervalMs":1000,"timeWindow":5}]"#,
    ),
    (
        "system",
        r#"[{"avgRt":-1,"highestCpuUsage":-1.0,"highestSystemLoad":-1.0,"id":3,"limitApp":"default","maxThread":-1,"qps":100.0,"regex":false}]"#,
    ),
    (
        "authority",
        r#"[{"id":4,"limitApp":"shop,bot","regex":false,"resource":"pay","strategy":0}]"#,
    ),
    (
        "paramFlow",
        r#"[{"burstCount":0,"clusterConfig":{"fallbackToLocalWhenFail":false,"sampleCount":10,"thresholdType":0,"windowIntervalMs":1000},"clusterMode":false,"controlBehavior":0,"count":5.0,"durationInSec":1,"grade":1,"id":5,"limitApp":"default","maxQueueingTimeMs":0,"paramFlowItemList":[{"classType":"int","count":9,"object":"7"}],"paramIdx":0,"regex":false,"resource":"pay"}]"#,
    ),
];

#[tokio::test]
async fn rules_of_the_dashboard_are_read_back_as_they_were_pushed() {
    let service = Service::new();
    for (kind, json) in PUSHED {
        let (pushed, read) = if kind == "paramFlow" {
            let form = format!("data={}", encoded(json));
            (service.post("/setParamFlowRules", &form).await, "/getParamFlowRules".to_owned())
        } else {
            (service.set(kind, json).await, format!("/getRules?type={kind}"))
        };
        assert_eq!(pushed, (200, "success".into()), "{kind}");
        assert_eq!(service.get(&read).await, (200, json.into()), "{kind}");
    }
    // One of each, and one for the value that has a count of its own.
    assert_eq!(service.book.rules().rules().len(), 6);
}
