use leaparray_web::format::{Message, RuleList, RuleRow, RuleSourceState};

use super::Server;
use super::client::{get, text};

fn rules() -> RuleList {
    let mut rules = RuleList::default();
    rules.source = Some("limits.toml".into());
    rules.state = RuleSourceState::Away;
    rules.rules.push(RuleRow::new("orders", "GET /orders", "1000 per second"));
    rules
}

#[tokio::test]
async fn stream_and_snapshot_have_the_rules() {
    let server = Server::with(|page| page.rules(|| Some(rules()))).await;
    let mut stream = server.lines("").await;
    let update = loop {
        if let Message::Rules(update) = stream.message().await.expect("the rules") {
            break update;
        }
    };
    assert_eq!(update.rules, Some(rules()));
    let answer = text(get(server.address, "/snapshot", &[]).await).await;
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(serde_json::from_value::<RuleList>(answer["rules"].clone()).unwrap(), rules());
}

#[tokio::test]
async fn snapshot_of_a_page_without_rules_has_no_field_of_them() {
    let server = Server::start().await;
    let answer = text(get(server.address, "/snapshot", &[]).await).await;
    assert!(!answer.contains("\"rules\""), "{answer}");
}
