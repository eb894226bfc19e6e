//! The page in a browser: Chromium, driven by `playwright-core`, with the servers of this file. The
//! tests are in `browser/*.test.mjs`.

mod server;

use std::env;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread;

/// The files of tests that run at the same time.
const SIDE_BY_SIDE: usize = 4;

/// The folder with the tests.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser")
}

#[test]
#[ignore = "needs node and chromium"]
fn page_works_in_a_browser() {
    let missing = missing();
    if !missing.is_empty() {
        list_as_skipped(&format!("skipped: the page in a browser: needs {}\n", missing.join(", ")));
        return;
    }
    // Counts the frames of a browser, so nothing else draws meanwhile.
    let (counting, mut others): (Vec<_>, Vec<_>) =
        test_files().into_iter().partition(|file| file.ends_with("performance.test.mjs"));
    for file in &counting {
        pass(file);
    }
    // They wait for seconds of the page for most of their time.
    others.reverse();
    let others = Mutex::new(others);
    thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE {
            scope.spawn(|| {
                loop {
                    let Some(file) = others.lock().unwrap().pop() else { break };
                    pass(&file);
                }
            });
        }
    });
}

/// Runs the tests of a file. A browser on a busy machine can be late for any deadline, so a file
/// may fail once. A defect fails twice.
fn pass(file: &Path) {
    let run = || {
        let mut command = Command::new("node");
        command.arg("--test").arg(file).current_dir(folder());
        command.env("LEAPARRAY_WEB_SERVER", env::current_exe().unwrap());
        let output = command.output().unwrap();
        // In one piece: other files print at the same time.
        for printed in [output.stdout, output.stderr] {
            print!("{}", String::from_utf8_lossy(&printed));
        }
        output.status.success()
    };
    assert!(run() || run(), "{} fails: see above", file.display());
}

/// The server of the tests, which starts this program again with a scenario.
#[test]
#[ignore = "a server, not a test"]
fn serve() {
    if let Ok(scenario) = env::var("LEAPARRAY_WEB_SCENARIO") {
        server::run(&scenario);
    }
}

/// Returns what is not installed, and how to install it.
fn missing() -> Vec<&'static str> {
    let mut missing = Vec::new();
    if !is_program("node") {
        missing.push("node");
    }
    if !["chromium", "chromium-browser", "google-chrome"].into_iter().any(is_program) {
        missing.push("chromium");
    }
    let is_installed = |package: &&str| folder().join("node_modules").join(package).is_dir();
    if !["acorn", "axe-core", "eslint-scope", "playwright-core"].iter().all(is_installed) {
        missing.push("`npm ci` in crates/leaparray-web/tests/browser");
    }
    missing
}

/// Returns whether a program is found on `PATH`.
fn is_program(name: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

fn test_files() -> Vec<PathBuf> {
    let entries = folder().read_dir().unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        entries.filter(|path| path.to_string_lossy().ends_with(".test.mjs")).collect();
    files.sort();
    files
}

/// Prints a line, and adds it to the list of skipped checks if the caller keeps one.
fn list_as_skipped(line: &str) {
    print!("{line}");
    if let Some(list) = env::var_os("SKIPPED_LIST") {
        let file = OpenOptions::new().append(true).create(true).open(list);
        file.unwrap().write_all(line.as_bytes()).unwrap();
    }
}
