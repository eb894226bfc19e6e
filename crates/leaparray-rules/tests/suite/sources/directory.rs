//! The files of a directory.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use leaparray_rules::{Event, Follow, FollowError, RuleSet, Rules};

use super::{away, changed, follow, next, rule};

#[test]
fn files_of_a_directory_are_one_list_in_the_order_of_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("b.toml"), rule("b", 1)).unwrap();
    fs::write(path("a.toml"), rule("a", 1)).unwrap();
    fs::write(path(".c.toml"), "a hidden file").unwrap();
    fs::write(path("a.toml~"), "a copy of an editor").unwrap();
    let source = || Follow::directory(folder.path()).every(Duration::from_millis(20));
    let (rules, events) = follow(source());
    let names =
        |rules: &Rules| rules.rules().iter().map(|it| it.name.to_string()).collect::<Vec<_>>();
    assert_eq!(names(&rules), ["a", "b"]);

    fs::write(path("b.toml"), rule("b", 2)).unwrap();
    assert_eq!(changed(&events), [Arc::from("b")]);
    fs::write(path("c.toml"), rule("a", 3)).unwrap();
    let Event::Wrong(problems) = next(&events) else { panic!() };
    let expected = format!(
        "{}:1: rule \"a\": the rule of {}:1 has this name; write a name of its own",
        path("c.toml").display(),
        path("a.toml").display()
    );
    assert_eq!(problems.to_string(), expected);
    fs::write(path("c.toml"), rule("c", 3)).unwrap();
    let Event::Applied(changes) = next(&events) else { panic!() };
    assert_eq!(changes.added, [Arc::from("c")]);

    for name in ["a.toml", "b.toml", "c.toml"] {
        fs::remove_file(path(name)).unwrap();
    }
    // One that was read in between may be a part of the removal.
    while rules.rules().len() < 3 {
        assert!(matches!(next(&events), Event::Applied(_)));
    }
    assert_eq!(away(&events), "no file of the directory ends with .toml");
    assert_eq!(names(&rules), ["a", "b", "c"], "the last good ones");
    let error = rules.follow(source()).unwrap_err();
    assert!(matches!(error, FollowError::Away { .. }), "{error}");
    rules.apply(&RuleSet::default());
    rules.follow(source().may_be_away()).unwrap();
    assert_eq!(names(&rules), [""; 0]);
}
