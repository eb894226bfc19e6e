//! The arithmetic of a limit of costs: plain data, and functions of bucket numbers.

/// The greatest number of buckets in a window of any interval. So a book is copied without an
/// allocation.
const MAX_SLOTS: usize = 51;

/// The charges of each of the last buckets, and the debt.
///
/// A window is the newest bucket and those before it, as many as there are slots.
///
/// # Invariants
///
/// 1. *Never over the limit.* No operation raises `charged` above the limit. It is above the limit
///    only after the limit was lowered.
/// 2. *No room beside a debt.* If there is a debt, `charged` is at least the limit. So a request is
///    admitted only once everything that is owed has been charged.
/// 3. *Conserved.* `settled + reserved + unused = charged + expired + debt`: each cost and each
///    estimate is in the window, has left it, or is owed.
#[derive(Clone, Debug)]
pub(super) struct Book {
    pub(super) limit: u64,
    /// The charge of each bucket of the window, at its number modulo the number of slots.
    slots: [u64; MAX_SLOTS],
    /// The number of slots that are used.
    window: u64,
    /// The number of the newest bucket.
    pub(super) newest: u64,
    /// The sum of the slots.
    pub(super) charged: u64,
    pub(super) debt: u128,
    /// The sum of the estimates in flight.
    pub(super) reserved: u128,
    /// The number of the estimates in flight.
    pub(super) in_flight: u64,
    /// The sum of the costs that were settled, of the estimates that stand for one, and of the
    /// costs without a reservation.
    pub(super) settled: u128,
    /// The sum of the charges that have left the window.
    pub(super) expired: u128,
    /// The sum of the parts of estimates that were not used, and had left the window before they
    /// could be given back.
    pub(super) unused: u128,
}

/// An estimate in flight: where it was charged.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    pub(super) bucket: u64,
    pub(super) estimate: u64,
}

/// The effect of a settlement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settlement {
    /// The part of the estimate that was not used and is given back. 0 if it has left the window
    /// since.
    pub given_back: u64,
    /// The cost beyond the estimate.
    pub excess: u64,
    /// The part of the excess for which the limit had no room: a debt, for which later requests
    /// wait.
    pub owed: u64,
}

impl Book {
    /// Creates the book of a window of that many buckets, up to [`MAX_SLOTS`].
    pub(super) fn new(window: usize, limit: u64) -> Self {
        debug_assert!((1..=MAX_SLOTS).contains(&window));
        let (slots, window) = ([0; MAX_SLOTS], window as u64);
        let (newest, charged, in_flight) = (0, 0, 0);
        let [debt, reserved, settled, expired, unused] = [0; 5];
        Self {
            limit,
            slots,
            window,
            newest,
            charged,
            debt,
            reserved,
            in_flight,
            settled,
            expired,
            unused,
        }
    }

    /// Moves the window, so that it ends with bucket `number`, if that is after the newest one. A
    /// debt is charged as soon as there is room, in the bucket in which there is.
    ///
    /// Makes at most as many steps as three windows have buckets, however far the bucket is.
    pub(super) fn roll_to(&mut self, number: u64) {
        let window = self.window;
        while self.newest < number {
            let left = number - self.newest;
            if (self.debt == 0 || self.limit == 0) && left >= window {
                self.expired += u128::from(self.charged);
                self.slots.fill(0);
                (self.charged, self.newest) = (0, number);
                return;
            }
            if left >= window && self.is_periodic() {
                self.skip(self.periods().min(left / window));
            } else {
                self.step();
            }
        }
    }

    /// Returns whether each slot has the same charge one window later: the charge that leaves makes
    /// room for as much of the debt, in the bucket that takes the slot.
    fn is_periodic(&self) -> bool {
        self.limit > 0 && self.charged == self.limit && self.debt >= u128::from(self.limit)
    }

    /// Returns for how many windows a periodic window stays so: as long as it is filled by the
    /// debt. There is no room in any of their buckets.
    fn periods(&self) -> u64 {
        u64::try_from(self.debt / u128::from(self.limit)).unwrap_or(u64::MAX)
    }

