//! The program `leaparray-rules`.

use std::process::Command;

const RULES: &str = r#"
[[rule]]
name = "orders"
resource = "GET /api/orders"
limit = "1000 per second"
buckets = 2

[[rule]]
name = "each-client"
resource = ["/api/*", "/admin/*"]
key = "header:x-api-key"
limit = "50 per minute, bursts of 10"

[[rule]]
name = "networks"
resource = "*"
key = "client/24"
in_flight = 8

[[rule]]
name = "all"
resource = "*"
in_flight = "adaptive"

[[rule]]
name = "payments"
outbound = "payments.internal"
breaker = { failures = "50 % of 20", wait = "5s" }

[[rule]]
name = "late"
resource = "*"
mode = "off"
in_flight = 0
"#;

/// Runs the program with a file of that text. Returns its exit status, and what it writes.
fn run(text: &str, arguments: &[&str]) -> (i32, String) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("limits.toml"), text).unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_leaparray-rules"));
    let output = program.args(arguments).current_dir(&folder).output().unwrap();
    let written = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(written).unwrap())
}

#[test]
fn good_file_has_a_number_of_rules() {
    assert_eq!(run(RULES, &["check", "limits.toml"]), (0, "limits.toml: 6 rules\n".to_owned()));
}

#[test]
fn each_problem_has_a_line() {
    let text = "[[rule]]\nname = \"a\"\nresource = \"*\"\nlimit = 5\nbrekaer = 1\n";
    let expected = "\
limits.toml:4: rule \"a\": limit: is an integer; write a rate such as \"1000 per second\", \"5 per \
10s\" or \"50 per minute, bursts of 10\"
limits.toml:5: rule \"a\": brekaer: unknown key; did you mean `breaker`?
";
    assert_eq!(run(text, &["check", "limits.toml"]), (2, expected.to_owned()));
    let (status, message) = run("", &["check", "none.toml"]);
    assert_eq!(status, 2);
    assert!(message.starts_with("none.toml: "), "{message}");
}

#[test]
fn rules_of_a_request_are_explained_in_their_order() {
    let request = [
        "explain",
        "limits.toml",
        "GET /api/orders",
        "--header",
        "X-Api-Key=a",
        "--client",
        "10.1.2.3",
    ];
    let expected = "\
GET /api/orders: 4 of 6 rules
1. orders: \"GET /api/orders\" is its name
   limit = \"1000 per second\"
   buckets = 2
2. all: \"*\" matches
   in_flight = { min = 1, first = 20, max = 10000 }
3. each-client: \"/api/*\" matches, counted by header:x-api-key = \"a\"
   limit = \"50 per minute, bursts of 10\"
4. networks: \"*\" matches, counted by client/24 = \"10.1.2.0/24\"
   in_flight = 8
not payments: it is for outbound requests
not late: its mode is off
";
    assert_eq!(run(RULES, &request), (0, expected.to_owned()));
    let (_, without) = run(RULES, &request[..3]);
    assert!(without.contains("counted with all that lack header:x-api-key"), "{without}");
    let of_context = RULES.replace("mode = \"off\"", "only = { context = \"batch\" }");
    let (_, web) = run(&of_context, &[&request[..3], &["--context", "web"]].concat());
    assert!(web.starts_with("GET /api/orders in context \"web\": 4 of 6 rules\n"), "{web}");
    let (_, batch) = run(&of_context, &[&request[..3], &["--context", "batch"]].concat());
    assert!(batch.starts_with("GET /api/orders in context \"batch\": 5 of 6 rules\n"), "{batch}");
    let (_, call) = run(RULES, &["explain", "limits.toml", "payments.internal", "--outbound"]);
    assert!(call.starts_with(
        "payments.internal: 1 of 6 rules\n1. payments: \"payments.internal\" is its name\n   \
         breaker = { failures = \"50 % of 20\", within = \"10s\", wait = \"5s\", probes = 3 }\n\
         not orders: it is for inbound requests\n"
    ));
}

#[cfg(feature = "sentinel")]
#[test]
fn rules_of_sentinel_are_checked_printed_and_explained_beside_others() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_leaparray-rules"));
        let output = program.args(arguments).current_dir(&folder).output().unwrap();
        let written = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap(), String::from_utf8(written).unwrap())
    };
    let limits = "[[rule]]\nname = \"all\"\nresource = \"*\"\nin_flight = 64\n";
    std::fs::write(folder.path().join("limits.toml"), limits).unwrap();
    let flow = "[{\"resource\":\"pay\",\"count\":2,\"limitApp\":\"shop\"}]";
    std::fs::write(folder.path().join("flow.json"), flow).unwrap();
    let sources = ["limits.toml", "--sentinel", "flow=flow.json", "--origin", "header:x-app"];
    let checked = (0, "limits.toml, flow.json: 2 rules\n".to_owned());
    assert_eq!(run(&[&["check"], &sources[..]].concat()), checked);
    let printed = format!(
        "{limits}\n[[rule]]\nname = \"flow pay of shop\"\neither = \"pay\"\n\
         only = {{ \"header:x-app\" = [\"shop\"] }}\nlimit = \"2 per second\"\nbuckets = 2\n"
    );
    assert_eq!(run(&[&["print"], &sources[..]].concat()), (0, printed));
    let request = ["pay", "--header", "x-app=shop"];
    let (status, explained) = run(&[&["explain"], &sources[..], &request].concat());
    assert!(status == 0 && explained.starts_with("pay: 2 of 2 rules\n"), "{explained}");
    let (_, explained) = run(&[&["explain"], &sources[..], &request[..1]].concat());
    assert!(explained.ends_with("not flow pay of shop: it is for other callers\n"), "{explained}");
    std::fs::write(folder.path().join("flow.json"), "[{}]").unwrap();
    let (status, problem) = run(&[&["check"], &sources[..]].concat());
    assert_eq!((status, &*problem), (2, "flow.json:1: lacks a resource; write `resource`\n"));
    let (status, problem) = run(&["check", "--sentinel", "gateway=flow.json"]);
    assert!(status == 2 && problem.starts_with("\"gateway\" is no kind of"), "{problem}");
}

#[test]
fn wrong_use_is_told() {
    for (arguments, expected) in [
        (&[][..], "usage: "),
        (&["chek", "limits.toml"][..], "usage: "),
        (&["explain", "limits.toml", "a", "--header"][..], "--header needs a value\nusage: "),
        (&["explain", "limits.toml", "a", "--header", "b"][..], "--header \"b\" has no `=`"),
        (&["explain", "limits.toml", "a", "--client", "b"][..], "\"b\" is no address"),
        (&["explain", "limits.toml", "a", "--hedaer"][..], "unknown option \"--hedaer\"\nusage: "),
    ] {
        let (status, message) = run(RULES, arguments);
        assert!(status == 2 && message.starts_with(expected), "{arguments:?}: {message}");
    }
    assert_eq!(run("", &["--help"]).0, 0);
}

#[test]
fn schema_is_printed() {
    let (status, written) = run("", &["schema"]);
    assert_eq!((status, written.trim_end()), (0, leaparray_rules::RuleSet::SCHEMA.trim_end()));
}
