//! The nodes that the hub knows, and their ids.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use leaparray::TrafficType;
use leaparray::registry::ResourceId;

use super::HISTORY;
use super::ledger::LastLedger;
use super::refused::RefusedBefore;
use crate::format::{Direction, Listed};

/// The nodes that are listed, or were listed in the history.
#[derive(Default)]
pub(super) struct Nodes {
    all: Vec<Node>,
    /// The positions of the nodes with a name.
    by_name: HashMap<Box<str>, Vec<usize>, RandomState>,
    /// The positions of the listed nodes.
    by_identity: HashMap<ResourceId, usize, RandomState>,
    /// The position after the node that was found last. A registry visits its nodes in one order
    /// again and again, unless some are listed or delisted.
    following: usize,
    /// The last id. Not reset, so that no id is used again.
    last_id: u64,
}

/// A node: a resource or a context with one direction.
pub(super) struct Node {
    pub(super) id: u64,
    name: Box<str>,
    context: Option<Box<str>>,
    direction: Direction,
    /// The identity of the listed resource.
    identity: Option<ResourceId>,
    /// The refused requests at the last reading, by reason.
    pub(super) refused: RefusedBefore,
    pub(super) ledger: LastLedger,
    /// The number of the last reading that has found the node listed.
    seen: u64,
    /// The first second in which the node was no longer listed.
    gone: Option<u64>,
}

/// The changes of the listed nodes.
#[derive(Default)]
pub(super) struct Changes {
    pub(super) new: Vec<Listed>,
    pub(super) gone: Vec<u64>,
    /// Whether nodes were forgotten.
    forgotten: bool,
}

/// The names of a node.
#[derive(Clone, Copy)]
pub(super) struct Label<'a> {
    pub(super) name: &'a str,
    pub(super) context: Option<&'a str>,
    pub(super) direction: Direction,
}

pub(super) const fn direction(traffic: TrafficType) -> Direction {
    match traffic {
        TrafficType::Outbound => Direction::Out,
        _ => Direction::In,
    }
}

impl Changes {
    pub(super) const fn is_empty(&self) -> bool {
        self.new.is_empty() && self.gone.is_empty() && !self.forgotten
    }
}

impl Nodes {
    /// Creates an empty set, whose nodes have ids after `last_id`.
    pub(super) fn after(last_id: u64) -> Self {
        Self { last_id, ..Self::default() }
    }

    pub(super) const fn last_id(&self) -> u64 {
        self.last_id
    }

    pub(super) fn at(&mut self, position: usize) -> &mut Node {
        &mut self.all[position]
    }

    /// Returns the position of a listed node, which a reading has found.
    pub(super) fn listed(
        &mut self,
        identity: ResourceId,
        label: Label<'_>,
        reading: u64,
        changes: &mut Changes,
    ) -> usize {
        let is_next = self.all.get(self.following).is_some_and(|it| it.identity == Some(identity));
        let known = || self.by_identity.get(&identity).copied();
        let known = if is_next { Some(self.following) } else { known() };
        let position = known.unwrap_or_else(|| {
            let position = self.named(label, changes);
            let node = &mut self.all[position];
            // The known ledger belongs to the former node, whose events are in the delisted totals.
            node.ledger.forget();
            if let Some(before) = node.identity.replace(identity) {
                self.by_identity.remove(&before);
            }
            self.by_identity.insert(identity, position);
            position
        });
        self.all[position].seen = reading;
        self.following = position + 1;
        position
    }

    /// Returns the position of the node with these names. If there is none, or it was gone, adds it
    /// to the new ones.
    pub(super) fn named(&mut self, label: Label<'_>, changes: &mut Changes) -> usize {
        if let Some(position) = self.find(label) {
            let node = &mut self.all[position];
            if node.gone.take().is_some() {
                changes.new.push(node.listed());
            }
            return position;
        }
        self.last_id += 1;
        let node = Node::new(self.last_id, label);
        changes.new.push(node.listed());
        let position = self.all.len();
        self.all.push(node);
        self.by_name.entry(label.name.into()).or_default().push(position);
        position
    }