    /// Moves a periodic window by as many windows.
    fn skip(&mut self, windows: u64) {
        let charged = u128::from(self.limit) * u128::from(windows);
        self.debt -= charged;
        self.expired += charged;
        self.newest += windows * self.window;
    }

    /// Moves the window by a bucket.
    fn step(&mut self) {
        self.newest += 1;
        let left = std::mem::take(self.slot(self.newest));
        self.charged -= left;
        self.expired += u128::from(left);
        self.charge_debt();
    }

    #[expect(clippy::cast_possible_truncation, reason = "below the number of slots, a usize")]
    fn slot(&mut self, number: u64) -> &mut u64 {
        &mut self.slots[(number % self.window) as usize]
    }

    /// Returns the amount that can be charged.
    pub(super) const fn room(&self) -> u64 {
        self.limit.saturating_sub(self.charged)
    }

    /// Charges in the newest bucket.
    fn charge(&mut self, amount: u64) {
        *self.slot(self.newest) += amount;
        self.charged += amount;
    }

    /// Charges the debt, as far as there is room.
    fn charge_debt(&mut self) {
        let amount = u64::try_from(self.debt).unwrap_or(u64::MAX).min(self.room());
        self.debt -= u128::from(amount);
        self.charge(amount);
    }

    /// Changes the limit.
    pub(super) fn reconfigure(&mut self, limit: u64) {
        self.limit = limit;
        self.charge_debt();
    }

    /// Reserves an estimate in the newest bucket, if there is room. There is always room for an
    /// estimate of 0.
    pub(super) fn reserve(&mut self, estimate: u64) -> Option<Mark> {
        if !self.admits(estimate) {
            return None;
        }
        self.charge(estimate);
        self.reserved += u128::from(estimate);
        self.in_flight += 1;
        Some(Mark { bucket: self.newest, estimate })
    }

    pub(super) const fn admits(&self, estimate: u64) -> bool {
        estimate == 0 || estimate <= self.room()
    }

    /// Ends an estimate in flight by its cost.
    pub(super) fn settle(&mut self, mark: Mark, cost: u64) -> Settlement {
        let Mark { bucket, estimate } = mark;
        self.reserved -= u128::from(estimate);
        self.in_flight -= 1;
        let Some(unused) = estimate.checked_sub(cost) else {
            self.settled += u128::from(estimate);
            return self.spend(cost - estimate);
        };
        self.settled += u128::from(cost);
        if self.newest - bucket >= self.window {
            self.unused += u128::from(unused);
            return Settlement::default();
        }
        *self.slot(bucket) -= unused;
        self.charged -= unused;
        self.charge_debt();
        Settlement { given_back: unused, ..Settlement::default() }
    }

    /// Charges a cost that was not reserved. The part for which there is no room becomes a debt.
    pub(super) fn spend(&mut self, cost: u64) -> Settlement {
        self.settled += u128::from(cost);
        let fits = cost.min(self.room());
        self.charge(fits);
        self.debt += u128::from(cost - fits);
        Settlement { given_back: 0, excess: cost, owed: cost - fits }
    }

    /// Returns the first bucket in which there is room for an estimate, if nothing else is charged
    /// and nothing is given back until then; `None` if there never is, or if the number of the
    /// bucket is above `u64::MAX`. Uses the book up.
    pub(super) fn ready(self, estimate: u64) -> Option<u64> {
        if estimate > self.limit { None } else { self.first(|it| it.admits(estimate)) }
    }

    /// Returns the first bucket in which nothing is charged and owed, as [`ready`](Self::ready).
    pub(super) fn empty(self) -> Option<u64> {
        self.first(|it| it.charged == 0)
    }

    /// Returns the first bucket in which nothing is owed and the rest holds, which it does once a
    /// window has passed.
    fn first(mut self, holds: impl Fn(&Self) -> bool) -> Option<u64> {
        if self.limit == 0 && self.debt > 0 {
            return None;
        }
        let window = self.window;
        while self.debt > 0 || !holds(&self) {
            self.newest.checked_add(window)?;
            if self.is_periodic() {
                let windows = self.periods();
                self.newest.checked_add(windows.checked_mul(window)?)?;
                self.skip(windows);
            } else {
                self.step();
            }
        }
        Some(self.newest)
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
