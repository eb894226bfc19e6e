//! A copy of the tree, in which mutants are compiled and run.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;
use std::{fs, io};

use leaparray_mutants::Build;

pub(crate) struct Copy {
    folder: PathBuf,
}

/// A binary of tests that was compiled.
pub(crate) struct Binary {
    path: PathBuf,
    package_dir: PathBuf,
}

impl Copy {
    /// Copies the files that git tracks or would track. In a copy that is there already, only files
    /// that differ are written: cargo compiles what was modified.
    pub(crate) fn of(root: &Path, folder: &Path) -> io::Result<Self> {
        let copy = Self { folder: folder.to_path_buf() };
        let list = |at: &Path, arguments: &[&str]| -> io::Result<BTreeSet<PathBuf>> {
            let output = Command::new("git")
                .arg("-C")
                .arg(at)
                .arg("ls-files")
                .arg("-z")
                .args(arguments)
                .output()
                .map_err(|error| io::Error::other(format!("cannot run git: {error}")))?;
            if !output.status.success() {
                let error = String::from_utf8_lossy(&output.stderr);
                return Err(io::Error::other(format!(
                    "git cannot list the files: {}",
                    error.trim()
                )));
            }
            let text = String::from_utf8(output.stdout).map_err(io::Error::other)?;
            Ok(text
                .split_terminator('\0')
                .map(PathBuf::from)
                .filter(|it| at.join(it).is_file())
                .collect())
        };
        let files = list(root, &["--cached", "--others", "--exclude-standard"])?;
        let tree = copy.tree();
        fs::create_dir_all(&tree)?;
        fs::create_dir_all(copy.logs())?;
        // A repository of its own, so that git does not take the copy for a part of another one.
        Command::new("git").args(["init", "--quiet"]).arg(&tree).status()?;
        for gone in list(&tree, &["--others"])?.difference(&files) {
            fs::remove_file(tree.join(gone))?;
            // Cargo takes an empty folder for a member of the workspace.
            let folders = gone.ancestors().skip(1).take_while(|it| *it != Path::new(""));
            folders.take_while(|it| fs::remove_dir(tree.join(it)).is_ok()).for_each(drop);
        }
        for file in &files {
            let (from, to) = (fs::read(root.join(file))?, tree.join(file));
            if fs::read(&to).ok().as_ref() != Some(&from) {
                fs::create_dir_all(to.parent().unwrap_or(&tree))?;
                // `copy` also copies the permissions, and sets a new time of modification.
                fs::copy(root.join(file), to)?;
            }
        }
        Ok(copy)
    }

    fn tree(&self) -> PathBuf {
        self.folder.join("tree")
    }

    fn logs(&self) -> PathBuf {
        self.folder.join("logs")
    }

    /// Returns the file for the output of a step.
    pub(crate) fn log(&self, name: &str) -> PathBuf {
        self.logs().join(format!("{}.log", name.replace([' ', ':'], "-")))
    }

    pub(crate) fn read(&self, file: &str) -> io::Result<String> {
        fs::read_to_string(self.tree().join(file))
    }

    pub(crate) fn write(&self, file: &str, text: &str) -> io::Result<()> {
        fs::write(self.tree().join(file), text)
    }

    /// Compiles a binary of tests. Returns `None` if that fails.
    pub(crate) fn compile(&self, build: &Build, log: &Path) -> io::Result<Option<Binary>> {
        let mut cargo = Command::new("cargo");
        cargo.current_dir(self.tree()).args(["test", "--no-run", "--locked", "--color=never"]);
        cargo.args(build.arguments()).env_remove("CARGO_ENCODED_RUSTFLAGS");
        // Each mutant changes one line, and compiling takes longer than running. So: incremental,
        // without debugging information, and with few optimizations. Models do not get slower.
        cargo.env("CARGO_INCREMENTAL", "1").env("CARGO_PROFILE_DEV_DEBUG", "0");
        cargo.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1");
        let target = if build.is_loom() { "target-loom" } else { "target" };
        cargo.env("RUSTFLAGS", if build.is_loom() { "--cfg loom" } else { "" });
        cargo.env("CARGO_TARGET_DIR", self.folder.join(target));
        let status = run_into(&mut cargo, log)?;
        let output = fs::read_to_string(log)?;
        // `Executable tests/suite/main.rs (/scratch/target/debug/deps/suite-0123456789abcdef)`
        let line = output.lines().rfind(|line| line.trim_start().starts_with("Executable"));
        let path = line.and_then(|line| line.rsplit_once('(')?.1.strip_suffix(')'));
        let binary = |path| Binary {
            path: self.tree().join(path),
            package_dir: self.tree().join(build.package_dir()),
        };
        Ok(path.filter(|_| status.success()).map(binary))
    }
}

impl Binary {
    /// Runs one test, with a time limit.
    pub(crate) fn run(&self, test: &str, limit: Duration, log: &Path) -> io::Result<ExitStatus> {
        let mut command = Command::new("timeout");
        command.arg("--kill-after=5").arg(limit.as_secs().to_string()).arg(&self.path);
        // Some tests are ignored by default: they need a server.
        command.args(["--exact", test, "--include-ignored"]);
        // Also the output of a test that passes: it may say that the test was skipped.
        command.arg("--show-output");
        // As cargo runs it.
        command.current_dir(&self.package_dir).env("CARGO_MANIFEST_DIR", &self.package_dir);
        run_into(&mut command, log)
    }
}

/// Runs a command with all of its output in a file.
fn run_into(command: &mut Command, log: &Path) -> io::Result<ExitStatus> {
    let file = fs::File::create(log)?;
    command.stdout(file.try_clone()?).stderr(file).status()
}
