//! Documents of YAML, with the line of each node.

use std::collections::{HashMap, HashSet};
use std::mem::take;

use saphyr_parser::{Event, Parser, ScalarStyle};

/// The longest text, in bytes.
pub(super) const MAX_BYTES: usize = 16 << 20;

/// The most nodes of a text, with those of aliases counted at each use: a few lines of aliases of
/// aliases would otherwise be billions of nodes. A longer scalar counts as one for each
/// [`NODE_BYTES`]: otherwise, so would some megabytes of one scalar and its aliases be terabytes.
pub(super) const MAX_NODES: usize = 1 << 20;

/// The bytes of a scalar that count as a node.
const NODE_BYTES: usize = 128;

/// The deepest nesting of sequences and mappings.
pub(super) const MAX_DEPTH: usize = 128;

/// A node of a document.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) line: usize,
    pub(super) value: Value,
    /// The number of nodes in it, with itself: see [`MAX_NODES`].
    size: usize,
    /// The levels below it.
    depth: usize,
}

#[derive(Clone, Debug)]
pub(super) enum Value {
    /// The text as it is written, and whether it is without quotes. Only then can it be a number, a
    /// truth value or null.
    Scalar(String, bool),
    Sequence(Vec<Node>),
    Mapping(Vec<(Node, Node)>),
}

/// Why a text is no YAML, or too much of it.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) line: Option<usize>,
    pub(super) wrong: String,
}

impl Fault {
    fn at(line: usize, wrong: impl Into<String>) -> Self {
        Self { line: Some(line), wrong: wrong.into() }
    }
}

impl Node {
    fn new(line: usize, value: Value) -> Self {
        let bytes = if let Value::Scalar(text, _) = &value { text.len() } else { 0 };
        Self { line, value, size: 1 + bytes / NODE_BYTES, depth: 0 }
    }

    /// Returns the text of a scalar.
    pub(super) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar(text, _) => Some(text),
            Value::Sequence(_) | Value::Mapping(_) => None,
        }
    }

    /// Returns whether it stands for no value.
    pub(super) fn is_null(&self) -> bool {
        let Value::Scalar(text, true) = &self.value else { return false };
        matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL")
    }

    /// Returns what it is, for messages.
    pub(super) fn kind(&self) -> &'static str {
        match &self.value {
            _ if self.is_null() => "nothing",
            Value::Scalar(..) => "a text",
            Value::Sequence(_) => "a list",
            Value::Mapping(_) => "a mapping",
        }
    }
}

/// A collection that is being read, with a key that has no value yet.
struct Open {
    node: Node,
    key: Option<Node>,
    anchor: usize,
}

/// Reads the documents of a text. Anchors, aliases and merge keys (`<<`) are resolved, as by the
/// parser of the reference server.
pub(super) fn documents(text: &str) -> Result<Vec<Node>, Fault> {
    if text.len() > MAX_BYTES {
        let wrong = format!("has {} bytes, which is more than {MAX_BYTES}", text.len());
        return Err(Fault { line: None, wrong });
    }
    let mut reader = Reader::default();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| {
            Fault::at(error.marker().line(), format!("this is no YAML: {}", error.info()))
        })?;
        reader.read(event, span.start.line())?;
    }
    Ok(reader.documents)
}

#[derive(Default)]
struct Reader {
    documents: Vec<Node>,
    open: Vec<Open>,
    anchors: HashMap<usize, Node>,
    nodes: usize,
}

impl Reader {
    fn read(&mut self, event: Event<'_>, line: usize) -> Result<(), Fault> {
        match event {
            Event::Scalar(text, style, anchor, _) => {
                let is_plain = style == ScalarStyle::Plain;
                let node = Node::new(line, Value::Scalar(text.into_owned(), is_plain));
                self.count(node.size, line)?;
                self.put(node, anchor)
            }
            Event::Alias(anchor) => {
                let Some(node) = self.anchors.get(&anchor) else {
                    return Err(Fault::at(
                        line,
                        "an alias is a part of the node that it stands for",
                    ));
                };
                // Counted before it is copied.
                let size = node.size;
                self.nodes += size;
                self.count(0, line)?;
                let node = Node { line, ..self.anchors[&anchor].clone() };
                self.put(node, 0)
            }
            Event::SequenceStart(anchor, _) => {
                self.begin(Value::Sequence(Vec::new()), anchor, line)
            }
            Event::MappingStart(anchor, _) => self.begin(Value::Mapping(Vec::new()), anchor, line),
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(Open { mut node, anchor, .. }) = self.open.pop() else { return Ok(()) };
                merge(&mut node)?;
                self.put(node, anchor)
            }
            Event::DocumentStart(_) => {
                self.anchors.clear();
                Ok(())
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
        }
    }

    fn count(&mut self, nodes: usize, line: usize) -> Result<(), Fault> {
        self.nodes += nodes;
        if self.nodes > MAX_NODES {
            return Err(Fault::at(line, format!("the text has more than {MAX_NODES} nodes")));
        }
        Ok(())
    }

    fn begin(&mut self, value: Value, anchor: usize, line: usize) -> Result<(), Fault> {
        self.count(1, line)?;
        self.open.push(Open { node: Node::new(line, value), key: None, anchor });
        self.check_depth(0, line)
    }

    fn check_depth(&self, below: usize, line: usize) -> Result<(), Fault> {
        if self.open.len() + below > MAX_DEPTH {
            let wrong = format!("the text is nested more than {MAX_DEPTH} levels deep");
            return Err(Fault::at(line, wrong));
        }
        Ok(())
    }

    /// Puts a node into the innermost collection, or into the list of documents.
    fn put(&mut self, node: Node, anchor: usize) -> Result<(), Fault> {
        self.check_depth(node.depth, node.line)?;
        if anchor != 0 {
            self.count(node.size, node.line)?;
            self.anchors.insert(anchor, node.clone());
        }
        let Some(Open { node: parent, key, .. }) = self.open.last_mut() else {
            self.documents.push(node);
            return Ok(());
        };
        parent.size += node.size;
        parent.depth = parent.depth.max(node.depth + 1);
        match &mut parent.value {
            Value::Sequence(list) => list.push(node),
            Value::Mapping(map) => match key.take() {
                Some(key) => map.push((key, node)),
                None => *key = Some(node),
            },
            Value::Scalar(..) => {}
        }
        Ok(())
    }
}

/// Puts the keys of merged mappings into a mapping that lacks them.
fn merge(node: &mut Node) -> Result<(), Fault> {
    let Value::Mapping(map) = &mut node.value else { return Ok(()) };
    let is_merge = |key: &Node| matches!(&key.value, Value::Scalar(text, true) if text == "<<");
    if !map.iter().any(|(key, _)| is_merge(key)) {
        return Ok(());
    }
    let (merged, own): (Vec<_>, Vec<_>) = take(map).into_iter().partition(|(key, _)| is_merge(key));
    let mut known: HashSet<_> = own.iter().map(|(key, _)| key.text().map(str::to_owned)).collect();
    *map = own;
    for (key, from) in merged {
        let sources = match from.value {
            Value::Sequence(list) => list,
            value => vec![Node { value, ..from }],
        };
        for source in sources {
            let Value::Mapping(entries) = source.value else {
                return Err(Fault::at(key.line, "`<<` merges mappings, and this is none"));
            };
            map.extend(
                entries.into_iter().filter(|(key, _)| known.insert(key.text().map(str::to_owned))),
            );
        }
    }
    Ok(())
}
