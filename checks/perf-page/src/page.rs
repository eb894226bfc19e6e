//! The text of the page.

use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::error::Error;
use std::fs;
use std::path::Path;

use crate::missed::{self, Texts};
use crate::rows::{self, Row};
use crate::{Set, format, history, instructions, threads};

/// The programs of `checks/perf`, and what each of them measures. The name of the default program
/// is empty.
const PROGRAMS: &[(&str, &str)] = &[
    ("", "recording, reading, memory"),
    ("limiters", "limiters"),
    ("keyed", "limits by key"),
    ("rules", "rules"),
    ("feedback", "breakers and adaptive limits"),
    ("histograms", "histograms"),
    ("middleware", "middleware"),
    ("threads", "one thread to many"),
    ("leases", "limits of a fleet"),
    ("windows", "windows of a fleet"),
];

/// The other crates of the tables.
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

/// The processors of the files, and their microarchitectures. The vendors publish these by the
/// family and the model.
const MICROARCHITECTURES: &[(&str, &str)] = &[
    ("amd-family-25-model-1", "Zen 3"),
    ("amd-family-25-model-17", "Zen 4"),
    ("amd-family-26-model-2", "Zen 5"),
    ("intel-family-6-model-167", "Rocket Lake"),
    ("intel-family-6-model-207", "Emerald Rapids"),
];

pub(crate) const NOT_MEASURED: &str = "–";

/// A processor, and its measurements by program.
#[derive(Debug)]
pub(crate) struct Column {
    /// The processor, as the files are named.
    pub(crate) id: String,
    pub(crate) microarchitecture: &'static str,
    /// Of each program, those of the machine with the fewest cores first.
    pub(crate) sets: BTreeMap<String, Vec<Set>>,
}

impl Column {
    fn new(id: &str) -> Result<Self, String> {
        let known = MICROARCHITECTURES.iter().find(|(known, _)| *known == id);
        let (_, microarchitecture) = known.ok_or(format!(
            "the microarchitecture of {id} is not known: add it to `MICROARCHITECTURES`"
        ))?;
        Ok(Self { id: id.to_owned(), microarchitecture, sets: BTreeMap::new() })
    }

    /// Returns the sets of a program.
    pub(crate) fn sets(&self, program: &str) -> &[Set] {
        self.sets.get(program).map_or(&[], Vec::as_slice)
    }

    /// Returns the cell of a row, of the machine with the fewest cores that has one.
    fn cell(&self, row: &Row) -> Option<String> {
        self.sets(row.program).iter().find_map(|set| row.cell(set))
    }

    /// Returns the microarchitecture, the vendor, the family and the model.
    fn name(&self) -> String {
        let id = self.id.replacen("amd", "AMD", 1).replacen("intel", "Intel", 1).replace('-', " ");
        format!("{}, {id}", self.microarchitecture)
    }
}

/// Returns the page, from the files of a repository.
///
/// # Errors
///
/// Returns an error if a file cannot be read, if no processor has a row of a table, or if a missed
/// goal has no reason and is not among the unexplained ones.
pub fn page(root: &Path) -> Result<String, Box<dyn Error>> {
    let read = |path: &str| {
        fs::read_to_string(root.join(path)).map_err(|error| format!("{path}: {error}"))
    };
    let columns = columns(&root.join("docs/performance"))?;
    let instructions = instructions::table(
        &read("checks/instructions/benches/core.baseline")?,
        &read("checks/instructions/benches/tower.baseline")?,
    )?;
    let rule_instructions =
        instructions::rules_table(&read("checks/instructions/benches/rules.baseline")?)?;
    let history = history::table(&read("checks/instructions/history.tsv")?)?;
    let Texts { explained, unexplained } = missed::texts(&columns)?;
    Ok(format!(
        include_str!("page.md"),
        recording = compared(&columns, rows::RECORDING)?,
        threads = threads::tables(&columns)?,
        limits = compared(&columns, rows::LIMITS)?,
        keyed = compared(&columns, rows::KEYED)?,
        rules = compared(&columns, rows::RULES)?,
        rule_instructions = rule_instructions,
        middleware = compared(&columns, rows::MIDDLEWARE)?,
        histograms = compared(&columns, rows::HISTOGRAMS)?,
        versions = versions(&columns),
        instructions = instructions,
        history = history,
        explained = explained,
        unexplained = unexplained,
        files = files(&columns),
    ))
}

/// Reads all files of a folder, by processor.
fn columns(folder: &Path) -> Result<Vec<Column>, Box<dyn Error>> {
    let mut columns: BTreeMap<String, Column> = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let file = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let (id, program) =
            split(&file).ok_or(format!("{file} is not the name of a file of measurements"))?;
        let set = Set::parse(&fs::read_to_string(&path)?).map_err(|it| format!("{file}: {it}"))?;
        let column = match columns.entry(id.to_owned()) {
            Entry::Occupied(column) => column.into_mut(),
            Entry::Vacant(place) => place.insert(Column::new(id)?),
        };
        let sets = column.sets.entry(program.to_owned()).or_default();
        let at = sets.partition_point(|it| it.cores() < set.cores());
        sets.insert(at, set);
    }
    Ok(columns.into_values().collect())
}

