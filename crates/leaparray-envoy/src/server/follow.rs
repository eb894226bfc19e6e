//! The files of the configuration, which are followed.

use std::error::Error;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::MissedTickBehavior;

use super::metrics::Counts;
use super::rlqs::QuotaServer;
use crate::config::{Config, ConfigError};
use crate::service::Service;

/// The time between two readings. A text counts when it was read twice in a row, so a file that is
/// being written is not taken for a whole one.
const INTERVAL: Duration = Duration::from_millis(900);

/// The files of a configuration: files, and folders whose files with the endings `.yaml` and `.yml`
/// belong to it.
///
/// ```
/// use leaparray_envoy::server::ConfigFiles;
///
/// # let folder = tempfile::tempdir()?;
/// let path = folder.path().join("shop.yaml");
/// std::fs::write(&path, "domain: shop\ndescriptors: []\n")?;
/// let files = ConfigFiles::new([folder.path()]);
/// assert_eq!(&*files.read()?.domains()[0].name, "shop");
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ConfigFiles {
    paths: Vec<PathBuf>,
}

/// The names and the texts of the files.
type Texts = Vec<(String, String)>;

impl ConfigFiles {
    /// Names the files and folders. Reads nothing.
    pub fn new<P: Into<PathBuf>>(paths: impl IntoIterator<Item = P>) -> Self {
        Self { paths: paths.into_iter().map(Into::into).collect() }
    }

    /// Reads the configuration.
    ///
    /// # Errors
    ///
    /// Returns a [`FollowError`] if a file cannot be read, or if its text is wrong.
    pub fn read(&self) -> Result<Config, FollowError> {
        parse(&self.texts()?)
    }

    fn texts(&self) -> Result<Texts, FollowError> {
        let mut texts = Vec::new();
        for path in &self.paths {
            let failed = |error| FollowError::Read(path.clone(), error);
            if !path.is_dir() {
                texts.push(read(path)?);
                continue;
            }
            let entries = fs::read_dir(path).map_err(failed)?;
            let paths = entries.map(|it| it.map(|it| it.path())).collect::<Result<Vec<_>, _>>();
            let mut paths = paths.map_err(failed)?;
            paths.retain(|it| it.extension().is_some_and(|it| it == "yaml" || it == "yml"));
            // A folder of a Kubernetes config map changes as a whole, by a link.
            paths.sort_unstable();
            for path in paths {
                texts.push(read(&path)?);
            }
        }
        Ok(texts)
    }
}

fn read(path: &Path) -> Result<(String, String), FollowError> {
    let text = fs::read_to_string(path);
    let text = text.map_err(|error| FollowError::Read(path.to_owned(), error))?;
    Ok((path.display().to_string(), text))
}

fn parse(texts: &Texts) -> Result<Config, FollowError> {
    let texts = texts.iter().map(|(name, text)| (name.as_str(), text.as_str()));
    Config::from_files(texts).map_err(FollowError::Config)
}

/// Why there is no configuration.
#[derive(Debug)]
#[non_exhaustive]
pub enum FollowError {
    /// A file or a folder cannot be read.
    Read(PathBuf, io::Error),
    /// A text is wrong.
    Config(ConfigError),
}

impl fmt::Display for FollowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Config(error) => error.fmt(f),
        }
    }
}

impl Error for FollowError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Read(_, error) => Some(error),
            Self::Config(_) => None,
        }
    }
}

/// Follows the files. While they are wrong, the last good configuration stays in force; each new
/// problem is told once, on the standard error output.
pub(super) async fn run(
    files: Option<ConfigFiles>,
    service: Service,
    quotas: QuotaServer,
    counts: Arc<Counts>,
) {
    let Some(files) = files else { return std::future::pending().await };
    let mut interval = tokio::time::interval(INTERVAL);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut following = Following { applied: files.texts().ok(), ..Following::default() };
    loop {
        interval.tick().await;
        let files = files.clone();
        let read = tokio::task::spawn_blocking(move || files.texts()).await;
        let Ok(read) = read else { continue };
        match following.next(read) {
            None => {}
            Some(Ok(config)) => {
                service.reconfigure(&config);
                quotas.reload();
                counts.reloads.inc();
            }
            Some(Err(problem)) => {
                eprintln!("leaparray-envoy: the last good configuration stays: {problem}");
                counts.reload_errors.inc();
            }
        }
    }
}

/// The texts that were read.
#[derive(Default)]
struct Following {
    last: Option<Texts>,
    /// The texts that are in force, or that are known to be wrong.
    applied: Option<Texts>,
    problem: Option<String>,
}

impl Following {
    /// Takes a reading. Returns a new configuration, or a new problem.
    fn next(&mut self, read: Result<Texts, FollowError>) -> Option<Result<Config, String>> {
        let texts = match read {
            Ok(texts) => texts,
            Err(error) => return self.problem(&error),
        };
        let is_confirmed = self.last.as_ref() == Some(&texts);
        if self.applied.as_ref() == Some(&texts) {
            self.problem = None;
        } else if is_confirmed {
            self.applied = Some(texts.clone());
            return match parse(&texts) {
                Ok(config) => {
                    self.problem = None;
                    Some(Ok(config))
                }
                Err(error) => self.problem(&error),
            };
        }
        self.last = Some(texts);
        None
    }

    fn problem(&mut self, error: &FollowError) -> Option<Result<Config, String>> {
        let text = error.to_string();
        let is_new = self.problem.as_ref() != Some(&text);
        self.problem = Some(text.clone());
        is_new.then_some(Err(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::unnecessary_wraps, reason = "what `next` takes")]
    fn texts(text: &str) -> Result<Texts, FollowError> {
        Ok(vec![("shop.yaml".to_owned(), text.to_owned())])
    }

    #[test]
    fn text_counts_when_it_was_read_twice_and_problem_is_told_once() {
        let mut following = Following::default();
        let (good, other) = ("domain: shop\n", "domain: mall\n");
        assert!(following.next(texts(good)).is_none());
        assert!(following.next(texts(good)).unwrap().is_ok());
        assert!(following.next(texts(good)).is_none());
        assert!(following.next(texts(other)).is_none());
        assert!(following.next(texts(good)).is_none());
        for is_told in [false, true, false] {
            let result = following.next(texts("domain: ["));
            assert_eq!(result.is_some_and(|it| it.is_err()), is_told);
        }
        assert!(following.next(texts(other)).is_none());
        let config = following.next(texts(other)).unwrap().unwrap();
        assert_eq!(&*config.domains()[0].name, "mall");
        let away = || Err(FollowError::Read("shop.yaml".into(), io::ErrorKind::NotFound.into()));
        assert!(following.next(away()).unwrap().is_err());
        assert!(following.next(away()).is_none());
    }
}
