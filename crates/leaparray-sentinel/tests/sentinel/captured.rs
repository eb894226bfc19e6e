//! The captured exchanges.

use std::time::Duration;

use leaparray::TrafficType;

use crate::service::Service;

/// Records the second of the captured line, one with a name that has a bar, and what the captured
/// status is of.
fn record(service: &Service) {
    let registry = &service.registry;
    let outbound = |name| registry.resource_with(name, TrafficType::Outbound).unwrap();
    let hello = outbound("HelloWorld");
    for request in 0..20 {
        let entry = hello.enter();
        service.clock.advance(Duration::from_millis(5));
        if request < 2 { entry.exception() } else { entry.success() }
    }
    (0..85).for_each(|_| hello.block());
    service.pass(900);
    let bar = outbound("a|b");
    let in_flight = bar.enter();
    service.pass(1_700);
    let inbound = registry.resource("GET /orders").unwrap();
    for request in 0..20 {
        let entry = inbound.enter();
        service.clock.advance(Duration::from_millis(if request < 14 { 7 } else { 6 }));
        if request == 0 { entry.exception() } else { entry.success() }
    }
    (0..44).for_each(|_| inbound.block());
    in_flight.success();
}

#[tokio::test]
async fn answers_are_those_that_were_captured() {
    let service = Service::new();
    record(&service);
    let blocks = include_str!("exchanges.txt").split("\n> ").skip(1);
    let mut count = 0;
    for block in blocks {
        let (request, answer) = block.split_once("\n< ").expect(block);
        let (status, body) = answer.split_once('\n').expect(block);
        let mut words = request.splitn(3, ' ');
        let answered = match (words.next(), words.next(), words.next()) {
            (Some("GET"), Some(path), None) => service.get(path).await,
            (Some("POST"), Some(path), Some(form)) => service.post(path, form).await,
            _ => panic!("{request}"),
        };
        let is_metric = request.contains("startTime");
        let expected =
            if is_metric { body.trim_start().to_owned() } else { body.trim_end().into() };
        let expected = if is_metric { expected.trim_end().to_owned() + "\n" } else { expected };
        assert_eq!(answered, (status.parse().unwrap(), expected), "{request}");
        count += 1;
    }
    assert_eq!(count, 18);
}

#[tokio::test]
async fn lines_are_of_whole_seconds_from_the_start_to_the_end() {
    let service = Service::new();
    let resource = service.registry.resource("a").unwrap();
    for _ in 0..4 {
        resource.enter().success();
        service.pass(1_000);
    }
    // The last second ended now: threads that were in it may not have recorded yet.
    let lines = async |query: &str| {
        let (status, text) = service.get(&format!("/metric?{query}")).await;
        assert_eq!(status, 200, "{text}");
        let names = ["__cpu_usage__", "__system_load__"];
        let is_of_machine = |it: &&str| names.contains(&it.split('|').nth(1).unwrap());
        text.lines().filter(|it| !is_of_machine(it)).map(str::to_owned).collect::<Vec<_>>()
    };
    let all = lines("startTime=0").await;
    assert_eq!(
        all,
        [
            "1795845600000|a|1|0|1|0|0|0|1|0",
            "1795845600000|__total_inbound_traffic__|1|0|1|0|0|0|1|0",
            "1795845601000|a|1|0|1|0|0|0|1|0",
            "1795845601000|__total_inbound_traffic__|1|0|1|0|0|0|1|0",
            "1795845602000|a|1|0|1|0|0|0|1|0",
            "1795845602000|__total_inbound_traffic__|1|0|1|0|0|0|1|0",
        ]
    );
    service.pass(500);
    assert_eq!(lines("startTime=0").await.len(), 8);
    assert_eq!(lines("startTime=1795845601000&endTime=1795845602999").await, all[2..]);
    assert_eq!(lines("startTime=1795845601999&endTime=1795845601000").await, all[2..4]);
    assert_eq!(lines("startTime=0&identity=a").await.len(), 4);
    // No second is divided.
    assert_eq!(lines("startTime=0&maxLines=3").await, all[..4]);
    service.pass(17_499);
    assert_eq!(lines("startTime=0").await.len(), 6, "20 seconds are kept");
    let (status, text) = service.get("/metric?startTime=now").await;
    assert_eq!(status, 400);
    assert_eq!(text, "startTime is \"now\"; write a whole number of milliseconds or lines");
}

#[tokio::test]
async fn machine_has_lines_without_an_identity_only() {
    let service = Service::new();
    let first = service.get("/metric?startTime=0").await.1;
    assert!(!first.contains("__cpu_usage__"), "a share is between two readings: {first}");
    let (_, of_one) = service.get("/metric?startTime=0&identity=a").await;
    assert_eq!(of_one, "");
}

/// Sentinel appends them: first the load, then the processors.
#[tokio::test]
async fn lines_of_the_machine_come_last() {
    let service = Service::new();
    service.registry.resource("a").unwrap().block();
    service.pass(1_500);
    let mut names = Vec::new();
    // A share is between two readings, and 0 within a tick of the processor.
    for _ in 0..2_000 {
        let (_, text) = service.get("/metric?startTime=0").await;
        names = text.lines().map(|it| it.split('|').nth(1).unwrap().to_owned()).collect();
        if names.iter().any(|it| it == "__cpu_usage__") {
            break;
        }
    }
    let of_machine = ["__system_load__", "__cpu_usage__"];
    let found: Vec<_> = names.iter().filter(|it| of_machine.contains(&&***it)).cloned().collect();
    assert_eq!(names[..2], ["a", "__total_inbound_traffic__"]);
    assert_eq!(names[2..], found);
    // A machine may be idle, or tell neither.
    if found.len() == 2 {
        assert_eq!(found, of_machine);
    }
}

#[tokio::test]
async fn api_lists_each_command() {
    let service = Service::new();
    let (_, api) = service.get("/api").await;
    assert!(api.contains("\"url\":\"/metric\""), "{api}");
    assert_eq!(api.matches("\"url\"").count(), 15);
    let (_, info) = service.get("/basicInfo").await;
    assert!(
        info.starts_with("{\n\t\"machine\": \"") && info.contains("\",\n\t\"ip\": \""),
        "{info}"
    );
}
