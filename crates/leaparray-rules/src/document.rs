//! Rules in several texts.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;

use crate::problem::{Fault, Problem, Problems};
#[cfg(feature = "sentinel")]
use crate::sentinel::Sentinel;
use crate::text::{self, Parsed, RuleSet};

/// A text of rules, with its name and its format.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Document {
    /// The name, which each problem of the text begins with: for example the path of a file. Empty
    /// for the name of the source.
    pub name: String,
    /// The format.
    pub format: Format,
    /// The text.
    pub text: String,
}

/// The format of a [`Document`].
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum Format {
    /// TOML with a table `[[rule]]` for each rule: see the [crate](crate).
    #[default]
    Toml,
    /// Sentinel's JSON.
    #[cfg(feature = "sentinel")]
    Sentinel(Sentinel),
}

impl Document {
    /// Creates a document of TOML.
    #[must_use]
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self { name: name.into(), format: Format::Toml, text: text.into() }
    }

    /// Sets the format.
    #[must_use]
    pub fn format(self, format: Format) -> Self {
        Self { format, ..self }
    }

    /// Returns the problem of a rule in a program without a fleet.
    fn lacks_fleet(&self, rule: &str, line: usize) -> Problem {
        let (key, found, right) = match &self.format {
            Format::Toml => (
                "over",
                "\"fleet\"",
                "\"process\", or have the program give it one by `Fleet::rules`",
            ),
            #[cfg(feature = "sentinel")]
            Format::Sentinel(_) => {
                ("clusterMode", "true", "false, or have the program give it one by `Fleet::rules`")
            }
        };
        let wrong = format!("{found} is not possible: this program has no fleet");
        let fault = Fault::Value { wrong, right };
        Problem::new(line, Some(rule.to_owned()), key.to_owned(), fault)
    }

    /// Reads the rules.
    fn read(&self) -> Result<Vec<Parsed>, Vec<Problem>> {
        match &self.format {
            Format::Toml => text::read(&self.text),
            #[cfg(feature = "sentinel")]
            Format::Sentinel(sentinel) => sentinel.read(&self.text),
        }
    }
}

/// All documents of a source at one time, in their order.
///
/// ```
/// use leaparray_rules::{Document, Documents};
///
/// let one: Documents = "rule = []".to_owned().into();
/// assert_eq!(one.iter().next(), Some(&Document::new("", "rule = []")));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Documents(Vec<Document>);

impl Documents {
    /// Returns the documents with the name and the format of their source, where they have none.
    pub(crate) fn of_source(mut self, name: &str, format: Option<&Format>) -> Self {
        for document in &mut self.0 {
            if document.name.is_empty() {
                name.clone_into(&mut document.name);
            }
            if let (Format::Toml, Some(format)) = (&document.format, format) {
                document.format.clone_from(format);
            }
        }
        self
    }
}

impl Deref for Documents {
    type Target = [Document];

    fn deref(&self) -> &[Document] {
        &self.0
    }
}

impl FromIterator<Document> for Documents {
    fn from_iter<I: IntoIterator<Item = Document>>(documents: I) -> Self {
        Self(documents.into_iter().collect())
    }
}

impl From<Document> for Documents {
    fn from(document: Document) -> Self {
        Self(vec![document])
    }
}

impl From<String> for Documents {
    fn from(text: String) -> Self {
        Document::new("", text).into()
    }
}

impl RuleSet {
    /// Reads the rules of several documents, which are one list, in the order of the documents.
    ///
    /// ```
    /// use leaparray_rules::{Document, RuleSet};
    ///
    /// let rule = |name| format!("[[rule]]\nname = \"{name}\"\nresource = \"*\"\nin_flight = 64");
    /// let documents = ["all", "others"].map(|it| Document::new(format!("{it}.toml"), rule(it)));
    /// assert_eq!(RuleSet::read(&documents)?.rules().len(), 2);
    /// let same = ["a.toml", "b.toml"].map(|it| Document::new(it, rule("all")));
    /// assert_eq!(
    ///     RuleSet::read(&same).unwrap_err().to_string(),
    ///     "b.toml:1: rule \"all\": the rule of a.toml:1 has this name; write a name of its own",
    /// );
    /// # Ok::<_, leaparray_rules::Problems>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns all problems of all documents, if there is one. Two rules with one name are a
    /// problem also if they are in two documents.
    pub fn read(documents: &[Document]) -> Result<Self, Problems> {
        Self::read_in(documents, true)
    }

    /// Reads rules for a program that has a fleet, or has none.
    pub(crate) fn read_in(documents: &[Document], has_fleet: bool) -> Result<Self, Problems> {
        let (mut rules, mut list) = (Vec::new(), Vec::new());
        let mut places: HashMap<Arc<str>, (&str, usize)> = HashMap::new();
        for document in documents {
            let mut problems = match document.read() {
                Ok(parsed) => {
                    let mut problems = Vec::new();
                    for Parsed { line, rule } in parsed {
                        let name = Arc::clone(&rule.name);
                        if rule.limit.is_over_fleet() && !has_fleet {
                            problems.push(document.lacks_fleet(&name, line));
                        }
                        rules.push(rule);
                        let before = places.insert(Arc::clone(&name), (&document.name, line));
                        problems.extend(before.map(|it| same_name(&name, it, line)));
                    }
                    problems
                }
                Err(problems) => problems,
            };
            for problem in &mut problems {
                problem.source.clone_from(&document.name);
            }
            list.append(&mut problems);
        }
        if list.is_empty() { Ok(Self::of(rules)) } else { Err(Problems::of(list)) }
    }
}

fn same_name(name: &str, (source, line): (&str, usize), at: usize) -> Problem {
    let wrong = format!("the rule of {source}:{line} has this name");
    let fault = Fault::Value { wrong, right: "a name of its own" };
    Problem::new(at, Some(name.to_owned()), String::new(), fault)
}
