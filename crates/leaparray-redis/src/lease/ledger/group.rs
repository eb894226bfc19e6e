//! The groups of limits of a server.

use crate::lease::LeaseConfig;

/// The state of a [group](crate::lease::LeaseKeys::in_group) of limits on the server: its mark, of
/// which the limits of the group have no part.
///
/// # The limit
///
/// The mark of a limit expires with its charges, when all of its leases have ended and their uses
/// have left the window. So a limit without a mark has no charge that a window needs, unless state
/// was lost. The group sees that by its own mark, which stays: it is of another identity, or it is
/// not there. Each lease of the lost state was granted before the first ask that the group then
/// sees, so a quarantine from that ask on is long enough for all limits.
///
/// The time of a limit never goes back while it has a mark. After that, the time of the group is
/// less than a bucket behind the highest one that any of its limits has seen. The mark is kept for
/// a bucket longer than the windows need, so a limit that begins anew does not begin before they
/// have ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Group {
    /// The run of the server, and the end of the quarantine.
    mark: Option<(u64, u64)>,
    /// The highest time seen, less up to a bucket.
    pub(super) high: u64,
}

impl Group {
    /// Begins a group whose limits were never used, without a quarantine. Returns whether it is
    /// new; it stays as it is otherwise.
    pub fn begin(&mut self, time: u64, identity: u64) -> bool {
        let is_new = self.mark.is_none();
        if is_new {
            (self.mark, self.high) = (Some((identity, time)), time);
        }
        is_new
    }

    /// Notes an ask. Returns the end of the quarantine.
    pub(super) fn note(&mut self, now: u64, identity: u64, config: &LeaseConfig) -> u64 {
        let known = self.mark.filter(|(of, _)| *of == identity);
        let (_, open) =
            *self.mark.insert(known.unwrap_or_else(|| (identity, now + config.buckets_micros(1))));
        if known.is_none() || now >= self.high + config.bucket_micros() {
            self.high = now;
        }
        open
    }
}
