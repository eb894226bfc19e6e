use leaparray_web::format::{Fleet, FleetProcess, FleetProcessState, Message};

use super::Server;
use super::client::{get, text};

fn fleet() -> Fleet {
    let mut fleet = Fleet::new("orders");
    fleet.newest_final = Some(999);
    fleet.processes.push(FleetProcess::new("00ff", "web-1", FleetProcessState::Lost));
    fleet
}

#[tokio::test]
async fn stream_and_snapshot_have_the_fleet() {
    let server = Server::with(|page| page.fleet(|| Some(fleet()))).await;
    let mut stream = server.lines("").await;
    let update = loop {
        if let Message::Fleet(update) = stream.message().await.expect("a fleet") {
            break update;
        }
    };
    assert_eq!(update.fleet, Some(fleet()));
    let answer = text(get(server.address, "/snapshot", &[]).await).await;
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(serde_json::from_value::<Fleet>(answer["fleet"].clone()).unwrap(), fleet());
}

#[tokio::test]
async fn snapshot_of_a_page_without_a_fleet_has_no_field_of_it() {
    let server = Server::start().await;
    let answer = text(get(server.address, "/snapshot", &[]).await).await;
    assert!(!answer.contains("fleet"), "{answer}");
}
