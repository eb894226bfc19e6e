//! The text of the page.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;
use std::path::Path;

use crate::rows::ROWS;
use crate::{Set, format, instructions, missed};

/// The programs of `checks/perf`, and what each of them measures.
const PROGRAMS: &[(&str, &str)] = &[
    ("", "recording, reading, memory"),
    ("limiters", "limiters"),
    ("keyed", "limits by key"),
    ("feedback", "breakers and adaptive limits"),
    ("histograms", "histograms"),
    ("middleware", "middleware"),
    ("leases", "limits of a fleet"),
    ("windows", "windows of a fleet"),
];

/// The crates of the table, beside this one.
const PEERS: &[&str] = &[
    "axum-prometheus",
    "governor",
    "hdrhistogram",
    "prometheus",
    "quanta",
    "sentinel-core",
    "tower-http",
    "tower_governor",
];

const NOT_MEASURED: &str = "not measured";

/// A processor, and its sets by program.
#[derive(Debug)]
pub(crate) struct Column {
    name: String,
    /// The name of the architecture, if goals were set for it, or else the name.
    pub(crate) short_name: String,
    pub(crate) sets: BTreeMap<String, Set>,
}

impl Column {
    fn set(&self, program: &str) -> Option<&Set> {
        self.sets.get(program)
    }
}

/// Returns the page, from the files of a repository.
///
/// # Errors
///
/// Returns an error if a file cannot be read, if no processor has a row of the table, or if a goal
/// is missed and has no reason.
pub fn page(root: &Path) -> Result<String, Box<dyn Error>> {
    let read = |path: &str| {
        fs::read_to_string(root.join(path)).map_err(|error| format!("{path}: {error}"))
    };
    let columns = columns(&root.join("docs/performance"))?;
    let instructions = instructions::table(
        &read("benches/instructions.baseline")?,
        &read("crates/leaparray-tower/benches/instructions.baseline")?,
    )?;
    Ok(format!(
        include_str!("page.md"),
        peers = peers(&columns)?,
        versions = versions(&columns),
        instructions = instructions,
        missed = missed::list(&columns)?,
        commits = commits(&columns),
    ))
}

/// Reads all sets of a folder, by processor.
fn columns(folder: &Path) -> Result<Vec<Column>, Box<dyn Error>> {
    let mut columns: BTreeMap<String, Column> = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let file = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let (id, program) = split(&file).ok_or(format!("{file} is not the name of a set"))?;
        let set = Set::parse(&fs::read_to_string(&path)?).map_err(|it| format!("{file}: {it}"))?;
        let make = || {
            let (name, sets) = (shown(id), BTreeMap::new());
            match set.known.as_str() {
                "" => Column { short_name: name.clone(), name, sets },
                known => {
                    Column { short_name: known.to_owned(), name: format!("{known}, {name}"), sets }
                }
            }
        };
        let column = columns.entry(id.to_owned()).or_insert_with(make);
        column.sets.insert(program.to_owned(), set);
    }
    Ok(columns.into_values().collect())
}

/// Splits the name of a file: `amd-family-26-model-2-keyed` into the processor and the program.
fn split(file: &str) -> Option<(&str, &str)> {
    let model = file.find("-model-")? + "-model-".len();
    let digits = file[model..].find('-').map_or(file.len(), |at| model + at);
    let program = file[digits..].trim_start_matches('-');
    PROGRAMS.iter().any(|(known, _)| *known == program).then_some((&file[..digits], program))
}

/// Returns the name of a processor: `amd-family-26-model-2` becomes `AMD family 26 model 2`.
fn shown(id: &str) -> String {
    id.replacen("amd", "AMD", 1).replacen("intel", "Intel", 1).replace('-', " ")
}

fn head<'a>(first: &[&'a str], columns: &'a [Column]) -> Vec<&'a str> {
    first.iter().copied().chain(columns.iter().map(|it| it.name.as_str())).collect()
}

fn peers(columns: &[Column]) -> Result<String, String> {
    let mut rows = Vec::new();
    for row in ROWS {
        let cells: Vec<_> = columns
            .iter()
            .map(|column| column.set(row.program).and_then(|set| row.cell(set)))
            .collect();
        if cells.iter().all(Option::is_none) {
            return Err(format!("no set has the row: {}, {}", row.what, row.beside));
        }
        let cells = cells.into_iter().map(|cell| cell.unwrap_or(NOT_MEASURED.to_owned()));
        rows.push([row.what, row.beside].map(str::to_owned).into_iter().chain(cells).collect());
    }
    Ok(format::table(2, &head(&["operation", "beside"], columns), rows))
}

/// Returns the versions of the peers.
fn versions(columns: &[Column]) -> String {
    let about = columns.iter().flat_map(|column| column.sets.values()).flat_map(|set| &set.about);
    let peers = about.filter(|(name, _)| PEERS.contains(&name.as_str()));
    let versions: BTreeSet<_> = peers.map(|(name, version)| format!("{name} {version}")).collect();
    let versions = versions.into_iter().collect::<Vec<_>>().join(", ");
    format::wrapped(&format!("Measured beside {versions}."), "")
}

fn commits(columns: &[Column]) -> String {
    let rows = PROGRAMS.iter().map(|(program, what)| {
        let commits = columns.iter().map(|column| match column.set(program) {
            Some(set) => {
                let cores = set.about.iter().find(|(name, _)| name == "cores");
                let cores = cores.map_or("?", |(_, cores)| cores.as_str());
                format!("{}, {cores} cores", set.commit)
            }
            None => NOT_MEASURED.to_owned(),
        });
        let name = if program.is_empty() { String::new() } else { format!("`--bin {program}`") };
        [(*what).to_owned(), name].into_iter().chain(commits).collect()
    });
    format::table(2 + columns.len(), &head(&["measured", "program"], columns), rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> &'static Path {
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
    }

    #[test]
    fn page_is_that_of_the_measurements() {
        let found = fs::read_to_string(root().join("docs/PERFORMANCE.md")).expect("a page");
        let is_same = found == page(root()).expect("sets");
        assert!(is_same, "docs/PERFORMANCE.md is old: run `cargo run -p leaparray-perf-page`");
    }

    #[test]
    fn name_of_a_file_has_the_processor_and_the_program() {
        assert_eq!(split("amd-family-26-model-2-keyed"), Some(("amd-family-26-model-2", "keyed")));
        assert_eq!(split("intel-family-6-model-207"), Some(("intel-family-6-model-207", "")));
        assert_eq!(split("amd-family-26-model-2-other"), None);
    }

    #[test]
    fn missed_goal_needs_a_reason() {
        let mut columns = columns(&root().join("docs/performance")).expect("sets");
        let set = columns[0].sets.values_mut().next().expect("a set");
        let value = set.values.iter_mut().find(|it| it.at_most.is_none()).expect("no goal");
        (value.measured, value.at_most) = (2.0, Some(1.0));
        value.case = "an operation without a reason".to_owned();
        let error = missed::list(&columns).expect_err("a goal is missed");
        assert!(error.contains("an operation without a reason"), "{error}");
        for column in &mut columns {
            column.sets.clear();
        }
        assert!(missed::list(&columns).is_err(), "reasons without a missed goal");
    }
}
