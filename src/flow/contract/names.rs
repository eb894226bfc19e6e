//! The names of limiters. Each distinct name is kept for the rest of the process, under a number
//! that fits where a refusal has room: a refusal is copied on the way of each decision.

use std::collections::HashMap;
use std::num::NonZeroU32;
// Not loom's: no model names a limiter.
use std::sync::{LazyLock, PoisonError, RwLock};

/// The number of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NameId(NonZeroU32);

#[derive(Default)]
struct KeptNames {
    ids: HashMap<&'static str, NameId>,
    /// By number: the first name has the number 1.
    names: Vec<&'static str>,
}

static KEPT: LazyLock<RwLock<KeptNames>> = LazyLock::new(RwLock::default);

/// Returns the number of a name, and the name as it is kept.
pub(super) fn keep(name: &str) -> (NameId, &'static str) {
    let known = |names: &KeptNames| names.ids.get_key_value(name).map(|(name, id)| (*id, *name));
    if let Some(known) = known(&KEPT.read().unwrap_or_else(PoisonError::into_inner)) {
        return known;
    }
    let mut names = KEPT.write().unwrap_or_else(PoisonError::into_inner);
    // Another thread may have been first.
    if let Some(known) = known(&names) {
        return known;
    }
    let kept: &'static str = Box::leak(name.into());
    names.names.push(kept);
    let number = u32::try_from(names.names.len()).ok().and_then(NonZeroU32::new);
    let id = NameId(number.expect("four billion names fit into no memory"));
    names.ids.insert(kept, id);
    (id, kept)
}

impl NameId {
    /// Returns the name.
    pub(super) fn name(self) -> &'static str {
        let names = KEPT.read().unwrap_or_else(PoisonError::into_inner);
        names.names[self.0.get() as usize - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_names_have_one_number_and_are_kept_once() {
        let [(orders, text), (again, same), (other, _)] =
            ["orders", &String::from("orders"), "clients"].map(keep);
        assert_eq!((orders, text.as_ptr()), (again, same.as_ptr()));
        assert_ne!(orders, other);
        assert_eq!((orders.name(), other.name()), ("orders", "clients"));
    }

    #[test]
    fn threads_that_name_at_once_agree() {
        let all = |_| std::thread::spawn(|| ["a", "b", "c", "d"].map(|name| keep(name).0));
        let threads: Vec<_> = (0..4).map(all).collect();
        let ids: Vec<_> = threads.into_iter().map(|it| it.join().unwrap()).collect();
        assert!(ids.iter().all(|it| *it == ids[0]), "{ids:?}");
        assert_eq!(ids[0].map(NameId::name), ["a", "b", "c", "d"]);
    }
}
