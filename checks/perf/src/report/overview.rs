//! `PERFORMANCE.md`: which goals are met on which processors, from the sets that are in the folder.
//!
//! A set is a file of tab-separated lines. `processor`, `known`, `commit` and `quiet` have one value
//! each; each other line is a goal.

use std::fmt::Write;
use std::fs;
use std::io;
use std::path::Path;

use super::Measured;
use super::tables::{self, count};
use crate::goals::{self, Goal};
use crate::machine::{self, GOALS_SET_ON};
use crate::scenarios::crowd::Crowd;

/// The results of one processor, as far as the list shows them.
#[derive(Debug, Default, PartialEq)]
struct Set {
    id: String,
    processor: String,
    /// The name of the processor, if the goals were set on it.
    known: String,
    commit: String,
    quiet: String,
    goals: Vec<Goal>,
}

/// The lines of this run's set.
pub(super) fn set(measured: &Measured) -> String {
    let processor = &measured.processor;
    let quiet = if measured.is_quiet() { "yes" } else { "**no**" };
    let mut lines = format!(
        "processor\t{processor}\nknown\t{}\ncommit\t{}\nquiet\t{quiet}\n",
        processor.known_as().unwrap_or_default(),
        machine::commit(),
    );
    for Goal { what, crowd, measured, unit, at_most } in goals::all(measured) {
        let Crowd { record, idle, ended } = crowd;
        let _ = writeln!(
            lines,
            "goal\t{what}\t{record}\t{idle}\t{ended}\t{measured}\t{unit}\t{at_most}"
        );
    }
    lines
}

fn parse(id: &str, text: &str) -> Set {
    let mut set = Set { id: id.to_owned(), ..Set::default() };
    for line in text.lines() {
        match line.split('\t').collect::<Vec<_>>()[..] {
            ["processor", value] => value.clone_into(&mut set.processor),
            ["known", value] => value.clone_into(&mut set.known),
            ["commit", value] => value.clone_into(&mut set.commit),
            ["quiet", value] => value.clone_into(&mut set.quiet),
            ["goal", ref fields @ ..] => set.goals.extend(parse_goal(fields)),
            _ => {}
        }
    }
    set
}

fn parse_goal(fields: &[&str]) -> Option<Goal> {
    let [what, record, idle, ended, measured, unit, at_most] = fields else { return None };
    let [record, idle, ended] = [record, idle, ended].map(|field| field.parse().ok());
    Some(Goal {
        what: (*what).to_owned(),
        crowd: Crowd { record: record?, idle: idle?, ended: ended? },
        measured: measured.parse().ok()?,
        unit: (*unit).to_owned(),
        at_most: at_most.parse().ok()?,
    })
}

/// The list of all sets in that folder.
pub(super) fn document(folder: &Path) -> io::Result<String> {
    let mut sets = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let id = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if path.extension().is_some_and(|extension| extension == "tsv") {
            sets.push(parse(&id, &fs::read_to_string(path)?));
        }
    }
    sets.sort_by(|a, b| a.id.cmp(&b.id));
    for (vendor, family, known) in GOALS_SET_ON {
        if !sets.iter().any(|set| set.known == known) {
            let processor = format!("{known}: {vendor}, family {family}");
            sets.push(Set { processor, known: known.to_owned(), ..Set::default() });
        }
    }
    Ok(text(&sets))
}

fn text(sets: &[Set]) -> String {
    let (processors, goals) = (processors(sets), goals_of(sets));
    let instructions = tables::instructions();
    format!(
        "\
# Performance

<!-- Written by the program in `checks/perf`, numbers and words. Do not edit: run it again. -->

```sh
cargo run --release --manifest-path checks/perf/Cargo.toml
```

measures everything on the machine that it runs on, and keeps one set of results for each model of
processor in `docs/performance`. A run replaces its own processor's set, leaves the others as they are, and
writes this list. It writes nothing if the machine was disturbed. `-- --quick` is a smoke test that
writes nothing. A change of the code that moves the numbers removes the sets of the processors on which it
was not measured.

## Processors

{processors}
In sets of commits before 6488fa3, the benchmark itself takes about 1 ns of each record at a given time.

## Goals

All times are ratios to something that was measured in the same run, where the unit says so. The last three
columns of the left part are the threads that record at the same time, that idle (they recorded only in
buckets that the window has left) and that have ended (after such records). A goal that differs between
processors is the one of Zen 5 there, and the one of Zen 4 on all others.

{goals}
### Instructions

They are the same on every processor, and gate on every machine: see `.ci/instructions`. The loop, 6
instructions, is included.

{instructions}"
    )
}

fn processors(sets: &[Set]) -> String {
    let mut table =
        String::from("| processor | results | measured on commit | quiet |\n|---|---|---|---|\n");
    for Set { id, processor, commit, quiet, .. } in sets {
        let _ = match id.as_str() {
            "" => writeln!(table, "| {processor} | not measured | | |"),
            _ => writeln!(
                table,
                "| {processor} | [{id}](performance/{id}.md) | {commit} | {quiet} |"
            ),
        };
    }
    table
}

fn goals_of(sets: &[Set]) -> String {
    let mut all: Vec<&Goal> = Vec::new();
    for goal in sets.iter().flat_map(|set| &set.goals) {
        if !all.iter().any(|other| other.is_same(goal)) {
            all.push(goal);
        }
    }
    let names = sets.iter().map(|set| match (set.known.as_str(), set.id.as_str()) {
        ("", id) => format!(" {id} |"),
        (known, "") => format!(" {known} |"),
        (known, id) => format!(" {known}, {id} |"),
    });
    let mut table = format!(
        "| goal | record | idle | ended | unit |{}\n|---|---:|---:|---:|---|{}\n",
        names.collect::<String>(),
        "---|".repeat(sets.len())
    );
    for goal in all {
        let Goal { what, crowd, unit, .. } = goal;
        let cells = sets.iter().map(|set| {
            let found = set.goals.iter().find(|other| other.is_same(goal));
            found.map_or(" not measured |".to_owned(), |found| format!(" {} |", outcome(found)))
        });
        let crowd = tables::crowd(*crowd);
        let cells = cells.collect::<String>();
        let _ = writeln!(table, "| {what} | {crowd} | {unit} |{cells}");
    }
    table
}

/// What was measured, the goal, and whether it is met.
pub(super) fn outcome(goal: &Goal) -> String {
    let (sign, met) = if goal.is_met() { ("≤", "met") } else { (">", "**missed**") };
    format!("{} {sign} {}: {met}", count(goal.measured), count(goal.at_most))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "processor\tone\nknown\t\ncommit\tabc\nquiet\tyes\n\
                         goal\trecord\t2\t0\t0\t1.25\t× counter\t1.05\n";

    #[test]
    fn set_is_read_as_it_was_written() {
        let set = parse("one", LINES);
        assert_eq!((set.processor.as_str(), set.commit.as_str()), ("one", "abc"));
        let [goal] = &set.goals[..] else { panic!("one goal") };
        assert_eq!((goal.crowd, goal.is_met()), (Crowd::of(2), false));
    }

    #[test]
    fn processor_without_a_set_is_not_measured() {
        let unknown = Set { known: "Zen 5".into(), ..Set::default() };
        let document = text(&[parse("one", LINES), unknown]);
        assert!(document.contains("| 1.25 > 1.05: **missed** | not measured |"), "{document}");
    }
}
