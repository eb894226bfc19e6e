//! A text of an HTTP server.

use std::io::{BufRead, BufReader, Write};
use std::iter;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use leaparray_rules::{Event, Follow, FollowError, Rules, SourceState};

use super::{away, changed, follow, next, rule};
use crate::DEADLINE;
use crate::server::{Server, free_port};

const OFTEN: Duration = Duration::from_millis(10);

/// The answer of the server of the tests.
#[derive(Clone, Default)]
struct Answer {
    status: u16,
    tag: Option<&'static str>,
    text: String,
    /// Whether only a half of the text comes.
    is_slow: bool,
    framing: Framing,
    location: Option<String>,
}

/// How the end of a text is told.
#[derive(Clone, Copy, Default)]
enum Framing {
    #[default]
    Length,
    Chunks,
    /// By the end of the connection.
    Close,
    /// By a length, but the connection ends after a half.
    CutLength,
    /// By a last chunk, but the connection ends before it.
    CutChunks,
}

/// Starts a server. Returns its URL, its answer, and the requests that it has seen: whether each
/// had the tag.
type Seen = Arc<Mutex<Vec<bool>>>;

fn start(answer: Answer) -> (String, Arc<Mutex<Answer>>, Seen) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!("http://user:secret@{}/limits.toml", listener.local_addr().unwrap());
    let (answer, seen) = (Arc::new(Mutex::new(answer)), Seen::default());
    let (given, list) = (Arc::clone(&answer), Arc::clone(&seen));
    thread::spawn(move || {
        let mut slow = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let head: Vec<_> =
                lines.map_while(Result::ok).take_while(|it| !it.is_empty()).collect();
            let Answer { status, tag, text, is_slow, framing, location } =
                given.lock().unwrap().clone();
            let known = head.iter().find_map(|it| it.strip_prefix("if-none-match: "));
            list.lock().unwrap().push(known.is_some());
            let is_known = status == 200 && known.is_some() && known == tag;
            let (status, text) = if is_known { (304, String::new()) } else { (status, text) };
            let tag = tag.map_or_else(String::new, |it| format!("etag: {it}\r\n"));
            let to = location.map_or_else(String::new, |it| format!("location: {it}\r\n"));
            let head = format!("HTTP/1.1 {status} x\r\n{tag}{to}connection: close\r\n");
            let half = &text[..text.len() / 2];
            let length = format!("content-length: {}\r\n\r\n", text.len());
            let chunk =
                |it: &str| format!("transfer-encoding: chunked\r\n\r\n{:x}\r\n{it}\r\n", it.len());
            let sent = match framing {
                Framing::Length if is_slow => length + half,
                Framing::Length => length + &text,
                Framing::Chunks => chunk(&text) + "0\r\n\r\n",
                Framing::Close => format!("\r\n{text}"),
                Framing::CutLength => length + half,
                Framing::CutChunks => chunk(half),
            };
            let _ = stream.write_all(format!("{head}{sent}").as_bytes());
            if is_slow {
                slow.push(stream);
            }
        }
    });
    (url, answer, seen)
}

fn good(tag: Option<&'static str>, burst: u64) -> Answer {
    Answer { status: 200, tag, text: rule("a", burst), ..Answer::default() }
}

#[test]
fn text_that_stays_is_not_sent_again() {
    let (url, answer, seen) = start(good(Some("\"1\""), 1));
    let (rules, events) = follow(Follow::http(url).every(OFTEN));
    let name = rules.status().source.unwrap().name;
    assert!(name.starts_with("http://127.0.0.1:"), "without its credentials: {name}");
    *answer.lock().unwrap() = good(Some("\"2\""), 2);
    assert_eq!(changed(&events), [Arc::from("a")]);
    // A server that has no tags.
    *answer.lock().unwrap() = good(None, 3);
    assert_eq!(changed(&events), [Arc::from("a")]);
    *answer.lock().unwrap() = good(None, 4);
    assert_eq!(changed(&events), [Arc::from("a")]);
    let seen = seen.lock().unwrap();
    assert!(!seen[0] && seen[1], "{seen:?}");
    assert!(!seen[seen.len() - 1], "{seen:?}");
}

