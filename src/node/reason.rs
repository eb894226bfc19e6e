//! Reasons of refusals, and the refusals of a node by reason.

use std::fmt;

use super::lane_counters::LaneCounters;

/// Calls a macro with the list of all reasons, before its own arguments. A reason that is added to
/// this list is counted, summed, serialized and exported everywhere.
///
/// A reason has a variant, with the type and an example of its text if it has one, its name, and
/// what an error message says.
macro_rules! with_reasons {
    ($then:ident!($($argument:tt)*)) => {
        $then! {
            [
                /// The limit is reached.
                LimitReached, limit_reached, "the limit is reached";
                /// The request would have to wait longer than the maximum.
                WaitTooLong, wait_too_long, "the wait would be too long";
                /// The request asks for more permits than the current limit ever allows at once.
                MoreThanLimit, more_than_limit, "the request asks for more than the limit";
                /// The backend fails too often.
                Failing, failing, "the backend fails too often";
                /// A reason of your own, as text.
                ///
                /// ```
                /// use leaparray::flow::{Reason, Refusal, Retry};
                ///
                /// let closed = Refusal::new(Reason::Custom("the shop is closed"), Retry::Unknown);
                /// assert_eq!(closed.to_string(), "refused: the shop is closed");
                /// ```
                Custom(&'static str = "custom"), custom, "a reason of the service's own";
                /// As many requests wait already as may wait: see
                /// [`WaitQueue::with_capacity`](crate::flow::WaitQueue::with_capacity).
                QueueFull, queue_full, "too many requests wait already";
            ]
            $($argument)*
        }
    };
}

/// Declares the reasons.
macro_rules! declare {
    ([$(
        $(#[$doc:meta])+
        $reason:ident $(($text:ty = $example:literal))?, $name:ident, $words:literal;
    )+]) => {
        /// The reason of a refusal.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Reason {
            $($(#[$doc])+ $reason $(($text))?,)+
        }

        /// The reasons without their texts.
        enum Kind {
            $($reason,)+
        }

        impl Reason {
            /// The number of kinds of reasons.
            const KINDS: usize = [$($words),+].len();

            /// [`ALL`](Self::ALL) as an array, whose length would change with each reason that is
            /// added.
            const REASONS: [Self; Self::KINDS] = [$(Self::$reason $(($example))?),+];

            /// Returns the position of the reason's count.
            const fn index(self) -> usize {
                match self {
                    $(Self::$reason { .. } => Kind::$reason as usize,)+
                }
            }

            /// Returns the name of the reason in snake case; `custom` for any [reason of your
            /// own](Self::Custom).
            ///
            /// ```
            /// use leaparray::flow::Reason;
            ///
            /// assert_eq!(Reason::LimitReached.name(), "limit_reached");
            /// assert_eq!(Reason::Custom("the shop is closed").name(), "custom");
            /// ```
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$reason { .. } => stringify!($name),)+
                }
            }

            /// Returns what an error message says.
            const fn words(self) -> &'static str {
                match self {
                    $(Self::$reason { .. } => $words,)+
                }
            }
        }
    };
}

with_reasons!(declare!());

impl Reason {
    /// A reason of each kind, in the order of their declaration. That of [`Custom`](Self::Custom)
    /// stands for all reasons of your own.
    ///
    /// ```
    /// use leaparray::flow::Reason;
    ///
    /// assert!(Reason::ALL.contains(&Reason::Failing));
    /// assert!(Reason::ALL.contains(&Reason::Custom("custom")));
    /// ```
    pub const ALL: &[Self] = &Self::REASONS;
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Self::Custom(text) => text,
            reason => reason.words(),
        })
    }
}

/// The refused permits of a node by reason, since the node was made: plain data.
///
/// Refusals that are counted without a reason, by [`block`](crate::ResourceNode::block), are not
/// among them. The counts saturate. They are read one by one, beside threads that refuse, so for a
/// moment they may add up to more or less than the blocks. They belong to the node: those of a
/// resource that was evicted or removed go with it.
///
/// They are indexed by [`Reason`]. All [reasons of your own](Reason::Custom) have one count.
///
/// ```
/// use leaparray::flow::Reason;
/// use leaparray::{NodeConfig, ResourceNode, Timestamp};
///
/// let nodes = [(); 2].map(|()| ResourceNode::new(NodeConfig::default()));
/// for node in &nodes {
///     node.refuse_many_at(Timestamp::from_secs(60), 3, Reason::Failing);
/// }
/// let mut both = nodes[0].refusals();
/// both += &nodes[1].refusals();
/// assert_eq!((both[Reason::Failing], both.sum()), (6, 6));
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Refusals([u64; Reason::KINDS]);

impl Refusals {
    /// Returns a reason of each kind with its count, in the order of [`Reason::ALL`].
    ///
    /// ```
    /// use leaparray::node::Refusals;
    /// use leaparray::flow::Reason;
    ///
    /// let refusals = Refusals::from([(Reason::QueueFull, 2)]);
    /// let present: Vec<_> = refusals.iter().filter(|(_, count)| *count > 0).collect();
    /// assert_eq!(present, [(Reason::QueueFull, 2)]);
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = (Reason, u64)> + use<> {
        Reason::REASONS.into_iter().zip(self.0)
    }

