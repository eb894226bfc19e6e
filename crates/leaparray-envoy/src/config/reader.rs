//! The parts of a document: mappings, texts, truth values and lists, and the problems with them.

use std::collections::HashMap;

use super::Problem;
use super::yaml::{Node, Value};

/// The most problems that are told of.
const MAX_PROBLEMS: usize = 100;

/// The longest name of which the nearest known one is told, in bytes.
const MAX_NAME_LEN: usize = 64;

/// Reads the nodes of a file, and notes what is wrong with them.
pub(super) struct Reader<'a> {
    pub(super) file: &'a str,
    pub(super) domain: Option<String>,
    /// The path to the node that is read.
    pub(super) path: Vec<String>,
    pub(super) problems: &'a mut Vec<Problem>,
}

/// The entries of a mapping by their keys.
pub(super) type Entries<'n> = HashMap<&'n str, &'n Node>;

impl Reader<'_> {
    pub(super) fn problem(
        &mut self,
        line: Option<usize>,
        wrong: impl Into<String>,
        right: impl Into<String>,
    ) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(Problem {
                file: self.file.to_owned(),
                line,
                domain: self.domain.clone(),
                path: self.path.join("."),
                wrong: wrong.into(),
                right: right.into(),
            });
        }
    }

    /// Notes a problem of a key.
    pub(super) fn problem_of(
        &mut self,
        key: &str,
        node: &Node,
        wrong: impl Into<String>,
        right: impl Into<String>,
    ) {
        self.path.push(key.to_owned());
        self.problem(Some(node.line), wrong, right);
        self.path.pop();
    }

    /// Returns the entries of a mapping. A key that is unknown, or there twice, is a problem.
    pub(super) fn entries<'n>(
        &mut self,
        node: &'n Node,
        known: &[&str],
        what: &str,
    ) -> Option<Entries<'n>> {
        let Value::Mapping(map) = &node.value else {
            let wrong = format!("{what} is a mapping, and this is {}", node.kind());
            self.problem(Some(node.line), wrong, format!("write keys such as `{}`", known[0]));
            return None;
        };
        let mut entries = Entries::new();
        for (key, value) in map {
            let Some(name) = key.text() else {
                let wrong = format!("a key is a text, and this is {}", key.kind());
                self.problem(Some(key.line), wrong, "");
                continue;
            };
            if self.problems.len() == MAX_PROBLEMS {
                break;
            }
            if !known.contains(&name) {
                let right = match nearest(name, known) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("the keys of {what} are {}", known.join(", ")),
                };
                self.problem_of(name, key, "unknown key", right);
            } else if entries.insert(name, value).is_some() {
                self.problem_of(name, key, "the key is there twice", "write it once");
            }
        }
        entries.retain(|_, node| !node.is_null());
        Some(entries)
    }

    pub(super) fn text(&mut self, entries: &Entries<'_>, key: &str) -> Option<String> {
        let node = entries.get(key)?;
        if node.text().is_none() {
            self.problem_of(key, node, format!("this is {}", node.kind()), "write a text");
        }
        node.text().map(str::to_owned)
    }

    /// Returns a truth value, as YAML 1.1 writes it; `false` if the key is not there.
    pub(super) fn bool(&mut self, entries: &Entries<'_>, key: &str) -> bool {
        let Some(node) = entries.get(key) else { return false };
        let value = match &node.value {
            Value::Scalar(text, true) => match text.to_ascii_lowercase().as_str() {
                "true" | "yes" | "on" | "y" => Some(true),
                "false" | "no" | "off" | "n" => Some(false),
                _ => None,
            },
            _ => None,
        };
        if value.is_none() {
            let wrong = format!("{} is no truth value", shown(node));
            self.problem_of(key, node, wrong, "write `true` or `false`");
        }
        value.unwrap_or(false)
    }

    pub(super) fn list<'n>(&mut self, entries: &Entries<'n>, key: &str) -> &'n [Node] {
        match entries.get(key).map(|node| (node, &node.value)) {
            None => &[],
            Some((_, Value::Sequence(list))) => list,
            Some((node, _)) => {
                let wrong = format!("this is {}", node.kind());
                self.problem_of(key, node, wrong, "write a list, whose items begin with `-`");
                &[]
            }
        }
    }
}

/// Returns a value as a message shows it.
pub(super) fn shown(node: &Node) -> String {
    node.text().map_or_else(|| node.kind().to_owned(), |text| format!("{text:?}"))
}

fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    // The distance takes memory in proportion to the length.
    if name.len() > MAX_NAME_LEN {
        return None;
    }
    let distance = |it: &&str| strsim::damerau_levenshtein(name, it);
    known
        .iter()
        .min_by_key(|it| distance(it))
        .filter(|it| distance(it) <= 1 + it.len() / 4)
        .copied()
}
