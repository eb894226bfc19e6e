//! Checks a file of rules, and explains which of them concern a request.
#![forbid(unsafe_code)]

use std::net::IpAddr;
use std::process::ExitCode;

use leaparray::TrafficType;
use leaparray_rules::{Caller, KeySource, RuleSet};

const USAGE: &str = "\
usage: leaparray-rules check FILE
       leaparray-rules explain FILE RESOURCE [--outbound] [--header NAME=VALUE]
                       [--client ADDRESS] [--extension NAME=VALUE]

check    tells each problem of a file of rules in a line
explain  tells which rules concern a request of a resource such as \"GET /orders\", in the order
         in which they are asked, and why";

fn main() -> ExitCode {
    match run(&std::env::args().skip(1).collect::<Vec<_>>()) {
        Ok(answer) => {
            println!("{}", answer.trim_end());
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::from(2)
        }
    }
}

/// Returns what the command answers, or what is wrong.
fn run(arguments: &[String]) -> Result<String, String> {
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["check", file] => {
            let rules = read(file)?;
            Ok(format!("{file}: {} rules", rules.rules().len()))
        }
        ["explain", file, resource, ref options @ ..] => {
            let request = Request::of(options)?;
            let rules = read(file)?;
            Ok(rules.explain(request.traffic, resource, &request).to_string())
        }
        ["help" | "-h" | "--help"] => Ok(USAGE.to_owned()),
        _ => Err(USAGE.to_owned()),
    }
}

fn read(file: &str) -> Result<RuleSet, String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
    RuleSet::parse(&text).map_err(|problems| problems.in_source(file).to_string())
}

/// The request of the options.
struct Request<'a> {
    traffic: TrafficType,
    headers: Vec<(&'a str, &'a str)>,
    client: Option<IpAddr>,
    extensions: Vec<(&'a str, &'a str)>,
}

impl<'a> Request<'a> {
    fn of(options: &[&'a str]) -> Result<Self, String> {
        let (traffic, client) = (TrafficType::Inbound, None);
        let mut request = Self { traffic, headers: Vec::new(), client, extensions: Vec::new() };
        let mut options = options.iter();
        while let Some(option) = options.next() {
            let mut value = || {
                let value = options.next().copied();
                value.ok_or_else(|| format!("{option} needs a value\n{USAGE}"))
            };
            match *option {
                "--outbound" => request.traffic = TrafficType::Outbound,
                "--header" => request.headers.push(pair(option, value()?)?),
                "--extension" => request.extensions.push(pair(option, value()?)?),
                "--client" => {
                    let address = value()?;
                    let parsed = address.parse();
                    let client = parsed.map_err(|_| format!("{address:?} is no address"))?;
                    request.client = Some(client);
                }
                other => return Err(format!("unknown option {other:?}\n{USAGE}")),
            }
        }
        Ok(request)
    }
}

fn pair<'a>(option: &str, value: &'a str) -> Result<(&'a str, &'a str), String> {
    let pair = value.split_once('=');
    pair.ok_or_else(|| format!("{option} {value:?} has no `=` between the name and the value"))
}

impl Caller for Request<'_> {
    type Key = String;

    fn key(&self, source: &KeySource) -> Option<String> {
        let named = |pairs: &[(&str, &str)], name: &str| {
            let found = pairs.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
            found.map(|(_, value)| (*value).to_owned())
        };
        match source {
            KeySource::Header(name) => named(&self.headers, name),
            KeySource::Extension(name) => named(&self.extensions, name),
            source => source.of_client(self.client?),
        }
    }
}
