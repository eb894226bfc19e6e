//! The word in which a resource keeps the place of its rules.

/// Where the rules of a resource are found: a word, since it is moved with each decision. See
/// [`Index::rule_or_list`](super::Index::rule_or_list).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place(pub(super) u64);

impl Place {
    /// The bit of a resource that has one rule, without conditions.
    pub(super) const ALONE: u64 = 1 << 63;

    /// The rule with that place in the plan is the only one.
    pub(super) const fn alone(rule: usize) -> Self {
        Self(rule as u64 | Self::ALONE)
    }

    /// The list with that place has the rules.
    pub(super) const fn of_list(list: usize) -> Self {
        Self(list as u64)
    }

    #[inline]
    pub(super) const fn rule_or_list(self) -> Result<usize, usize> {
        let place = (self.0 & !Self::ALONE) as usize;
        if self.0 & Self::ALONE != 0 { Ok(place) } else { Err(place) }
    }
}

/// The words in which resources keep their place in an index:
/// `{ alone: 1, number of the index: 40, place: 23 }`. The place is that of a list, that of a rule
/// which the resource has alone, or `{ 1: 1, number: 22 }` if that rule has a
/// [numbered](super::numbers::Numbers) bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words {
    /// The word of a resource whose place is rule 0.
    pub(super) alone: u64,
    /// The word of a resource whose place is list 0.
    pub(super) list: u64,
    /// The word of a resource whose only rule has bucket 0.
    pub(super) bucket: u64,
}

impl Words {
    /// The bits of the place. 2²² rules, as many buckets and 2²³ lists have a number; others are
    /// looked up for each request.
    const PLACE_BITS: u32 = 23;

    pub(super) const PLACES: u64 = 1 << Self::PLACE_BITS;

    /// The number of rules with a place in a word.
    pub(super) const RULES: usize = 1 << (Self::PLACE_BITS - 1);

    /// The bit of the number of a bucket.
    pub(super) const BUCKET: u64 = 1 << (Self::PLACE_BITS - 1);

    pub(super) const fn of_index(id: u64) -> Self {
        let list = id << Self::PLACE_BITS & !Place::ALONE;
        let alone = list | Place::ALONE;
        Self { alone, list, bucket: alone | Self::BUCKET }
    }

    /// Returns the rule that a resource has alone; a number above all rules if the word is of
    /// another index, of a list, or of a bucket.
    #[inline]
    pub(crate) const fn rule(self, word: u64) -> u64 {
        word ^ self.alone
    }

    /// Returns the bucket of the rule that a resource has alone; a number above all buckets if the
    /// word is of another index, or has another place.
    #[inline]
    pub(crate) const fn bucket(self, word: u64) -> u64 {
        word ^ self.bucket
    }

    /// Returns the list of a resource; a number above all lists if the word is of another index, or
    /// of a rule.
    #[inline]
    pub(crate) const fn list(self, word: u64) -> u64 {
        word ^ self.list
    }
}
