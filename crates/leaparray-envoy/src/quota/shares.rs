//! Max-min fair shares.

/// Divides `limit` by `wants`: participants that want the same get the same, and the rest that no
/// participant wants is divided in proportion to the wants. The sum is at most `limit`.
pub(super) fn shares(wants: &[u64], limit: u64) -> Vec<u64> {
    let total: u128 = wants.iter().map(|&it| u128::from(it)).sum();
    if total <= u128::from(limit) {
        let rest = u128::from(limit) - total;
        let more = |want: u64| u64::try_from(rest * u128::from(want) / total.max(1)).unwrap_or(0);
        return wants.iter().map(|&want| want + more(want)).collect();
    }
    let mut order: Vec<_> = (0..wants.len()).collect();
    order.sort_unstable_by_key(|&index| wants[index]);
    let (mut left, mut given) = (limit, vec![0; wants.len()]);
    for (position, &index) in order.iter().enumerate() {
        let others = (wants.len() - position) as u64;
        given[index] = wants[index].min(left / others);
        left -= given[index];
    }
    given
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_wants_are_met_and_large_ones_are_equal() {
        assert_eq!(shares(&[10, 100, 100], 110), [10, 50, 50]);
        assert_eq!(shares(&[10, 10], 100), [50, 50]);
        assert_eq!(shares(&[30, 10], 80), [60, 20]);
        assert_eq!(shares(&[5, 5, 5], 2), [0, 1, 1]);
        assert_eq!(shares(&[], 2), [0; 0]);
        assert_eq!(shares(&[u64::MAX, u64::MAX], u64::MAX).iter().sum::<u64>(), u64::MAX);
    }
}
