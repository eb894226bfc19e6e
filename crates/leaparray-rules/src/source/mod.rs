//! The sources of rules, and the state of rules that follow one.

mod follower;

use std::error::Error;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use leaparray::Timestamp;

use crate::changes::Changes;
use crate::problem::Problems;
pub(crate) use follower::Follower;

/// A place from which the text of rules is read, such as a [file](Follow::file). A closure is one.
pub trait Source {
    /// Reads the present text. It may take its time: no request waits for it.
    ///
    /// # Errors
    ///
    /// Returns why there is no text now. The last good rules stay in force.
    fn read(&mut self) -> Result<String, Box<dyn Error + Send + Sync>>;
}

impl<F, E> Source for F
where
    F: FnMut() -> Result<String, E>,
    E: Into<Box<dyn Error + Send + Sync>>,
{
    fn read(&mut self) -> Result<String, Box<dyn Error + Send + Sync>> {
        self().map_err(Into::into)
    }
}

/// A source to be followed: see [`Rules::follow`](crate::Rules::follow).
///
/// ```
/// use leaparray::Registry;
/// use leaparray_rules::{Follow, Rules};
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// let rules = Rules::new(Arc::new(Registry::new()));
/// let text = "[[rule]]\nname = \"all\"\nresource = \"*\"\nin_flight = 64";
/// let source = move || Ok::<_, std::io::Error>(text.to_owned());
/// let follow = Follow::source("the program", source)
///     .every(Duration::from_secs(10))
///     .on_event(|event| println!("rules: {event}"));
/// assert_eq!(rules.follow(follow)?.added[..], ["all".into()]);
/// # Ok::<_, leaparray_rules::FollowError>(())
/// ```
#[must_use]
pub struct Follow {
    pub(crate) name: String,
    pub(crate) source: Box<dyn Source + Send>,
    pub(crate) interval: Duration,
    pub(crate) on_event: Option<OnEvent>,
}

/// The callback for events.
type OnEvent = Box<dyn FnMut(&Event) + Send>;

impl Follow {
    /// The interval if none is set.
    const INTERVAL: Duration = Duration::from_secs(1);

    /// The shortest interval, so that the thread does not read all the time.
    const SHORTEST: Duration = Duration::from_millis(1);

    /// Follows a file by its path. A file that is replaced by a rename is found, as is one that is
    /// truncated and written.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let name = path.display().to_string();
        Self::source(&name, move || std::fs::read_to_string(&path))
    }

    /// Follows a source with a name for messages.
    pub fn source(name: &str, source: impl Source + Send + 'static) -> Self {
        let (name, source) = (name.to_owned(), Box::new(source));
        Self { name, source, interval: Self::INTERVAL, on_event: None }
    }

    /// Sets the time between two readings, by default a second, and at least a millisecond. A text
    /// that has changed is read again after 50 ms, and counts if it is the same; after
    /// a second if it is wrong, or has fewer rules, as a file that is written slowly.
    pub fn every(self, interval: Duration) -> Self {
        Self { interval: interval.max(Self::SHORTEST), ..self }
    }

    /// Calls `on_event` when the rules change, and when the source begins to be away or wrong, or
    /// is good again. It is called by the thread that follows the source, and not for the first
    /// rules.
    pub fn on_event(self, on_event: impl FnMut(&Event) + Send + 'static) -> Self {
        Self { on_event: Some(Box::new(on_event)), ..self }
    }

    /// Reads the source. A panic is an error.
    pub(crate) fn read(&mut self) -> Result<String, String> {
        match catch_unwind(AssertUnwindSafe(|| self.source.read())) {
            Ok(read) => read.map_err(|error| error.to_string()),
            Err(_) => Err("the source has panicked".to_owned()),
        }
    }

    pub(crate) fn tell(&mut self, event: &Event) {
        if let Some(on_event) = &mut self.on_event
            && catch_unwind(AssertUnwindSafe(|| on_event(event))).is_err()
        {
            // It would panic again.
            self.on_event = None;
        }
    }
}

impl fmt::Debug for Follow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, interval, .. } = self;
        f.debug_struct("Follow")
            .field("name", name)
            .field("interval", interval)
            .finish_non_exhaustive()
    }
}

/// A change of rules that are followed, or of their source.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// The rules were replaced. If there was no change of a rule, the source is good again, or only
    /// its text has changed.
    Applied(Changes),
    /// The source returns no text. The last good rules stay in force.
    #[non_exhaustive]
    Away {
        /// The error of the source.
        error: String,
    },
    /// The text has problems. The last good rules stay in force.
    Wrong(Problems),
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Applied(changes) => changes.fmt(f),
            Self::Away { error } => {
                write!(f, "the source is away, and the last rules stay: {error}")
            }
            Self::Wrong(problems) => {
                write!(f, "the text is wrong, and the last rules stay:\n{problems}")
            }
        }
    }
}

/// The state of rules: plain data. Returned by [`Rules::status`](crate::Rules::status).
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct RulesStatus {
    /// The number of times that rules were applied.
    pub version: u64,
    /// The number of rules.
    pub rules: usize,
    /// The time at which rules were applied last, by the clock of the registry.
    pub applied_at: Option<Timestamp>,
    /// The source, if one is followed.
    pub source: Option<SourceStatus>,
    /// The rules whose name of a resource is listed in the other direction, by which they concern
    /// no request: for example a rule with `outbound`, for a name that was first used for a request
    /// of this service.
    pub misdirected: Vec<Arc<str>>,
}

/// The state of a source that is followed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SourceStatus {
    /// Its name.
    pub name: String,
    /// The time since which it is in its state, by the clock of the registry.
    pub since: Timestamp,
    /// The time of its last reading that ended, by the clock of the registry. A source that does
    /// not answer keeps it back.
    pub read_at: Timestamp,
    /// Its state.
    pub state: SourceState,
}

/// Whether a source is good.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum SourceState {
    /// Its last text is in force.
    Good,
    /// It returns no text.
    #[non_exhaustive]
    Away {
        /// The error of the source.
        error: String,
    },
    /// Its text has problems.
    Wrong(Problems),
}

/// Why rules cannot be followed: the source has no good text to begin with.
#[derive(Debug)]
#[non_exhaustive]
pub enum FollowError {
    /// The source returns no text.
    #[non_exhaustive]
    Away {
        /// The name of the source.
        source: String,
        /// The error of the source.
        error: String,
    },
    /// The text does not stay the same for long enough to be read twice.
    #[non_exhaustive]
    Unsettled {
        /// The name of the source.
        source: String,
    },
    /// The text has problems.
    Wrong(Problems),
    /// No thread can be started.
    Thread(io::Error),
}

impl fmt::Display for FollowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Away { source, error } => write!(f, "{source}: {error}"),
            Self::Unsettled { source } => write!(f, "{source}: the text changes all the time"),
            Self::Wrong(problems) => problems.fmt(f),
            Self::Thread(error) => write!(f, "no thread to follow the rules: {error}"),
        }
    }
}

impl Error for FollowError {}
