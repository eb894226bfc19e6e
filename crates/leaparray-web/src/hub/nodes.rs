//! The nodes that the hub knows, and their ids.

use std::collections::HashMap;

use leaparray::{Resource, ResourceId, TrafficType};

use super::HISTORY;
use crate::format::{Direction, Listed, NodeLedger};

/// The nodes that are listed, and those that were listed in the history, by name.
#[derive(Default)]
pub(super) struct Nodes {
    by_name: HashMap<Box<str>, Vec<Node>>,
}

/// A node: a resource or a context with one direction.
pub(super) struct Node {
    pub(super) id: u64,
    context: Option<Box<str>>,
    direction: Direction,
    /// The identity of the listed resource.
    pub(super) listed: Option<ResourceId>,
    /// The refused requests at the last reading, by reason.
    pub(super) refused: [u64; 6],
    /// The ledger at its last reading.
    pub(super) ledger: NodeLedger,
    /// The second of the last reading of the ledger; `None` before the first one.
    pub(super) ledger_read: Option<u64>,
    /// The number of the last reading that has found the node listed.
    pub(super) seen: u64,
    /// The newest second with a row of the node, and the position of the row.
    pub(super) row: Option<(u64, usize)>,
    /// The second in which the node was no longer listed.
    gone: Option<u64>,
}

/// The changes of the listed nodes.
#[derive(Default)]
pub(super) struct Changes {
    pub(super) new: Vec<Listed>,
    pub(super) gone: Vec<u64>,
    /// Whether nodes were forgotten.
    pub(super) forgotten: bool,
}

impl Changes {
    pub(super) fn is_empty(&self) -> bool {
        self.new.is_empty() && self.gone.is_empty() && !self.forgotten
    }
}

/// The names of a node.
#[derive(Clone, Copy)]
pub(super) struct Label<'a> {
    pub(super) name: &'a str,
    pub(super) context: Option<&'a str>,
    pub(super) direction: Direction,
}

impl<'a> Label<'a> {
    pub(super) fn of<C>(resource: &'a Resource<C>) -> Self {
        Self {
            name: resource.name(),
            context: resource.context(),
            direction: direction(resource.traffic_type()),
        }
    }

    fn listed(&self, id: u64) -> Listed {
        Listed {
            id,
            name: self.name.into(),
            context: self.context.map(Into::into),
            direction: self.direction,
        }
    }
}

pub(super) const fn direction(traffic: TrafficType) -> Direction {
    match traffic {
        TrafficType::Outbound => Direction::Out,
        _ => Direction::In,
    }
}

impl Nodes {
    /// Returns the node with these names. If there is none, or it was gone, adds it to the new ones.
    pub(super) fn find_or_add(
        &mut self,
        label: Label<'_>,
        next_id: impl FnOnce() -> u64,
        changes: &mut Changes,
    ) -> &mut Node {
        if !self.by_name.contains_key(label.name) {
            self.by_name.insert(label.name.into(), Vec::new());
        }
        let nodes = self.by_name.get_mut(label.name).expect("inserted if it was missing");
        let position = nodes.iter().position(|node| node.is(label));
        let position = position.unwrap_or_else(|| {
            nodes.push(Node::new(next_id(), label));
            changes.new.push(label.listed(nodes[nodes.len() - 1].id));
            nodes.len() - 1
        });
        let node = &mut nodes[position];
        if node.gone.take().is_some() {
            changes.new.push(label.listed(node.id));
        }
        node
    }

    pub(super) fn find(&self, label: Label<'_>) -> Option<&Node> {
        self.by_name.get(label.name)?.iter().find(|node| node.is(label))
    }

    /// Marks the nodes that this reading has not found as gone, and calls `release` with each of them. Forgets those that have left the history.
    pub(super) fn retire(
        &mut self,
        reading: u64,
        second: u64,
        changes: &mut Changes,
        mut release: impl FnMut(&mut Node),
    ) {
        self.by_name.retain(|_, nodes| {
            nodes.retain_mut(|node| {
                if node.seen == reading {
                    return true;
                }
                let gone = *node.gone.get_or_insert_with(|| {
                    changes.gone.push(node.id);
                    second
                });
                if gone == second {
                    node.listed = None;
                    release(node);
                }
                let is_kept = gone.saturating_add(HISTORY.into()) >= second;
                changes.forgotten |= !is_kept;
                is_kept
            });
            !nodes.is_empty()
        });
    }

    /// Returns all nodes, by ascending id.
    pub(super) fn listed(&self) -> Vec<Listed> {
        let of_name = |(name, nodes): (&Box<str>, &Vec<Node>)| {
            let name = name.clone();
            let listed = nodes.iter().map(move |node| node.label(&name).listed(node.id));
            listed.collect::<Vec<_>>()
        };
        let mut listed: Vec<_> = self.by_name.iter().flat_map(of_name).collect();
        listed.sort_unstable_by_key(|it| it.id);
        listed
    }
}

impl Node {
    fn new(id: u64, label: Label<'_>) -> Self {
        Self {
            id,
            context: label.context.map(Into::into),
            direction: label.direction,
            listed: None,
            refused: [0; 6],
            ledger: NodeLedger::default(),
            ledger_read: None,
            seen: 0,
            row: None,
            gone: None,
        }
    }

    fn is(&self, label: Label<'_>) -> bool {
        self.direction == label.direction && self.context.as_deref() == label.context
    }

    fn label<'a>(&'a self, name: &'a str) -> Label<'a> {
        Label { name, context: self.context.as_deref(), direction: self.direction }
    }
}
