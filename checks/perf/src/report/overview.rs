//! `PERFORMANCE.md`: which goals are met on which processors, from the sets in the folder.
//!
//! A set is a file of tab-separated lines. `processor`, `known`, `commit` and `quiet` have one
//! value each; every other line is a goal. The text is in `overview.md`.

use std::fmt::Write;
use std::fs;
use std::io;
use std::path::Path;

use super::tables::{self, outcome, table};
use super::{Page, Run};
use crate::goals::Goal;
use crate::machine::{self, GOALS_SET_ON};
use crate::scenarios::crowd::Crowd;

/// The results for one processor that the list shows.
#[derive(Debug, Default, PartialEq)]
struct Set {
    id: String,
    processor: String,
    /// The name of the processor, if the goals were set for it.
    known: String,
    commit: String,
    quiet: String,
    goals: Vec<Goal>,
}

/// Returns the lines of this run's set.
pub(super) fn set(run: &Run, goals: &[Goal]) -> String {
    let processor = &run.processor;
    let quiet = if run.samples.is_complete() { "yes" } else { "**no**" };
    let mut lines = format!(
        "processor\t{processor}\nknown\t{}\ncommit\t{}\nquiet\t{quiet}\n",
        processor.known_as().unwrap_or_default(),
        machine::commit(),
    );
    for Goal { case, crowd, measured, unit, at_most } in goals {
        let Crowd { record, idle, ended } = crowd;
        let _ = writeln!(
            lines,
            "goal\t{case}\t{record}\t{idle}\t{ended}\t{measured}\t{unit}\t{at_most}"
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
    let [case, record, idle, ended, measured, unit, at_most] = fields else { return None };
    let [record, idle, ended] = [record, idle, ended].map(|field| field.parse().ok());
    Some(Goal {
        case: (*case).to_owned(),
        crowd: Crowd { record: record?, idle: idle?, ended: ended? },
        measured: measured.parse().ok()?,
        unit: (*unit).to_owned(),
        at_most: at_most.parse().ok()?,
    })
}

/// Returns the list of all sets in the folder.
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
    Ok(text(sets))
}

/// Returns the document of sets that are sorted by their ids.
fn text(mut sets: Vec<Set>) -> String {
    let pages = [
        Page::Main,
        Page::Histograms,
        Page::Middleware,
        Page::Feedback,
        Page::Leases,
        Page::Windows,
        Page::Limiters,
        Page::Keyed,
    ];
    let [main, histograms, middleware, feedback, leases, windows, limiters, keyed] =
        pages.map(|page| {
            with_known_processors(sets.extract_if(.., |set| Page::of(&set.id) == page).collect())
        });
    format!(
        include_str!("overview.md"),
        processors = processors(&main),
        goals = goals_of(&main),
        histograms = processors(&histograms),
        goals_of_histograms = goals_of(&histograms),
        middleware = processors(&middleware),
        goals_of_middleware = goals_of(&middleware),
        feedback = processors(&feedback),
        goals_of_feedback = goals_of(&feedback),
        leases = processors(&leases),
        goals_of_leases = goals_of(&leases),
        windows = processors(&windows),
        goals_of_windows = goals_of(&windows),
        limiters = processors(&limiters),
        goals_of_limiters = goals_of(&limiters),
        keyed = processors(&keyed),
        goals_of_keyed = goals_of(&keyed),
    )
}

/// Adds an empty set for each processor that has goals and no set.
fn with_known_processors(mut sets: Vec<Set>) -> Vec<Set> {
    for (vendor, family, known) in GOALS_SET_ON {
        if !sets.iter().any(|set| set.known == known) {
            let processor = format!("{known}: {vendor}, family {family}");
            sets.push(Set { processor, known: known.to_owned(), ..Set::default() });
        }
    }
    sets
}

fn processors(sets: &[Set]) -> String {
    let rows = sets.iter().map(|Set { id, processor, commit, quiet, .. }| match id.as_str() {
        "" => format!("{processor} | not measured | | "),
        _ => format!("{processor} | [{id}](performance/{id}.md) | {commit} | {quiet}"),
    });
    table("processor | results | measured on commit | quiet", rows).replace("---:", "---")
}

fn goals_of(sets: &[Set]) -> String {
    let mut goals: Vec<&Goal> = Vec::new();
    for goal in sets.iter().flat_map(|set| &set.goals) {
        if !goals.iter().any(|other| other.is_same(goal)) {
            goals.push(goal);
        }
    }
    if goals.is_empty() {
        return String::new();
    }
    let mut head = "goal | record | idle | ended | unit".to_owned();
    for Set { known, id, .. } in sets {
        let comma = if known.is_empty() || id.is_empty() { "" } else { ", " };
        let _ = write!(head, " | {known}{comma}{id}");
    }
    let rows = goals.into_iter().map(|goal| {
        let mut row = format!("{} | {} | {}", goal.case, tables::crowd(goal.crowd), goal.unit);
        for set in sets {
            let found = set.goals.iter().find(|other| other.is_same(goal));
            let _ = write!(row, " | {}", found.map_or("not measured".to_owned(), outcome));
        }
        row
    });
    table(&head, rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "processor\tone\nknown\t\ncommit\tabc\nquiet\tyes\n\
                         goal\trecord\t2\t0\t0\t1.25\t× counter\t1.05\n";

    #[test]
    fn list_shows_each_set_and_the_processors_without_one() {
        let set = parse("one", LINES);
        assert_eq!((set.processor.as_str(), set.commit.as_str()), ("one", "abc"));
        assert_eq!(set.goals[0].crowd, Crowd::of(2));
        let set = Set { known: "Zen 4".into(), ..set };
        let document = text(vec![set]);
        assert!(document.contains("| 1.25 > 1.05: **missed** | not measured |"), "{document}");
    }

    #[test]
    fn list_keeps_each_page_apart() {
        let main = Set { known: "Zen 4".into(), ..parse("one", LINES) };
        let case = LINES.replace("record", "with a histogram");
        let histograms = Set { known: "Zen 5".into(), ..parse("one-histograms", &case) };
        let case = LINES.replace("record", "with a middleware");
        let middleware = Set { known: "Zen 5".into(), ..parse("one-middleware", &case) };
        let document = text(vec![main, histograms, middleware]);
        let (document, last) = document.split_once("## Middleware").expect("a section");
        assert!(last.contains("| with a middleware |") && !last.contains("| with a histogram |"));
        assert!(last.contains("[one-middleware](performance/one-middleware.md)"), "{last}");
        assert!(!document.contains("with a middleware"), "{document}");
        let (before, after) = document.split_once("## Histograms").expect("a section");
        assert!(before.contains("| record |") && !before.contains("| with a histogram |"));
        assert!(after.contains("| with a histogram |") && !after.contains("| record | 2 |"));
        assert!(after.contains("[one-histograms](performance/one-histograms.md)"), "{after}");
    }
}
