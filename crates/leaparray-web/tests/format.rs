//! The format: what a reader accepts and what it refuses.

use leaparray::MetricEvent::{Block, Pass, ReservedPass};
use leaparray_web::format::{
    ByeReason, ChangeKind, ControllerState, Counts, Direction, FleetProcessState, FleetStanding,
    Message, ReadError, Reader, RuleSourceState, VERSION,
};

const HELLO: &str = r#"{"type":"hello","version":2,"instance":"9f3c","name":"orders-api","host":"web-3","pid":4127,"started":1764035000.25,"now":1764040000.02,"history":60,"has_seconds":true,"reasons":["limit reached"]}"#;
const RESOURCES: &str = r#"{"type":"resources","resources":[[1,"GET /orders",null,"in",null],[2,"GET /orders","web","in",null],[3,"db",null,"out",1764039990]]}"#;
const SECOND: &str = r#"{"type":"second","t":1764039999,"new":[],"gone":[7],"total":[2,1,0,0,3,1,2,1,5,5,5,5,5,5,5,0],"rows":[[1,2,1,0,0,3,null,2,1,5,5,null,null,null,null,5,0]],"refused":[[1,3,0,0,0,0,0]],"controllers":[{"resource":"POST /pay","kind":"circuit","state":"open","probe_in":0.7,"cause":"share of exceptions"},{"resource":"GET /slow","kind":"limit","limit":40,"remaining":12},{"resource":"GET /x","kind":"drop","probability":0.97}],"ledger":{"in_window":5,"expired":1,"late":0,"delisted":0,"recorded":6,"age":0}}"#;
const DETAIL: &str = r#"{"type":"detail","id":1,"t":1764039999,"scale":2,"seconds":[[1764039999,[[-14,2],[-3,1]]]],"second":[2,1,0,0,3,1,2,1,5,5,5,5,5,5,5,0],"minute":[2,1,0,0,3,1,2,1,5,5,5,5,5,5,5,0],"refusals":[3,0,0,0,0,0],"refused_by":[["clients",2]],"responses":[0,2,0,1,0],"lifetime":[2,1,0,0,3,0],"ledger":{"in_window":6,"expired":0,"late":0,"recorded":6},"window":{"short":[1.0,2],"long":[60.0,120],"histogram_error":0.0217}}"#;
const UNLISTED: &str = r#"{"type":"detail","id":null,"t":1764039999}"#;
const FLEET: &str = r#"{"type":"fleet","now":1764040000.05,"fleet":{"name":"orders","server":"connected","newest_final":1764039997,"last_second":{"start":1764039997,"end":1764039998,"standing":"final","present":1,"expected":2,"total":[2,1,0,0,3,1,2,1,5,5,5,5,5,5,5,0],"refusals":[2,0,0,0,0,1],"resources":[["GET /orders","web","in",1,[2,1,0,0,3,1,2,1,5,5,5,5,5,5,5,0],[],2]],"processes":[["00ff",1,0,0,[2,1,0,0,3,1,2,1,5,5,5,5,5,5,5,0]],["0100",0,1,0,[0,0,0,0,0,null,0,0,0,null,null,null,null,null,null,0]]],"left_out":[1,0,0,0,0,null,0,0,0,null,null,null,null,null,null,0],"left_out_rows":4,"left_out_unnamed":1},"last_minute":null,"processes":[["00ff","web-1","live",[[2,1,0,0,3,1],[0,0,0,0,0,0],[0,0,0,0,0,0],[0,0,0,0,0,0],[0,0,0,0,0,0],[2,1,0,0,3,1]]],["0100","web-2","lost",[[0,0,0,0,0,0],[0,0,0,0,0,0],[0,0,0,0,0,0],[0,0,0,0,0,0],[0,0,0,0,0,0],[0,0,0,0,0,0]]]],"unreadable":3}}"#;
const NO_FLEET: &str = r#"{"type":"fleet","now":1764040000.05,"fleet":null}"#;
const RULES: &str = r#"{"type":"rules","now":1764040000.05,"rules":{"source":"limits.toml","state":"wrong","since":1764039999.5,"why":"limits.toml:4: unknown key","version":3,"changed_at":1764039990.25,"rules":[{"name":"orders","resource":"GET /orders","limit":"1000 per second","mode":"shadow","state":"12 of 1000 left","refused":0.25}],"left_out":7}}"#;
const CHANGES: &str = r#"{"type":"changes","changes":[{"t":7,"kind":"trouble","name":"POST /pay","context":"web","was":"quiet","level":"failing","findings":[["failures","failing",40,50,null],["refusals","strained",5,60,3]],"breaker":"open","or_before":true},{"t":20,"reported":30,"kind":"trouble","name":"POST /pay","was":"failing","level":"quiet","findings":[]},{"t":8,"kind":"breaker","name":"POST /pay","level":"strained","state":"half-open","cause":"wait over"},{"t":8,"kind":"more","levels":[1,2,3]},{"t":9,"kind":"listed","name":"a","count":2},{"t":9,"kind":"gone","name":"b","count":1},{"t":9,"kind":"process","name":"web-1","count":4,"state":"lost"},{"t":20,"kind":"unread","from":10,"cause":"no-viewer"},{"t":20,"kind":"dropped","count":7},{"t":20,"kind":"dropped","count":null}]}"#;
const TOTALS: &str = r#"{"type":"totals","t":7,"levels":[38,1,1]}"#;
const JUDGED: &str = r#"{"type":"second","t":7,"new":[],"gone":[],"total":[0,0,0,0,0,null,0,0,0,null,null,null,null,null,null,0],"rows":[],"controllers":[{"resource":"POST /pay","kind":"circuit","state":"open","level":"failing"}],"verdicts":[[3,[["circuit","failing",0,0,null],["times","strained",900,100,null]]]],"levels":[1,0,1]}"#;
const BYE: &str = r#"{"type":"bye","reason":"slow"}"#;