/// Splits the name of a file: `amd-family-26-model-2-keyed` into the processor and the program. The
/// number of cores follows if it is more than two: `amd-family-26-model-2-keyed-8-cores`.
fn split(file: &str) -> Option<(&str, &str)> {
    let model = file.find("-model-")? + "-model-".len();
    let digits = file[model..].find('-').map_or(file.len(), |at| model + at);
    let mut program = file[digits..].trim_start_matches('-');
    if let Some(rest) = program.strip_suffix("-cores") {
        (program, _) = rest.rsplit_once('-').unwrap_or(("", rest));
    }
    PROGRAMS.iter().any(|(known, _)| *known == program).then_some((&file[..digits], program))
}

/// Returns a table of some rows, without the processors that have none of them.
fn compared(columns: &[Column], rows: &[Row]) -> Result<String, String> {
    let has = |row: &Row| columns.iter().any(|column| column.cell(row).is_some());
    if let Some(row) = rows.iter().find(|row| !has(row)) {
        return Err(format!("no file has the row: {}, {}", row.what, row.compared_with));
    }
    let is_shown = |column: &&Column| rows.iter().any(|row| column.cell(row).is_some());
    let columns: Vec<_> = columns.iter().filter(is_shown).collect();
    let mut head = vec!["operation", "compared with"];
    head.extend(columns.iter().map(|column| column.microarchitecture));
    let rows = rows.iter().map(|row| {
        let mut cells = [row.what, row.compared_with].map(str::to_owned).to_vec();
        cells.extend(columns.iter().map(|it| it.cell(row).unwrap_or(NOT_MEASURED.to_owned())));
        cells
    });
    Ok(format::table(2, &head, rows))
}

/// Returns the versions of the peers.
fn versions(columns: &[Column]) -> String {
    let about = columns.iter().flat_map(|column| column.sets.values().flatten());
    let about = about.flat_map(|set| &set.about);
    let peers = about.filter(|(name, _)| PEERS.contains(&name.as_str()));
    let versions: BTreeSet<_> = peers.map(|(name, version)| format!("{name} {version}")).collect();
    let versions = versions.into_iter().collect::<Vec<_>>().join(", ");
    format::wrapped(&format!("The other crates: {versions}."), "")
}

/// Returns a table of the files, by program and processor.
fn files(columns: &[Column]) -> String {
    let mut rows = Vec::new();
    for (program, what) in PROGRAMS {
        let name = if program.is_empty() { "(default)".to_owned() } else { format!("`{program}`") };
        for column in columns {
            for set in column.sets(program) {
                let cores = set.cores().map_or("?".to_owned(), |cores| cores.to_string());
                let (what, commit) = ((*what).to_owned(), set.commit.clone());
                rows.push(vec![what, name.clone(), column.name(), commit, cores]);
            }
        }
    }
    format::table(4, &["measured", "program", "processor", "commit", "cores"], rows)
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
        let of_many = split("intel-family-6-model-207-threads-16-cores");
        assert_eq!(of_many, Some(("intel-family-6-model-207", "threads")));
        assert_eq!(split("amd-family-26-model-2-8-cores"), Some(("amd-family-26-model-2", "")));
    }

    #[test]
    fn processor_is_named_by_its_family_and_model() {
        let name = Column::new("amd-family-25-model-1").expect("a processor").name();
        assert_eq!(name, "Zen 3, AMD family 25 model 1");
        let error = Column::new("amd-family-25-model-2").expect_err("another processor");
        assert!(error.contains("amd-family-25-model-2"), "{error}");
    }

    #[test]
    fn processor_without_a_row_has_no_column() {
        let mut columns = columns(&root().join("docs/performance")).expect("files");
        let head = |columns: &[Column], rows| -> Result<String, String> {
            let table = compared(columns, rows)?;
            Ok(table.lines().next().expect("a head").to_owned())
        };
        let found = head(&columns, rows::MIDDLEWARE);
        assert_eq!(found.as_deref(), Ok("| operation | compared with | Zen 5 | Emerald Rapids |"));
        for column in &mut columns {
            column.sets.remove("middleware");
        }
        let error = head(&columns, rows::MIDDLEWARE).expect_err("rows without a processor");
        assert!(error.contains("no file has the row"), "{error}");
    }

    #[test]
    fn missed_goal_of_the_files_needs_an_entry() {
        let mut columns = columns(&root().join("docs/performance")).expect("files");
        let set = columns[0].sets.values_mut().flatten().next().expect("a file");
        let value = set.values.iter_mut().find(|it| it.at_most.is_none()).expect("no goal");
        (value.measured, value.at_most) = (2.0, Some(1.0));
        value.case = "an operation without a reason".to_owned();
        let error = missed::texts(&columns).expect_err("a goal is missed");
        assert!(error.contains("an operation without a reason"), "{error}");
        for column in &mut columns {
            column.sets.clear();
        }
        assert!(missed::texts(&columns).is_err(), "entries without a missed goal");
    }
}
