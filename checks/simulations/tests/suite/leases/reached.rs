//! The states that a scenario has to reach. If no run reaches them, it shows nothing.

use leaparray_redis::lease::Answer;

use super::fleet::{BUCKET, Fleet, Message, State};

/// A condition, whether it applies to a scenario, and its name.
pub(crate) type Reached = (bool, &'static str, fn(&Fleet, &State) -> bool);

impl Fleet {
    /// Returns what a run has to reach.
    pub(crate) fn reached(&self) -> [Reached; 11] {
        let faults = &self.faults;
        [
            (true, "the whole limit is used", |fleet, it| it.most_used() == fleet.limit),
            (faults.repeats > 0, "an ask is answered twice", |_, it| it.is_answered_twice()),
            (faults.losses > 0, "two asks of a node are in flight", |_, it| it.is_overtaken()),
            (faults.crashes > 0, "a node has permits after a crash", |_, it| it.has_recovered()),
            (self.begins_anew(), "the limit begins anew", |_, it| it.has_begun_anew()),
            (self.reopens(), "a permit is used after a quarantine", |_, it| it.has_reopened()),
            (self.ahead, "permits are granted ahead", |_, it| it.has_permits_ahead()),
            (faults.clones > 0, "a clone is told", |_, it| it.is_told),
            (faults.give_backs > 0, "more than the limit is taken", |fleet, it| {
                it.most_taken() > fleet.limit
            }),
            (self.times > 1, "the limit is used once more", |fleet, it| {
                it.most_used() > fleet.limit
            }),
            (faults.clock_steps_back > 0, "a permit is granted at a standstill", |_, it| {
                it.is_granted_at_a_standstill()
            }),
        ]
    }
}

impl State {
    fn is_answered_twice(&self) -> bool {
        self.messages.windows(2).any(|it| match it {
            [Message::Answer(_, a, one), Message::Answer(_, b, two)] => {
                (a, one.seq) == (b, two.seq)
            }
            _ => false,
        })
    }

    fn is_overtaken(&self) -> bool {
        self.messages.windows(2).any(|it| match it {
            [Message::Ask(_, one), Message::Ask(_, two)] => one.node == two.node,
            _ => false,
        })
    }

    fn has_recovered(&self) -> bool {
        let now = self.time * BUCKET;
        self.nodes.iter().any(|(name, holdings)| *name > 2 && holdings.in_hand(now) > 0)
    }

    /// Whether a node has permits that it may use later.
    fn has_permits_ahead(&self) -> bool {
        self.nodes.iter().any(|it| it.1.ahead(self.time * BUCKET) > 0)
    }

    fn has_reopened(&self) -> bool {
        let is_lost = |peek: &Answer| match self.group {
            None => peek.epoch.since > 0,
            Some(_) => self.identity > 1,
        };
        // The peek takes long, and most states have no use.
        !self.used.is_empty() && {
            let peek = self.peek();
            let bucket = peek.now / BUCKET;
            is_lost(&peek) && peek.open_in == 0 && self.used.contains_key(&bucket)
        }
    }

    /// Whether a node that has used the limit before is granted permits by an ask that begins an
    /// epoch: the mark of the limit has expired.
    fn has_begun_anew(&self) -> bool {
        self.messages.iter().any(|it| {
            matches!(it, Message::Answer(_, _, it)
                if it.seq > 1 && it.granted > 0 && it.epoch.since == it.now)
        })
    }

    fn is_granted_at_a_standstill(&self) -> bool {
        self.behind > 0 && {
            let now = self.peek().now;
            // Without the step back, the last bucket of such a lease would have ended earlier.
            let end = (now / BUCKET + 2) * BUCKET;
            self.clock() < now && self.nodes.iter().any(|it| it.1.first_end() > Some(end))
        }
    }
}