#[test]
fn messages_are_written_as_they_are_read() {
    for json in [
        HELLO, RESOURCES, SECOND, DETAIL, UNLISTED, FLEET, NO_FLEET, RULES, CHANGES, TOTALS,
        JUDGED, BYE,
    ] {
        let message = Message::parse(json).unwrap().unwrap();
        assert_eq!(serde_json::to_string(&message).unwrap(), json);
    }
}

#[test]
fn second_of_the_history_has_no_more_than_its_rows() {
    let json = r#"{"type":"second","t":7,"new":[],"gone":[],"total":[0,0,0,0,0,null,0,0,0,null,null,null,null,null,null,0],"rows":[]}"#;
    let message = Message::parse(json).unwrap().unwrap();
    let Message::Second(second) = &message else { panic!("{message:?}") };
    assert_eq!((&second.refused, &second.controllers, second.ledger), (&None, &None, None));
    assert_eq!(second.total, Counts::default());
    assert_eq!(serde_json::to_string(&message).unwrap(), json);
}

#[test]
fn reader_ignores_what_a_later_version_adds() {
    let later = [
        r#"{"type":"resources","resources":[[1,"a",null,"out",null,{"owner":"shop"},7]],"count":1}"#,
        r#"{"type":"news","text":"unknown"}"#,
        "",
        r#"{"type":"bye","reason":"bored","until":7}"#,
        r#"{"type":"rules","now":1,"rules":{"state":"late","owner":"shop","rules":[{"name":"a","resource":"b","limit":"c","color":1}]}}"#,
        r#"{"type":"changes","changes":[{"t":7,"kind":"moved","to":3}]}"#,
        r#"{"type":"second","t":1,"new":[],"gone":[],"total":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,[17]],"rows":[],"controllers":[{"resource":"a","kind":"queue","waiting":3}]}"#,
    ];
    let lines = later.map(|line| format!("{line}\n")).concat();
    let messages: Vec<_> = Reader::new(lines.as_bytes()).collect::<Result<_, _>>().unwrap();
    let [
        Message::Resources(resources),
        Message::Bye(bye),
        Message::Rules(rules),
        Message::Changes(changes),
        Message::Second(second),
    ] = &messages[..]
    else {
        panic!("{messages:?}")
    };
    assert_eq!(resources.resources[0].direction, Direction::Out);
    assert_eq!(bye.reason, ByeReason::Unknown);
    let rules = rules.rules.as_ref().unwrap();
    assert_eq!((rules.state, &*rules.rules[0].name), (RuleSourceState::Unknown, "a"));
    assert_eq!(changes.changes[0].kind, ChangeKind::Unknown);
    assert_eq!((second.total.events[Pass], second.total.max), (1, Some(15)));
    assert_eq!(second.controllers.as_ref().unwrap()[0].state, ControllerState::Unknown);
}