#[test]
fn server_with_another_status_is_away() {
    let (url, answer, _) = start(good(Some("\"1\""), 1));
    let (rules, events) = follow(Follow::http(url).every(OFTEN));
    for status in [404, 500, 204] {
        *answer.lock().unwrap() = Answer { status, ..Answer::default() };
        let error = away(&events);
        assert!(error.contains(&format!("status {status}")), "{error}");
        *answer.lock().unwrap() = good(Some("\"1\""), 1);
        assert!(matches!(next(&events), Event::Applied(it) if it.is_empty()));
    }
    *answer.lock().unwrap() = Answer { text: "rule = 1".to_owned(), ..good(Some("\"3\""), 2) };
    let Event::Wrong(problems) = next(&events) else { panic!() };
    assert!(problems.to_string().starts_with("http://127.0.0.1:"), "{problems}");
    assert_eq!(rules.rules().len(), 1, "the last good ones");
    *answer.lock().unwrap() = good(Some("\"4\""), 2);
    assert_eq!(changed(&events), [Arc::from("a")]);
}

#[test]
fn server_that_is_slow_is_away() {
    let (url, answer, _) = start(Answer { is_slow: true, ..good(None, 1) });
    let source = Follow::http_within(url, Duration::from_millis(300)).every(OFTEN).may_be_away();
    // In a thread: without a time-out, it does not return.
    let (sender, begun) = channel();
    thread::spawn(move || drop(sender.send(follow(source))));
    let (rules, events) = begun.recv_timeout(DEADLINE).expect("the server is away in time");
    let SourceState::Away { error, .. } = rules.status().source.unwrap().state else { panic!() };
    assert!(error.contains("timeout"), "{error}");
    *answer.lock().unwrap() = good(None, 2);
    // On a busy machine, an answer of the server may be slow as well.
    let applied = iter::repeat_with(|| next(&events)).find(|it| matches!(it, Event::Applied(_)));
    assert!(matches!(applied, Some(Event::Applied(it)) if it.added == [Arc::from("a")]));
}

/// No server answers in a nanosecond.
#[test]
fn server_has_the_time_that_the_program_gives_it() {
    let (url, ..) = start(good(None, 1));
    let rules = Rules::new(Arc::new(leaparray::Registry::new()));
    let source = Follow::http_within(url, Duration::from_nanos(1));
    let error = rules.follow(source).unwrap_err().to_string();
    assert!(error.contains("timeout"), "{error}");
}

#[test]
fn part_of_a_text_drops_no_rules() {
    let (first, both) = (rule("a", 1), rule("a", 1) + &rule("b", 1));
    let answer = |text: &str, framing| Answer {
        status: 200,
        text: text.to_owned(),
        framing,
        ..Answer::default()
    };
    let (url, given, _) = start(answer(&both, Framing::Chunks));
    let (rules, events) = follow(Follow::http(url).every(OFTEN));
    // The half of `both` is `first`. Its length is not known, or the connection ends before.
    for (text, framing) in [
        (&first, Framing::Close),
        (&both, Framing::Close),
        (&both, Framing::CutLength),
        (&both, Framing::CutChunks),
    ] {
        *given.lock().unwrap() = answer(text, framing);
        away(&events);
        assert_eq!(rules.rules().len(), 2);
        *given.lock().unwrap() = answer(&both, Framing::Length);
        assert!(matches!(next(&events), Event::Applied(it) if it.is_empty()));
    }
}

/// The server sends a file that is being written, of which the half counts if it stays a second.
#[test]
fn half_of_a_file_of_a_server_counts_when_it_stays() {
    let (first, both) = (rule("a", 1), rule("a", 1) + &rule("b", 1));
    let answer = |text: &str| Answer { status: 200, text: text.to_owned(), ..Answer::default() };
    let (url, given, _) = start(answer(&both));
    let (_rules, events) = follow(Follow::http(url).every(OFTEN));
    let since = Instant::now();
    *given.lock().unwrap() = answer(&first);
    assert!(matches!(next(&events), Event::Applied(it) if it.removed == [Arc::from("b")]));
    assert!(since.elapsed() >= Duration::from_secs(1));
}

#[test]
fn redirect_is_not_followed() {
    let (other, _, _) = start(good(None, 9));
    let (url, given, _) = start(good(None, 1));
    let (rules, events) = follow(Follow::http(url).every(OFTEN));
    *given.lock().unwrap() = Answer { status: 302, location: Some(other), ..Answer::default() };
    assert!(away(&events).contains("status 302"));
    assert_eq!(rules.rules().len(), 1);
}