    /// Returns the number of refused permits for all reasons together. It saturates at `u64::MAX`.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.0.into_iter().fold(0, u64::saturating_add)
    }

    /// Returns the counts less `other`, and 0 for each count of which `other` has more.
    ///
    /// ```
    /// use leaparray::node::Refusals;
    /// use leaparray::flow::Reason::{Failing, LimitReached};
    ///
    /// let one = Refusals::from([(LimitReached, 5), (Failing, 1)]);
    /// let other = Refusals::from([(LimitReached, 2), (Failing, 3)]);
    /// assert_eq!(one.saturating_sub(&other), Refusals::from([(LimitReached, 3)]));
    /// ```
    #[must_use]
    pub fn saturating_sub(&self, other: &Self) -> Self {
        self.zip(other, u64::saturating_sub)
    }

    /// Divides `number` permits in proportion to the counts. No part is larger than its count, so
    /// the parts add up to `number`, or to the [sum](Self::sum) of the counts if that is smaller.
    ///
    /// A node counts its refused permits by second, and by reason without a time. A monitor divides
    /// the permits of a second by the reasons that are new since its last reading.
    ///
    /// ```
    /// use leaparray::node::Refusals;
    /// use leaparray::flow::Reason::{Failing, LimitReached};
    ///
    /// let newly = Refusals::from([(LimitReached, 30), (Failing, 10)]);
    /// assert_eq!(newly.portion(4), Refusals::from([(LimitReached, 3), (Failing, 1)]));
    /// assert_eq!(newly.portion(50), newly);
    /// ```
    #[must_use]
    pub fn portion(&self, number: u64) -> Self {
        let whole = u128::from(self.sum());
        let number = u128::from(number).min(whole);
        let (mut upto, mut given) = (0, 0);
        let mut parts = Self::default();
        for (reason, count) in self.iter() {
            // The sum saturates, so the counts may add up to more.
            upto = (upto + u128::from(count)).min(whole);
            let end = upto * number / whole.max(1);
            parts[reason] = u64::try_from(end - given).unwrap_or(u64::MAX);
            given = end;
        }
        parts
    }

    fn zip(&self, other: &Self, count: impl Fn(u64, u64) -> u64) -> Self {
        Self(std::array::from_fn(|reason| count(self.0[reason], other.0[reason])))
    }
}

impl std::ops::Index<Reason> for Refusals {
    type Output = u64;

    fn index(&self, reason: Reason) -> &u64 {
        &self.0[reason.index()]
    }
}

impl std::ops::IndexMut<Reason> for Refusals {
    fn index_mut(&mut self, reason: Reason) -> &mut u64 {
        &mut self.0[reason.index()]
    }
}

impl<const N: usize> From<[(Reason, u64); N]> for Refusals {
    /// The counts of the other reasons are 0. If a reason occurs twice, its last count is taken.
    fn from(counts: [(Reason, u64); N]) -> Self {
        let mut refusals = Self::default();
        for (reason, count) in counts {
            refusals[reason] = count;
        }
        refusals
    }
}

impl std::ops::AddAssign<&Self> for Refusals {
    /// Adds the counts of another node. They saturate.
    fn add_assign(&mut self, other: &Self) {
        *self = self.zip(other, u64::saturating_add);
    }
}

impl fmt::Debug for Refusals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut refusals = f.debug_struct("Refusals");
        for (reason, count) in self.iter() {
            refusals.field(reason.name(), &count);
        }
        refusals.finish()
    }
}

/// The serialized form: the name of each reason. A reason that is missing in it has not refused, as
/// in an earlier version.
#[cfg(feature = "serde")]
mod serde_refusals {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{Kind, Refusals};

    macro_rules! declare {
        ([$(
            $(#[$doc:meta])+
            $reason:ident $(($text:ty = $example:literal))?, $name:ident, $words:literal;
        )+]) => {
            #[derive(Serialize, Deserialize)]
            #[serde(default)]
            #[derive(Default)]
            struct Form {
                $($name: u64,)+
            }

            impl Serialize for Refusals {
                fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                    Form { $($name: self.0[Kind::$reason as usize],)+ }.serialize(to)
                }
            }

            impl<'de> Deserialize<'de> for Refusals {
                fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                    Form::deserialize(from).map(|form| Self([$(form.$name),+]))
                }
            }
        };
    }

    with_reasons!(declare!());
}

/// The counters of refusals by reason.
#[derive(Debug)]
pub(crate) struct RefusalCounters(LaneCounters<{ Reason::KINDS }>);

impl RefusalCounters {
    pub(crate) fn new() -> Self {
        Self(LaneCounters::new())
    }

    pub(crate) fn add(&self, reason: Reason, permits: u64) {
        self.0.add(reason.index(), permits);
    }

    /// Returns whether a request was refused with a reason.
    pub(crate) fn is_used(&self) -> bool {
        self.0.is_used()
    }

    pub(crate) fn get(&self) -> Refusals {
        Refusals(self.0.sums())
    }
}