#[test]
fn fleet_is_read_with_its_processes_and_what_a_later_version_adds() {
    let later = FLEET
        .replace(r#""standing":"final""#, r#""standing":"almost","margin":7"#)
        .replace(r#""web-2","lost""#, r#""web-2","asleep""#)
        .replace(r#""unreadable":3"#, r#""unreadable":3,"since":1"#)
        .replace(r#""left_out_unnamed":1"#, r#""left_out_unnamed":1,"skew":[1]"#)
        .replace(
            r#"["00ff",1,0,0,[2,1,0,0,3,1,2,1,5,5,5,5,5,5,5,0]]"#,
            r#"["00ff",1,0,0,[2,1,0,0,3,1,2,1,5,5,5,5,5,5,5,0,9],"rack 7"]"#,
        );
    let Some(Message::Fleet(update)) = Message::parse(&later).unwrap() else { panic!("a fleet") };
    let fleet = update.fleet.unwrap();
    let second = fleet.last_second.unwrap();
    assert_eq!((second.present, second.expected, second.left_out_rows), (1, 2, 4));
    assert_eq!((second.left_out_unnamed, fleet.unreadable), (1, 3));
    assert_eq!((second.left_out.events[Pass], &second.refusals[..]), (1, &[2, 0, 0, 0, 0, 1][..]));
    assert_eq!((second.resources[0].refusals.len(), second.resources[0].left_out), (0, 2));
    assert_eq!(second.standing, FleetStanding::Unknown);
    assert!(!second.standing.is_final(), "what is not known is not final");
    assert_eq!((second.processes[0].present, second.processes[0].counts.events[Block]), (1, 3));
    assert_eq!((second.processes[1].missing, second.processes[1].counts.in_flight), (1, None));
    let lifetime = fleet.processes[0].ledger.lifetime;
    assert_eq!((lifetime.counts[Block], lifetime.counts[ReservedPass]), (3, 1));
    assert_eq!(fleet.processes[1].state, FleetProcessState::Unknown);
}

#[test]
fn fleet_with_a_damaged_row_is_refused_instead_of_taken_for_none() {
    let damaged = FLEET.replace(r#"["0100",0,1,0,["#, r#"["0100",0,1,["#);
    let error = Message::parse(&damaged).unwrap_err();
    assert!(matches!(error, ReadError::Malformed { .. }), "{error}");
}

#[test]
fn events_and_reasons_that_an_earlier_version_lacks_are_zero() {
    let json = r#"{"type":"second","t":1,"new":[],"gone":[],"total":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15],"rows":[],"refused":[[7,1,2]]}"#;
    let Some(Message::Second(second)) = Message::parse(json).unwrap() else { panic!("a second") };
    let events = [Pass, Block, ReservedPass].map(|event| second.total.events[event]);
    assert_eq!((events, second.total.max), ([1, 5, 0], Some(15)));
    let refused = &second.refused.unwrap()[0];
    assert_eq!((refused.id, refused.counts.sum()), (7, 3));
}

#[test]
fn array_that_is_too_short_is_refused_with_the_missing_element() {
    let json = r#"{"type":"resources","resources":[[1,"GET /orders",null]]}"#;
    let error = Message::parse(json).unwrap_err().to_string();
    assert!(error.contains("the array ends before element 3, `direction`"), "{error}");
    let json = r#"{"type":"second","t":1,"new":[],"gone":[],"total":[1],"rows":[]}"#;
    let error = Message::parse(json).unwrap_err().to_string();
    assert!(error.contains("the array ends before element 1, `success`"), "{error}");
}

#[test]
fn reader_goes_on_after_a_line_that_is_no_message() {
    let lines = format!("{BYE}\n<html>\n{{\"type\":7}}\n{BYE}\n");
    let results: Vec<_> = Reader::new(lines.as_bytes()).collect();
    assert!(matches!(results[0], Ok(Message::Bye(_))));
    for (result, number) in results[1..3].iter().zip(2..) {
        let Err(error @ ReadError::Malformed { line, .. }) = result else { panic!("{result:?}") };
        assert_eq!(*line, number);
        assert!(error.to_string().starts_with(&format!("line {number} is not a message: ")));
    }
    assert!(matches!(results[3], Ok(Message::Bye(_))) && results.len() == 4);
}

#[test]
fn stream_that_was_cut_is_reported() {
    let lines = format!("{HELLO}\n{}", &SECOND[..100]);
    let results: Vec<_> = Reader::new(lines.as_bytes()).collect();
    let [Ok(Message::Hello(_)), Err(error @ ReadError::Truncated { line: 2, .. })] = &results[..]
    else {
        panic!("{results:?}")
    };
    assert_eq!(error.to_string(), "the stream ends within line 2");
}

#[test]
fn other_version_is_refused() {
    let hello = HELLO.replace("\"version\":2", "\"version\":3,\"more\":true");
    let lines = format!("{}\n{SECOND}\n", hello.replace("\"pid\":4127", "\"pid\":\"a text now\""));
    let mut reader = Reader::new(lines.as_bytes());
    let error = reader.next().unwrap().unwrap_err();
    assert!(matches!(error, ReadError::Version { found: 3, known: VERSION, .. }), "{error:?}");
    assert_eq!(error.to_string(), "the server sends version 3 of the format, the reader reads 2",);
    assert!(reader.next().is_none(), "the rest has another meaning");
}

#[test]
fn input_that_fails_ends_the_reader() {
    struct Fails;

    impl std::io::Read for Fails {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("the cable is out"))
        }
    }

    let mut reader = Reader::new(std::io::BufReader::new(Fails));
    let error = reader.next().unwrap().unwrap_err();
    assert_eq!(error.to_string(), "the stream could not be read: the cable is out");
    assert!(reader.next().is_none());
}

#[test]
fn line_that_is_not_text_is_an_error() {
    let mut reader = Reader::new(&b"\xff\xfe\n"[..]);
    assert!(matches!(reader.next(), Some(Err(ReadError::Io(_)))));
}