    /// Returns the node with an id.
    pub(super) fn get(&self, id: u64) -> Option<&Node> {
        // By ascending id: a node is added at the end.
        let position = self.all.binary_search_by_key(&id, |it| it.id).ok()?;
        self.all.get(position)
    }

    /// Returns the ids of the resources with a name: at most one of each direction.
    pub(super) fn resources_named(&self, name: &str) -> impl Iterator<Item = u64> {
        let positions = self.by_name.get(name).into_iter().flatten();
        positions.map(|&it| &self.all[it]).filter(|it| it.context.is_none()).map(|it| it.id)
    }

    /// Returns the id of the resource that a node is counted with: of a context, its resource, if
    /// that is known.
    pub(super) fn family_of(&self, id: u64) -> Option<u64> {
        let node = self.get(id)?;
        if node.context.is_none() {
            return Some(id);
        }
        let parents = || self.resources_named(&node.name).filter_map(|it| self.get(it));
        let parent = parents().find(|it| it.direction == node.direction).or_else(|| {
            // The one that is listed, or was listed last.
            parents().max_by_key(|it| (it.gone.is_none(), it.id))
        });
        Some(parent.map_or(id, |it| it.id))
    }

    /// Returns the number of resources, and of contexts whose resource is not known.
    pub(super) fn families(&self) -> u64 {
        self.all.iter().filter(|it| self.family_of(it.id) == Some(it.id)).count() as u64
    }

    pub(super) fn find(&self, label: Label<'_>) -> Option<usize> {
        let positions = self.by_name.get(label.name)?;
        positions.iter().copied().find(|&it| self.all[it].is(label))
    }

    /// Returns the id of a listed node.
    pub(super) fn id_of(&self, identity: ResourceId) -> Option<u64> {
        self.by_identity.get(&identity).map(|&it| self.all[it].id)
    }

    /// Marks each node that this reading has not found as gone, and calls `release` with it.
    /// Forgets the nodes that have left the history.
    pub(super) fn retire(
        &mut self,
        reading: u64,
        second: u64,
        changes: &mut Changes,
        mut release: impl FnMut(&mut Node),
    ) {
        let mut has_forgotten = false;
        for node in self.all.iter_mut().filter(|node| node.seen != reading) {
            if node.gone.is_none() {
                node.gone = Some(second);
                changes.gone.push(node.id);
                if let Some(identity) = node.identity.take() {
                    self.by_identity.remove(&identity);
                }
                release(node);
            }
            has_forgotten |= node.has_left_history(second);
        }
        if has_forgotten {
            changes.forgotten = true;
            self.forget(second);
        }
    }

    fn forget(&mut self, second: u64) {
        self.all.retain(|node| !node.has_left_history(second));
        self.by_name.clear();
        self.by_identity.clear();
        for (position, node) in self.all.iter().enumerate() {
            self.by_name.entry(node.name.clone()).or_default().push(position);
            self.by_identity.extend(node.identity.map(|it| (it, position)));
        }
    }

    /// Returns all nodes, by ascending id.
    pub(super) fn all(&self) -> Vec<Listed> {
        self.all.iter().map(Node::listed).collect()
    }
}

impl Node {
    fn new(id: u64, label: Label<'_>) -> Self {
        Self {
            id,
            name: label.name.into(),
            context: label.context.map(Into::into),
            direction: label.direction,
            identity: None,
            refused: RefusedBefore::default(),
            ledger: LastLedger::default(),
            seen: 0,
            gone: None,
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn context(&self) -> Option<&str> {
        self.context.as_deref()
    }

    pub(super) const fn is_gone(&self) -> bool {
        self.gone.is_some()
    }

    fn is(&self, label: Label<'_>) -> bool {
        *self.name == *label.name
            && self.direction == label.direction
            && self.context.as_deref() == label.context
    }

    fn has_left_history(&self, second: u64) -> bool {
        self.gone.is_some_and(|gone| gone.saturating_add(HISTORY.into()) <= second)
    }

    fn listed(&self) -> Listed {
        Listed {
            id: self.id,
            name: self.name.as_ref().into(),
            context: self.context.as_deref().map(Into::into),
            direction: self.direction,
            gone: self.gone,
        }
    }
}
