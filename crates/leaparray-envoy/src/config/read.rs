//! The descriptors of a document, and what is wrong with them.
//!
//! The format is that of `envoyproxy/ratelimit`: its `README.md`, and `loadDescriptors` and
//! `validateYamlKeys` in `src/config/config_impl.go`. What that server refuses is refused here. It
//! is stricter in three points, where a file would limit otherwise than it reads: a known key at a
//! place where it means nothing, a limit without `requests_per_unit`, which would be 0, and a key
//! twice in one mapping.

use std::collections::HashMap;
use std::sync::Arc;

use super::reader::{Entries, Reader};
use super::yaml::{Node, Value, documents};
use super::{DescriptorConfig, Domain, Metadata, Problem};

/// The deepest tree.
const MAX_LEVELS: usize = 32;

const ROOT: &[&str] = &["domain", "descriptors"];

const DESCRIPTOR: &[&str] = &[
    "key",
    "value",
    "rate_limit",
    "descriptors",
    "shadow_mode",
    "quota_mode",
    "detailed_metric",
    "value_to_metric",
    "share_threshold",
    "metadata",
];

/// Reads the domains of a file, in which problems are noted.
pub(super) fn read(file: &str, text: &str, problems: &mut Vec<Problem>) -> Vec<(usize, Domain)> {
    let mut reader = Reader { file, domain: None, path: Vec::new(), problems };
    match documents(text) {
        Ok(documents) if documents.iter().all(Node::is_null) => {
            reader.problem(None, "the file is empty", "write `domain: NAME` and `descriptors:`");
            Vec::new()
        }
        Ok(documents) => documents
            .into_iter()
            .filter(|node| !node.is_null())
            .filter_map(|node| Some((node.line, reader.domain(&node)?)))
            .collect(),
        Err(fault) => {
            reader.problem(fault.line, fault.wrong, "");
            Vec::new()
        }
    }
}

impl Reader<'_> {
    fn domain(&mut self, node: &Node) -> Option<Domain> {
        self.domain = None;
        // Known before the first problem.
        if let Value::Mapping(map) = &node.value {
            let named = map.iter().find(|(key, _)| key.text() == Some("domain"));
            self.domain = named.and_then(|(_, name)| Some(name.text()?.to_owned()));
        }
        let entries = self.entries(node, ROOT, "a file")?;
        let name = self.text(&entries, "domain").filter(|name| !name.is_empty());
        if name.is_none() {
            self.problem(Some(node.line), "the file has no domain", "write `domain: NAME`");
        }
        let descriptors = self.descriptors(&entries);
        Some(Domain { name: Arc::from(name?), descriptors })
    }

    fn descriptors(&mut self, entries: &Entries<'_>) -> Vec<DescriptorConfig> {
        let list = self.list(entries, "descriptors");
        if let Some(first) = list.first()
            && self.path.len() == MAX_LEVELS
        {
            let wrong = format!("descriptors are nested more than {MAX_LEVELS} levels deep");
            self.problem(Some(first.line), wrong, "");
            return Vec::new();
        }
        let mut seen: HashMap<(String, String), usize> = HashMap::new();
        let mut descriptors = Vec::with_capacity(list.len());
        for node in list {
            let Some(descriptor) = self.descriptor(node) else { continue };
            let name = (descriptor.key.clone(), descriptor.value.clone());
            if let Some(line) = seen.get(&name) {
                let wrong = format!("the key and the value are those of line {line}");
                self.path.push(entry_name(&descriptor.key, &descriptor.value));
                self.problem(Some(node.line), wrong, "write one of the two, or another value");
                self.path.pop();
                continue;
            }
            seen.insert(name, node.line);
            descriptors.push(descriptor);
        }
        descriptors
    }

    fn descriptor(&mut self, node: &Node) -> Option<DescriptorConfig> {
        let entries = self.entries(node, DESCRIPTOR, "a descriptor")?;
        let Some(key) = self.text(&entries, "key").filter(|key| !key.is_empty()) else {
            self.problem(Some(node.line), "the descriptor has no key", "write `key: NAME`");
            return None;
        };
        let value = self.text(&entries, "value").unwrap_or_default();
        self.path.push(entry_name(&key, &value));
        if value.is_empty() && key.ends_with('*') {
            let right = "write the `*` at the end of a value";
            self.problem_of("key", entries["key"], "a `*` stands for a text in values only", right);
        }
        let share_threshold = self.bool(&entries, "share_threshold");
        if share_threshold && !value.ends_with('*') {
            let wrong = "only values that end with `*` share a limit";
            let right = if value.is_empty() {
                "write a value such as `*`, or take `share_threshold` away".to_owned()
            } else {
                format!("write `value: {value}*`, or take `share_threshold` away")
            };
            self.problem_of("share_threshold", entries["share_threshold"], wrong, right);
        }
        let rate_limit = entries.get("rate_limit").and_then(|node| {
            self.path.push("rate_limit".to_owned());
            let limit = self.rate_limit(node);
            self.path.pop();
            limit
        });
        let shadow_mode = self.bool(&entries, "shadow_mode");
        if shadow_mode && rate_limit.as_ref().is_some_and(|it| it.requests_per_quota.is_some()) {
            let wrong = "a limit with `requests_per_quota` is in no shadow: its callers refuse";
            let right = "take `requests_per_quota` or `shadow_mode` away";
            self.problem_of("shadow_mode", entries["shadow_mode"], wrong, right);
        }
        let descriptor = DescriptorConfig {
            rate_limit,
            shadow_mode,
            quota_mode: self.bool(&entries, "quota_mode"),
            detailed_metric: self.bool(&entries, "detailed_metric"),
            value_to_metric: self.bool(&entries, "value_to_metric"),
            share_threshold,
            metadata: entries.get("metadata").map(|node| Metadata::of(node)),
            descriptors: self.descriptors(&entries),
            key,
            value,
        };
        self.path.pop();
        Some(descriptor)
    }
}

/// Returns the name of an entry in paths and metrics: `key`, or `key_value`.
pub(crate) fn entry_name(key: &str, value: &str) -> String {
    if value.is_empty() { key.to_owned() } else { format!("{key}_{value}") }
}
