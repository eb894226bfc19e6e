//! Sentinel's rules, as the dashboard reads and replaces them.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leaparray::MonotonicClock;
use leaparray::flow::shadow::Mode;
use leaparray_rules::{
    Changes, Document, Format, Problems, RuleClock, Rules, Sentinel, SentinelKind,
};

/// Sentinel's rules of all five kinds, in force in [`Rules`]. A dashboard reads them, and may
/// replace those of a kind as a whole.
///
/// The book owns the list of the rules: each change of it [applies](Rules::apply) all its rules,
/// and no others. Rules of the service itself, which no dashboard changes, are added by
/// [`base`](Self::base). Do not have the same `Rules` follow a source.
///
/// ```
/// use leaparray::Registry;
/// use leaparray_rules::{Rules, SentinelKind};
/// use leaparray_sentinel::RuleBook;
/// use std::sync::Arc;
///
/// let rules = Rules::new(Arc::new(Registry::new()));
/// let book = RuleBook::new(rules.clone());
/// book.set(SentinelKind::Flow, r#"[{"resource": "GET /orders", "grade": 1, "count": 20}]"#)?;
/// assert_eq!(rules.rules()[0].name.as_ref(), "flow GET /orders");
///
/// // A rule that cannot be kept changes nothing.
/// let error = book.set(SentinelKind::Flow, r#"[{"resource": "pay", "count": -1}]"#).unwrap_err();
/// assert!(error.to_string().starts_with("flow:1: rule \"flow pay\": count: "), "{error}");
/// assert_eq!(
///     book.json(SentinelKind::Flow),
///     r#"[{"count":20,"grade":1,"resource":"GET /orders"}]"#
/// );
/// # Ok::<_, leaparray_sentinel::SetError>(())
/// ```
pub struct RuleBook<C: RuleClock = MonotonicClock> {
    rules: Rules<C>,
    folder: Option<PathBuf>,
    book: Mutex<Book>,
}

#[derive(Clone)]
struct Book {
    base: Vec<Document>,
    kinds: Vec<Kind>,
    is_on: bool,
}

/// The rules of a kind.
#[derive(Clone)]
struct Kind {
    reader: Sentinel,
    /// As it was set.
    text: String,
    /// As it is shown.
    json: String,
}

impl Book {
    fn kind(&mut self, kind: SentinelKind) -> &mut Kind {
        let found = self.kinds.iter_mut().find(|it| it.reader.kind() == kind);
        found.expect("there is one of each kind")
    }

    fn documents(&self) -> Vec<Document> {
        let of_kind = |it: &Kind| {
            let document = Document::new(it.reader.kind().name(), &it.text);
            document.format(Format::Sentinel(it.reader.clone()))
        };
        self.base.iter().cloned().chain(self.kinds.iter().map(of_kind)).collect()
    }
}

impl<C: RuleClock> RuleBook<C> {
    /// Creates a book without rules. The rules that are in force stay until the first change.
    #[must_use]
    pub fn new(rules: Rules<C>) -> Self {
        let kind =
            |kind| Kind { reader: Sentinel::new(kind), text: "[]".into(), json: "[]".into() };
        let kinds = SentinelKind::ALL.map(kind).into();
        let book = Book { base: Vec::new(), kinds, is_on: true };
        Self { rules, folder: None, book: Mutex::new(book) }
    }

    /// Sets how rules of a kind are read: which keys of a request are its origin and its
    /// parameters. Call it before rules are read.
    #[must_use]
    pub fn reader(self, reader: Sentinel) -> Self {
        let kind = reader.kind();
        self.book().kind(kind).reader = reader;
        self
    }

    /// Adds rules of the service itself, which no dashboard shows or changes, and applies all.
    ///
    /// # Errors
    ///
    /// Returns all problems of the document, if there is one.
    pub fn base(self, document: Document) -> Result<Self, SetError> {
        self.change(|book| {
            book.base.push(document);
            Ok(())
        })?;
        Ok(self)
    }

    /// Keeps the rules in a folder, which exists: those of a kind in the file `flow.json`,
    /// `degrade.json`, `system.json`, `authority.json` or `paramFlow.json`. Applies the rules of
    /// the files that exist, and writes a file with each change, so that the rules survive a
    /// restart: a dashboard keeps none. A file is replaced as a whole, and is on the disk when the
    /// change succeeds.
    ///
    /// # Errors
    ///
    /// Returns [`SetError::Store`] if a file cannot be read, and otherwise all problems of all
    /// files, if there is one.
    ///
    /// ```
    /// use leaparray::Registry;
    /// use leaparray_rules::{Rules, SentinelKind};
    /// use leaparray_sentinel::RuleBook;
    /// use std::sync::Arc;
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path();
    /// let open = || RuleBook::new(Rules::new(Arc::new(Registry::new()))).folder(path);
    /// let json = r#"[{"count":20,"resource":"pay"}]"#;
    /// open()?.set(SentinelKind::Flow, json)?;
    /// assert_eq!(open()?.json(SentinelKind::Flow), json, "after a restart");
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn folder(mut self, path: impl Into<PathBuf>) -> Result<Self, SetError> {
        let path = path.into();
        self.change(|book| {
            for kind in &mut book.kinds {
                match fs::read_to_string(file_of(&path, kind.reader.kind())) {
                    Ok(text) => kind.text = text,
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(SetError::Store(error)),
                }
            }
            Ok(())
        })?;
        self.folder = Some(path);
        Ok(self)
    }

