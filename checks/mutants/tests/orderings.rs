//! The list of the models by which `checks/mutants/orderings` finds needless orderings.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use leaparray_mutants::{Table, root};

/// The beginnings of paths, each with its models.
fn lines(root: &Path) -> Vec<(String, BTreeSet<String>)> {
    let text = fs::read_to_string(root.join("checks/mutants/orderings.models")).unwrap();
    let of = |line: &str| {
        let (begin, models) = line.split_once(" | ").expect("a path and its models");
        (begin.into(), models.split(' ').map(Into::into).collect())
    };
    text.lines().filter(|line| !line.starts_with('#')).map(of).collect()
}

#[test]
fn each_path_exists() {
    let root = root();
    for (begin, _) in lines(&root) {
        assert!(root.join(&begin).exists(), "{begin}");
    }
}

#[test]
fn each_model_is_named() {
    let root = root();
    let files = fs::read_dir(root.join("loom-tests/tests")).unwrap();
    let models = files.map(|file| file.unwrap().path().file_stem().unwrap().to_owned());
    let models: BTreeSet<String> = models.map(|it| it.into_string().unwrap()).collect();
    let named: BTreeSet<_> = lines(&root).into_iter().flat_map(|(_, models)| models).collect();
    assert_eq!(named, models);
}

/// Returns whether the text has code that orders memory. The tests in the file do not count.
fn has_strong_ordering(text: &str) -> bool {
    let strong = ["Acquire", "Release", "AcqRel", "SeqCst"].map(|it| format!("Ordering::{it}"));
    let is_code = |line: &&str| !line.trim_start().starts_with("//");
    let code = text.lines().filter(is_code).take_while(|line| !line.contains("mod tests {"));
    let mut code = code.filter(|line| !line.trim_start().starts_with("use "));
    code.any(|line| line.contains("fence(") || strong.iter().any(|it| line.contains(it)))
}

#[test]
fn each_file_with_a_strong_ordering_has_models() {
    let root = root();
    let lines = lines(&root);
    let (mut paths, mut missing) = (vec![root.join("src")], Vec::new());
    while let Some(path) = paths.pop() {
        let file = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            paths.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        // As `checks/mutants/orderings` selects the files.
        } else if path.extension().is_some_and(|it| it == "rs")
            && !file.ends_with("tests.rs")
            && !file.starts_with("src/stall_tests/")
            && !lines.iter().any(|(begin, _)| file.starts_with(begin))
            && has_strong_ordering(&fs::read_to_string(&path).unwrap())
        {
            missing.push(file);
        }
    }
    assert!(missing.is_empty(), "orderings.models has no line for {missing:#?}");
}

#[test]
fn models_that_kill_mutants_of_a_file_are_those_of_its_orderings() {
    let root = root();
    let lines = lines(&root);
    for mutant in Table::read(&root).unwrap().mutants {
        let file = fs::read_to_string(root.join(&mutant.file)).unwrap();
        let Some(model) = mutant.killer.model().filter(|_| has_strong_ordering(&file)) else {
            continue;
        };
        let line = lines.iter().find(|(begin, _)| mutant.file.starts_with(begin));
        let Some((_, models)) = line else {
            panic!("{}: orderings.models has no line for {}", mutant.name, mutant.file)
        };
        assert!(models.contains(model), "{}: {} lacks {model}", mutant.name, mutant.file);
    }
}

#[test]
fn each_argued_ordering_is_in_its_file() {
    let root = root();
    let text = fs::read_to_string(root.join("checks/mutants/orderings.argued")).unwrap();
    for line in text.lines() {
        let [file, code, change, _] = line.split(" | ").collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let source = fs::read_to_string(root.join(file)).unwrap();
        assert!(source.lines().any(|line| line.trim() == code), "{file} has no line {code}");
        let (from, _) = change.split_once(" → ").unwrap();
        assert!(code.contains(from), "{code} has no {from}");
    }
}
