//! A reader follows the live page's stream. At rest, it has every request of the service, and it
//! does not hold up the end.

use std::collections::HashMap;
use std::io::BufReader;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leaparray::MetricEvent::{Block, Exception, Pass, Success};
use leaparray_web::Token;
use leaparray_web::format::{ByeReason, Message, Reader};
use tokio::net::TcpListener;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use crate::load::Load;
use crate::metrics::Metrics;
use crate::page;
use crate::route::Route;
use crate::server::Server;

/// The passes, the blocks, the successes and the exceptions of each resource, by its name.
type Counts = HashMap<String, [u64; 4]>;

#[tokio::test(flavor = "multi_thread")]
async fn reader_of_the_page_has_every_request() {
    let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.unwrap();
    let address = listener.local_addr().unwrap();
    let metrics = Metrics::new();
    let limits = super::limits(&metrics, &[]);
    let token = Token::random();
    let server = Server::start(listener, &metrics, &limits, &token);
    let url = format!("http://{address}{}/stream", page::PATH);
    let counts = Arc::new(Mutex::new(Counts::new()));
    let of_reader = Arc::clone(&counts);
    let reader = spawn_blocking(move || count_until_the_end(&url, &token, &of_reader));
    let load = Load::start(address, 4);
    sleep(Duration::from_secs(2)).await;
    load.stop().await;
    let expected = Route::ALL.map(|route| {
        let totals = metrics.of(route).lifetime();
        (route.path(), [Pass, Block, Success, Exception].map(|event| totals.sum(event)))
    });
    let has_all = || {
        let counts = counts.lock().unwrap();
        expected.iter().all(|(path, expected)| counts.get(*path) == Some(expected))
    };
    // Its last second is complete a second later.
    let comes = async {
        while !has_all() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    let in_time = timeout(Duration::from_secs(60), comes).await.is_ok();
    assert!(in_time, "{:?}, not {expected:?}", counts.lock().unwrap());
    let (_, has_ended) = server.stop_within(Duration::from_secs(60)).await;
    assert!(has_ended, "an open stream holds the server up");
    assert_eq!(reader.await.unwrap(), Some(ByeReason::Closing), "the server ends the stream");
    assert!(has_all(), "each request was counted once");
}

/// Adds the counts of all seconds. Returns why the stream has ended, if the server has said so.
fn count_until_the_end(url: &str, token: &Token, counts: &Mutex<Counts>) -> Option<ByeReason> {
    let bearer = format!("Bearer {}", token.as_str());
    let response = ureq::get(url).header("authorization", bearer).call().unwrap();
    let mut names = HashMap::new();
    for message in Reader::new(BufReader::new(response.into_body().into_reader())) {
        match message.unwrap() {
            Message::Resources(resources) => {
                names.extend(resources.resources.into_iter().map(|it| (it.id, it.name)));
            }
            Message::Second(second) => {
                names.extend(second.new.into_iter().map(|it| (it.id, it.name)));
                for row in second.rows {
                    let mut counts = counts.lock().unwrap();
                    let [pass, block, success, exception] =
                        counts.entry(names[&row.id].clone()).or_default();
                    *pass += row.counts.events[Pass];
                    *block += row.counts.events[Block];
                    *success += row.counts.events[Success];
                    *exception += row.counts.events[Exception];
                }
            }
            Message::Bye(bye) => return Some(bye.reason),
            _ => {}
        }
    }
    None
}