    /// Returns the rules that decide.
    #[must_use]
    pub const fn rules(&self) -> &Rules<C> {
        &self.rules
    }

    /// Returns the JSON of the rules of a kind, with all fields that were set, without those that
    /// are `null`.
    #[must_use]
    pub fn json(&self, kind: SentinelKind) -> String {
        self.book().kind(kind).json.clone()
    }

    /// Replaces the rules of a kind. If it returns `Ok`, each of them is in force for every request
    /// that begins from now on, and is in the [folder](Self::folder), if there is one. Otherwise,
    /// the former rules are.
    ///
    /// # Errors
    ///
    /// Returns all problems of the text, if there is one, and an error if a limit over a fleet
    /// cannot begin, or if the file cannot be written.
    pub fn set(&self, kind: SentinelKind, json: &str) -> Result<Changes, SetError> {
        let store = |book: &mut Book| match &self.folder {
            Some(folder) => write(&file_of(folder, kind), &book.kind(kind).text),
            None => Ok(()),
        };
        self.change_and(
            |book| {
                json.clone_into(&mut book.kind(kind).text);
                Ok(())
            },
            store,
        )
    }

    /// Returns whether the rules decide: see [`set_on`](Self::set_on).
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.book().is_on
    }

    /// Has the rules decide, or admits all requests by all rules: those of the book are not asked
    /// until they are switched on again. They keep their state. Requests are recorded all the same.
    ///
    /// # Errors
    ///
    /// Returns an error if a limit over a fleet cannot begin.
    pub fn set_on(&self, is_on: bool) -> Result<Changes, SetError> {
        self.change(|book| {
            book.is_on = is_on;
            Ok(())
        })
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(
        &self,
        change: impl FnOnce(&mut Book) -> Result<(), SetError>,
    ) -> Result<Changes, SetError> {
        self.change_and(change, |_| Ok(()))
    }

    /// Makes a change, applies the rules, and stores them. Each step that fails leaves the former
    /// rules. Changes take turns.
    fn change_and(
        &self,
        change: impl FnOnce(&mut Book) -> Result<(), SetError>,
        store: impl FnOnce(&mut Book) -> io::Result<()>,
    ) -> Result<Changes, SetError> {
        let mut book = self.book();
        let mut next = book.clone();
        change(&mut next)?;
        let mut set = self.rules.read(&next.documents()).map_err(SetError::Wrong)?;
        for kind in &mut next.kinds {
            kind.json = kind.reader.parse(&kind.text).map_err(SetError::Wrong)?.to_json();
        }
        if !next.is_on {
            set = set.in_mode(Mode::Off);
        }
        let changes = self.rules.apply(&set);
        let is_kept = if changes.not_started.is_empty() {
            store(&mut next).map_err(SetError::Store)
        } else {
            Err(SetError::NotStarted(changes.not_started.clone()))
        };
        if let Err(error) = is_kept {
            // The former rules were read before. Those that were replaced take up their state.
            if let Ok(former) = self.rules.read(&book.documents()) {
                let former = if book.is_on { former } else { former.in_mode(Mode::Off) };
                self.rules.apply(&former);
            }
            return Err(error);
        }
        *book = next;
        Ok(changes)
    }
}

impl<C: RuleClock> fmt::Debug for RuleBook<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuleBook")
            .field("rules", &self.rules)
            .field("folder", &self.folder)
            .field("is_on", &self.is_on())
            .finish_non_exhaustive()
    }
}

fn file_of(folder: &Path, kind: SentinelKind) -> PathBuf {
    folder.join(format!("{kind}.json"))
}

/// Replaces a file: a reader finds the former text or the whole new one, also after a crash.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let beside = path.with_extension("json.new");
    let mut file = File::create(&beside)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(beside, path)?;
    // The new name is on the disk with the folder. Some file systems sync no folder, and have no
    // other way.
    if let Some(folder) = path.parent() {
        let _ = File::open(folder).and_then(|it| it.sync_all());
    }
    Ok(())
}

/// Why rules are not in force. The former ones are.
#[derive(Debug)]
#[non_exhaustive]
pub enum SetError {
    /// The text has problems.
    Wrong(Problems),
    /// These rules over a fleet cannot begin: the operating system has no random number.
    NotStarted(Vec<Arc<str>>),
    /// The file cannot be read or written.
    Store(io::Error),
}

impl fmt::Display for SetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wrong(problems) => problems.fmt(f),
            Self::NotStarted(names) => {
                write!(f, "these rules over the fleet cannot begin: {}", names.join(", "))
            }
            Self::Store(error) => write!(f, "the rules cannot be kept in their file: {error}"),
        }
    }
}

impl std::error::Error for SetError {}
