//! The sources of rules, and the state of rules that follow one.

mod directory;
#[cfg(feature = "etcd")]
mod etcd;
mod follower;
#[cfg(feature = "http")]
mod http;
#[cfg(feature = "redis")]
mod redis;

use std::error::Error;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Weak};
use std::time::Duration;

use leaparray::Timestamp;

use crate::changes::Changes;
use crate::document::{Documents, Format};
use crate::problem::Problems;
pub(crate) use follower::{Follower, Reading};

/// Why a source has no documents now.
pub type SourceError = Box<dyn Error + Send + Sync>;

/// A place from which the text of rules is read, such as a [file](Follow::file). One method is
/// enough; a closure that returns a text is a source.
///
/// ```
/// use leaparray::Registry;
/// use leaparray_rules::{Documents, Follow, Rules, Source, SourceError};
/// use std::sync::Arc;
///
/// /// The rules of a table of the program's database.
/// struct Table;
///
/// impl Source for Table {
///     fn read(&mut self) -> Result<Documents, SourceError> {
///         Ok("rule = []".to_owned().into())
///     }
/// }
///
/// let rules = Rules::new(Arc::new(Registry::new()));
/// rules.follow(Follow::source("the table", Table))?;
/// assert_eq!(rules.status().source.map(|it| it.name).as_deref(), Some("the table"));
/// # Ok::<_, leaparray_rules::FollowError>(())
/// ```
pub trait Source {
    /// Reads the present documents. It may take its time: no request waits for it. It ends some
    /// day: an error is also an answer.
    ///
    /// # Errors
    ///
    /// Returns why there are none now. The last good rules stay in force.
    fn read(&mut self) -> Result<Documents, SourceError>;

    /// Returns whether a reading is whole, so that it counts at once, as the text of a server is.
    /// Any other reading counts when it was read twice in a row. By default, it is not.
    ///
    /// Documents that lack a rule that is in force, or their last line break, or that are wrong,
    /// are read again after a second also if this returns true.
    fn is_whole(&self) -> bool {
        false
    }

    /// Called once, by the thread that follows the source, before its first reading there. A source
    /// that is told of changes starts to [wake](Wake::wake) its follower then. By default, it does
    /// not.
    fn watch(&mut self, wake: Wake) {
        drop(wake);
    }
}

impl<F, D, E> Source for F
where
    F: FnMut() -> Result<D, E>,
    D: Into<Documents>,
    E: Into<SourceError>,
{
    fn read(&mut self) -> Result<Documents, SourceError> {
        self().map(Into::into).map_err(Into::into)
    }
}

/// Has the source of a [`Follow`] read at once, instead of at the end of its interval. Between two
/// readings there are at least 50 ms, and while it is away a second, if its interval is no
/// shorter.
#[derive(Clone, Debug)]
pub struct Wake(Weak<SyncSender<()>>);

impl Wake {
    pub(crate) const fn new(sender: Weak<SyncSender<()>>) -> Self {
        Self(sender)
    }

    /// Has the source read. Returns whether it is still followed. Does not wait for the reading.
    #[expect(clippy::must_use_candidate, reason = "a thread that wakes often may ignore it")]
    pub fn wake(&self) -> bool {
        // A full channel has a call that the thread has not seen yet.
        self.0.upgrade().map(|it| it.try_send(())).is_some()
    }

    /// Returns whether the source is still followed. A thread that wakes the follower ends
    /// otherwise.
    #[must_use]
    pub fn is_followed(&self) -> bool {
        self.0.strong_count() > 0
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
/// assert_eq!(rules.follow(follow)?.added[..], [Arc::from("all")]);
/// # Ok::<_, leaparray_rules::FollowError>(())
/// ```
#[must_use]
pub struct Follow {
    pub(crate) name: String,
    pub(crate) source: Box<dyn Source + Send>,
    pub(crate) interval: Duration,
    pub(crate) format: Option<Format>,
    pub(crate) may_be_away: bool,
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

    /// Follows a source with a name for messages and metrics, so without secrets.
    pub fn source(name: &str, source: impl Source + Send + 'static) -> Self {
        let (name, source) = (name.to_owned(), Box::new(source));
        let interval = Self::INTERVAL;
        Self { name, source, interval, format: None, may_be_away: false, on_event: None }
    }

    /// Follows the files of a directory whose names end with `.toml`, in the order of their names:
    /// their rules are one list. A directory without such a file is away, so that one that is
    /// replaced does not remove all rules.
    pub fn directory(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let name = path.display().to_string();
        Self::source(&name, move || directory::read(&path))
    }

    /// Sets the format of the documents, which is [TOML](Format::Toml) otherwise.
    pub fn format(self, format: Format) -> Self {
        Self { format: Some(format), ..self }
    }

    /// Follows the source also if it has no good text to begin with. The present rules are in force
    /// until it has, and [`status`](crate::Rules::status) tells why. So a service can start while
    /// its server of rules is away. `follow` waits for the first reading all the same: for as long
    /// as a server that does not answer is given.
    ///
    /// ```
    /// use leaparray::Registry;
    /// use leaparray_rules::{Follow, Rules, SourceState};
    /// use std::sync::Arc;
    ///
    /// let rules = Rules::new(Arc::new(Registry::new()));
    /// rules.follow(Follow::file("/no/such/file").may_be_away())?;
    /// let source = rules.status().source.expect("it is followed");
    /// assert!(matches!(source.state, SourceState::Away { .. }));
    /// # Ok::<_, leaparray_rules::FollowError>(())
    /// ```
    pub fn may_be_away(self) -> Self {
        Self { may_be_away: true, ..self }
    }

    /// Sets the time between two readings, by default a second, and at least a millisecond. A text
    /// that has changed is read again after 50 ms, and counts if it is the same; after a second if
    /// it is wrong, or has fewer rules, as a file that is written slowly. While a server is away,
    /// the time doubles with each reading, up to half a minute.
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
    pub(crate) fn read(&mut self) -> Reading {
        match catch_unwind(AssertUnwindSafe(|| self.source.read())) {
            Ok(Ok(read)) => Ok(read.of_source(&self.name, self.format.as_ref())),
            Ok(Err(error)) => Err(error.to_string()),
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
    /// The rules with a key that requests lacked, with the number of these requests: they count
    /// together. For example the rules for `client` in a service that is not told the addresses.
    pub without_key: Vec<(Arc<str>, u64)>,
    /// The rules that have refused requests, with the number of these in all their versions. A
    /// request that several rules would refuse counts for the one that its
    /// [refusal](leaparray::flow::Refusal::limiter) names. One that waits in a
    /// [queue](leaparray::flow::WaitQueue) counts for none, nor does one that a combination with
    /// other limiters refuses.
    pub refused: Vec<(Arc<str>, u64)>,
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
    /// The number of readings that ended. Those of the rules to begin with are one.
    pub readings: u64,
    /// The number of these that returned no documents.
    pub failures: u64,
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
        /// The last error of the source.
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

impl FollowError {
    /// Returns the state of a source that has no good text to begin with.
    pub(crate) fn into_state(self) -> Result<SourceState, Self> {
        match self {
            Self::Away { error, .. } => Ok(SourceState::Away { error }),
            Self::Unsettled { .. } => Ok(SourceState::Away { error: self.to_string() }),
            Self::Wrong(problems) => Ok(SourceState::Wrong(problems)),
            Self::Thread(_) => Err(self),
        }
    }
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