#[test]
fn name_of_a_source_has_no_secrets() {
    for (url, name) in [
        ("http://h:1/x?accessToken=s3cret", "http://h:1/x"),
        ("http://h:1/x#s3cret", "http://h:1/x"),
        ("http://user:s3cret@h:1/x", "http://h:1/x"),
        ("http://user:s3^cret@h:1/x", "http://h:1/x"),
        ("user:s3cret word@h:1/x", "h:1/x"),
        ("user:s3cret@h:1/x?from=http://y", "h:1/x"),
        ("user:s3://cret@h:1/x", "h:1/x"),
        ("http://user:s3/cret@h:1/x", "http://h:1/x"),
        ("http://user:s3@cret@h:1/x?s3cret", "http://h:1/x"),
        ("http://user:s3#cret@h:1/x", "http://…"),
        ("http://user:s3?cret@h:1/x", "http://…"),
        ("http://h:1/x?mail=a@b&accessToken=s3cret", "http://…"),
        ("http://user:s3 cret@h:1/x", "http://h:1/x"),
    ] {
        let follow = Follow::http(url);
        assert!(format!("{follow:?}").contains(&format!("name: {name:?}")), "{url}: {follow:?}");
    }
    // Nor has the error that the URL does not parse.
    for url in ["http://user:s3 cret@h:1/x", "http://h:1/x y?s3cret", "s3cret@"] {
        let rules = Rules::new(Arc::new(leaparray::Registry::new()));
        let error = rules.follow(Follow::http(url)).unwrap_err().to_string();
        assert!(!error.contains("s3") && !error.contains("cret"), "{url}: {error}");
    }
}

#[cfg(feature = "etcd")]
#[test]
fn name_of_etcd_has_no_secrets() {
    let follow = Follow::etcd(["http://user:s3^cret@h:1/"], "limits");
    assert!(format!("{follow:?}").contains("name: \"http://h:1: key "), "{follow:?}");
    let rules = Rules::new(Arc::new(leaparray::Registry::new()));
    let error = rules.follow(Follow::etcd(["http://user:s3 cret@h:1"], "limits")).unwrap_err();
    assert!(!error.to_string().contains("cret"), "{error}");
}

#[cfg(feature = "etcd")]
#[test]
fn error_of_etcd_is_cut() {
    let (url, _, _) =
        start(Answer { status: 500, text: "no ".repeat(10_000), ..Answer::default() });
    let rules = Rules::new(Arc::new(leaparray::Registry::new()));
    let error = rules.follow(Follow::etcd([url], "limits")).unwrap_err().to_string();
    assert!(error.contains("no no no"), "{error}");
    assert!(error.len() < 400, "{}", error.len());
}

#[test]
fn server_that_is_away_to_begin_with_is_told() {
    // Nothing listens there, and no other test gets the port.
    let reserved = tokio::net::TcpSocket::new_v4().unwrap();
    reserved.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let url = format!("http://{}/", reserved.local_addr().unwrap());
    let rules = Rules::new(Arc::new(leaparray::Registry::new()));
    let error = rules.follow(Follow::http(&url)).unwrap_err();
    assert!(matches!(error, FollowError::Away { .. }), "{error}");
    assert!(error.to_string().starts_with(&url), "{error}");
}

#[test]
#[ignore = "needs nginx"]
fn file_of_nginx_is_followed() {
    let (port, folder) = (free_port(), tempfile::tempdir().unwrap());
    let root = folder.path().to_str().unwrap().to_owned();
    let file = folder.path().join("limits.toml");
    std::fs::write(&file, rule("a", 1)).unwrap();
    let configuration = format!(
        "daemon off; master_process off; pid {root}/pid; error_log {root}/error; events {{}} http {{ access_log \
         {root}/access; client_body_temp_path {root}/b; proxy_temp_path {root}/p; \
         fastcgi_temp_path {root}/f; uwsgi_temp_path {root}/u; scgi_temp_path {root}/s; server {{ \
         listen 127.0.0.1:{port}; root {root}; }} }}"
    );
    let path = folder.path().join("nginx.conf");
    std::fs::write(&path, configuration).unwrap();
    let log = folder.path().join("access");
    let arguments = ["-c", path.to_str().unwrap(), "-p", &root];
    let test = "file_of_nginx_is_followed";
    let Some(mut server) = Server::start(test, "nginx", port, folder, &arguments) else { return };
    let url = format!("http://127.0.0.1:{port}/limits.toml");
    let (rules, events) = follow(Follow::http(url).every(Duration::from_millis(50)));
    // Its tag has the length and the second.
    std::fs::write(&file, rule("a", 10)).unwrap();
    assert_eq!(changed(&events), [Arc::from("a")]);
    while rules.status().source.unwrap().readings < 5 {
        thread::sleep(OFTEN);
    }
    let statuses = std::fs::read_to_string(&log).unwrap();
    assert!(statuses.contains("\" 304 "), "{statuses}");
    std::fs::remove_file(&file).unwrap();
    assert!(away(&events).contains("status 404"));
    std::fs::write(&file, rule("a", 100)).unwrap();
    assert_eq!(changed(&events), [Arc::from("a")]);
    server.kill();
    away(&events);
    server.start_again();
    assert!(matches!(next(&events), Event::Applied(it) if it.is_empty()));
}
