//! Checks files of rules, prints them and their schema, and explains which of them concern a
//! request.
#![forbid(unsafe_code)]

use std::net::IpAddr;
use std::process::ExitCode;

use leaparray::TrafficType;
use leaparray_rules::{Caller, Document, KeySource, RuleSet};

const USAGE: &str = "\
usage: leaparray-rules check FILE...
       leaparray-rules print FILE...
       leaparray-rules explain FILE... RESOURCE [--outbound] [--header NAME=VALUE]
                       [--client ADDRESS] [--extension NAME=VALUE] [--context NAME]
       leaparray-rules schema

check    tells each problem of files of rules in a line
print    prints the rules as one file
explain  tells which rules concern a request of a resource such as \"GET /orders\", in the order
         in which they are asked, and why
schema   prints a JSON schema of the files, for editors

instead of a FILE, or beside it:
--sentinel KIND=FILE  a file of Sentinel's JSON: flow, degrade, system, authority or paramFlow
--origin KEY          what Sentinel's rules take for the origin, such as header:x-app";

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
        ["check", ref options @ ..] => {
            let options = Options::of(options)?;
            let rules = options.rules(&options.names)?;
            Ok(format!("{}: {} rules", options.sources(&options.names), rules.rules().len()))
        }
        ["print", ref options @ ..] => {
            let options = Options::of(options)?;
            let rules = options.rules(&options.names)?;
            let texts: Vec<_> = rules.rules().iter().map(ToString::to_string).collect();
            Ok(if texts.is_empty() { "rule = []".to_owned() } else { texts.join("\n") })
        }
        ["explain", ref options @ ..] => {
            let options = Options::of(options)?;
            let (resource, files) = options.names.split_last().ok_or(USAGE)?;
            let (rules, request) = (options.rules(files)?, &options.request);
            let Request { traffic, context, .. } = *request;
            Ok(rules.explain_in(traffic, resource, context, request).to_string())
        }
        ["schema"] => Ok(RuleSet::SCHEMA.to_owned()),
        ["help" | "-h" | "--help"] => Ok(USAGE.to_owned()),
        _ => Err(USAGE.to_owned()),
    }
}

/// The options of a command.
struct Options<'a> {
    /// The arguments that are no options.
    names: Vec<&'a str>,
    /// The kinds of Sentinel's rules, with their files.
    sentinel: Vec<(&'a str, &'a str)>,
    origin: Option<KeySource>,
    request: Request<'a>,
}

/// The request of the options.
struct Request<'a> {
    traffic: TrafficType,
    context: Option<&'a str>,
    headers: Vec<(&'a str, &'a str)>,
    client: Option<IpAddr>,
    extensions: Vec<(&'a str, &'a str)>,
}

impl<'a> Options<'a> {
    fn of(options: &[&'a str]) -> Result<Self, String> {
        let (traffic, client) = (TrafficType::Inbound, None);
        let (context, headers, extensions) = (None, Vec::new(), Vec::new());
        let request = Request { traffic, context, headers, client, extensions };
        let (names, sentinel, origin) = (Vec::new(), Vec::new(), None);
        let mut all = Self { names, sentinel, origin, request };
        let mut options = options.iter();
        while let Some(option) = options.next() {
            let mut value = || {
                let value = options.next().copied();
                value.ok_or_else(|| format!("{option} needs a value\n{USAGE}"))
            };
            let request = &mut all.request;
            match *option {
                "--sentinel" => all.sentinel.push(pair(option, value()?)?),
                "--origin" => {
                    let origin = value()?.parse();
                    all.origin = Some(origin.map_err(|error| format!("{option}: {error}"))?);
                }
                "--outbound" => request.traffic = TrafficType::Outbound,
                "--header" => request.headers.push(pair(option, value()?)?),
                "--extension" => request.extensions.push(pair(option, value()?)?),
                "--context" => request.context = Some(value()?),
                "--client" => {
                    let address = value()?;
                    let parsed = address.parse();
                    let client = parsed.map_err(|_| format!("{address:?} is no address"))?;
                    request.client = Some(client);
                }
                other if other.starts_with('-') => {
                    return Err(format!("unknown option {other:?}\n{USAGE}"));
                }
                name => all.names.push(name),
            }
        }
        Ok(all)
    }

    /// Returns the names of files of rules for a message.
    fn sources(&self, files: &[&str]) -> String {
        let files = files.iter().chain(self.sentinel.iter().map(|(_, file)| file));
        files.copied().collect::<Vec<_>>().join(", ")
    }

    /// Reads the rules of files, and of those with Sentinel's rules.
    fn rules(&self, files: &[&str]) -> Result<RuleSet, String> {
        if files.is_empty() && self.sentinel.is_empty() {
            return Err(USAGE.to_owned());
        }
        let read = |file: &str| {
            let text = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"));
            text.map(|it| Document::new(file, it))
        };
        let mut documents = files.iter().map(|it| read(it)).collect::<Result<Vec<_>, _>>()?;
        for (kind, file) in &self.sentinel {
            documents.push(of_sentinel(read(file)?, kind, self.origin.as_ref())?);
        }
        RuleSet::read(&documents).map_err(|problems| problems.to_string())
    }
}

#[cfg(feature = "sentinel")]
fn of_sentinel(
    document: Document,
    kind: &str,
    origin: Option<&KeySource>,
) -> Result<Document, String> {
    let sentinel = leaparray_rules::Sentinel::new(kind.parse()?);
    let sentinel = match origin {
        Some(origin) => sentinel.origin(origin.clone()),
        None => sentinel,
    };
    Ok(document.format(leaparray_rules::Format::Sentinel(sentinel)))
}

#[cfg(not(feature = "sentinel"))]
fn of_sentinel(_: Document, _: &str, _: Option<&KeySource>) -> Result<Document, String> {
    Err("this program was built without the feature `sentinel`".to_owned())
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
