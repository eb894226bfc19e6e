//! The table fits the tree.

use std::collections::BTreeSet;
use std::path::Path;
use std::{fs, io};

use leaparray_mutants::{Killer, Table, root};

#[test]
fn every_entry_applies() {
    let root = root();
    let promises = promises(&root);
    let mut wrong = Vec::new();
    for mutant in Table::read(&root).unwrap().mutants {
        let name = &mutant.name;
        match fs::read_to_string(root.join(&mutant.file)).map(|text| (mutant.apply(&text), text)) {
            Err(error) => wrong.push(format!("{name}: {}: {error}", mutant.file)),
            Ok((Err(error), _)) => wrong.push(format!("{name}: {error} in {}", mutant.file)),
            Ok((Ok(changed), text)) if changed == text => {
                wrong.push(format!("{name}: changes nothing"));
            }
            Ok(_) => {}
        }
        if !promises.contains(&mutant.promise) {
            wrong.push(format!("{name}: docs/CORRECTNESS.md has no promise {}", mutant.promise));
        }
        if !exists(&root, &mutant.killer).unwrap() {
            wrong.push(format!("{name}: there is no test {}", mutant.killer));
        }
    }
    assert!(
        wrong.is_empty(),
        "\n{}\nCONTRIBUTING.md says how to mend these entries of checks/mutants/table.toml, in \
         \"When an edit breaks a mutant\"",
        wrong.join("\n")
    );
}

#[test]
fn names_are_distinct() {
    let mut names = BTreeSet::new();
    for mutant in Table::read(&root()).unwrap().mutants {
        assert!(names.insert(mutant.name.clone()), "two mutants have the name {}", mutant.name);
    }
}

#[test]
fn every_promise_has_an_entry() {
    let root = root();
    let table = Table::read(&root).unwrap();
    let with: BTreeSet<_> = table.mutants.into_iter().map(|mutant| mutant.promise).collect();
    let without: Vec<_> = promises(&root).into_iter().filter(|it| !with.contains(it)).collect();
    assert!(without.is_empty(), "no mutant breaks {without:?}");
}

/// Returns the promises, as in links to their headings.
fn promises(root: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(root.join("docs/CORRECTNESS.md")).unwrap();
    let all = text.lines().skip_while(|line| *line != "## The promises").skip(1);
    let all = all
        .take_while(|line| !line.starts_with("## "))
        .filter_map(|line| line.strip_prefix("### "));
    all.map(|heading| heading.to_lowercase().replace(' ', "-")).collect()
}

/// Returns whether the source of the killer's binary has its test: a function, or an argument of a
/// macro that writes the function.
fn exists(root: &Path, killer: &Killer) -> io::Result<bool> {
    let test = killer.test.rsplit("::").next().unwrap_or_default();
    let (function, argument) = (format!("fn {test}("), format!("{test}:"));
    let is_definition =
        |line: &str| line.contains(&function) || line.trim_start().starts_with(&argument);
    let mut paths = killer.build.sources(root);
    while let Some(path) = paths.pop() {
        if path.is_dir() {
            for entry in fs::read_dir(path)? {
                paths.push(entry?.path());
            }
        } else if path.extension().is_some_and(|it| it == "rs")
            && path.exists()
            && fs::read_to_string(path)?.lines().any(is_definition)
        {
            return Ok(true);
        }
    }
    Ok(false)
}
