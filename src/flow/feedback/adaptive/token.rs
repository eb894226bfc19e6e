//! The part of an admission that a permit keeps.

/// `{ for each call: 1, epoch or permits in use: 39, permits: 24 }`. The number is 0 for a call
/// that is not measured.
///
/// At one epoch in a millisecond, the number of the epoch wraps around after 17 years. The call is
/// then counted as late.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token(pub(super) u64);

impl Token {
    const PERMIT_BITS: u32 = 24;
    const EACH_CALL: u64 = 1 << 63;
    const NUMBER: u64 = (1 << 39) - 1;

    #[inline]
    pub(super) const fn of_call(in_use: u64, permits: u64) -> Self {
        Self(Self::of_epoch(in_use, permits).0 | Self::EACH_CALL)
    }

    /// The token of a call that is not measured: no epoch has the number 0.
    #[inline]
    pub(super) const fn unmeasured(permits: u64) -> Self {
        Self(permits)
    }

    #[inline]
    pub(super) const fn is_unmeasured(self) -> bool {
        self.0 >> Self::PERMIT_BITS == 0
    }

    #[inline]
    pub(super) const fn of_epoch(epoch: u64, permits: u64) -> Self {
        Self((epoch & Self::NUMBER) << Self::PERMIT_BITS | permits)
    }

    /// Returns the permits in use at the admission, if the plan was for each call.
    #[inline]
    pub(super) const fn in_flight(self) -> Option<u64> {
        if self.0 & Self::EACH_CALL == 0 { None } else { Some(self.epoch()) }
    }

    #[inline]
    pub(super) const fn epoch(self) -> u64 {
        self.0 >> Self::PERMIT_BITS & Self::NUMBER
    }

    #[inline]
    pub(super) const fn permits(self) -> u64 {
        self.0 & ((1 << Self::PERMIT_BITS) - 1)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Token;

    #[test]
    fn parts_of_a_token_do_not_overlap() {
        let (number, permits) = (Token::NUMBER, (1 << 24) - 1);
        let epoch = Token::of_epoch(number, permits);
        assert_eq!((epoch.in_flight(), epoch.epoch(), epoch.permits()), (None, number, permits));
        let call = Token::of_call(7, 3);
        assert_eq!((call.in_flight(), call.permits()), (Some(7), 3));
        let unmeasured = Token::unmeasured(permits);
        assert_eq!((unmeasured.is_unmeasured(), unmeasured.permits()), (true, permits));
        assert!(![epoch, call, Token::of_call(0, 0)].iter().any(|it| it.is_unmeasured()));
    }
}
