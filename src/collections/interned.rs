//! Interned names, those of limiters. Each distinct name is kept for the rest of the process, under
//! a number that fits where a refusal has room: a refusal is copied on the way of each decision.

use std::collections::HashMap;
use std::num::NonZeroU32;
// Not loom's: no model names a limiter.
use std::sync::{LazyLock, Mutex, OnceLock, PoisonError};

/// The number of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NameId(NonZeroU32);

/// The numbers of the names. A thread that looks a number up takes no lock.
static NUMBERS: LazyLock<Mutex<HashMap<&'static str, NameId>>> = LazyLock::new(Mutex::default);

/// The names by number. Segment k has those whose number has k + 1 bits.
static SEGMENTS: [OnceLock<Box<[OnceLock<&'static str>]>>; 32] = [const { OnceLock::new() }; 32];

/// Returns the number of a name, and the name as it is kept.
pub(crate) fn intern(name: &str) -> (NameId, &'static str) {
    let mut numbers = NUMBERS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((name, id)) = numbers.get_key_value(name) {
        return (*id, name);
    }
    let number = u32::try_from(numbers.len() + 1).ok().and_then(NonZeroU32::new);
    let id = NameId(number.expect("four billion names fit into no memory"));
    let kept: &'static str = Box::leak(name.into());
    id.place().set(kept).expect("a number is given to one name, under the lock");
    numbers.insert(kept, id);
    (id, kept)
}

impl NameId {
    fn place(self) -> &'static OnceLock<&'static str> {
        let bits = self.0.ilog2();
        let segment = SEGMENTS[bits as usize]
            .get_or_init(|| (0..1_usize << bits).map(|_| OnceLock::new()).collect());
        &segment[self.0.get() as usize - (1 << bits)]
    }

    /// Returns the number. It is not 0.
    pub(crate) const fn number(self) -> u32 {
        self.0.get()
    }

    /// Returns the name with that [number](Self::number); `None` for 0.
    pub(crate) fn of_number(number: u32) -> Option<Self> {
        NonZeroU32::new(number).map(Self)
    }

    /// Returns the name.
    pub(crate) fn name(self) -> &'static str {
        self.place().get().expect("set before the number was returned")
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn equal_names_have_one_number_and_are_kept_once() {
        let [(orders, text), (again, same), (other, _)] =
            ["orders", &String::from("orders"), "clients"].map(intern);
        assert_eq!((orders, text.as_ptr()), (again, same.as_ptr()));
        assert_ne!(orders, other);
        assert_eq!((orders.name(), other.name()), ("orders", "clients"));
    }

    #[test]
    fn threads_that_name_at_once_agree() {
        let names: Vec<_> = (0..300).map(|number| number.to_string()).collect();
        let ids = std::thread::scope(|scope| {
            let all = |_| scope.spawn(|| names.iter().map(|it| intern(it).0).collect::<Vec<_>>());
            let threads: Vec<_> = (0..4).map(all).collect();
            threads.into_iter().map(|it| it.join().unwrap()).collect::<Vec<_>>()
        });
        assert!(ids.iter().all(|it| *it == ids[0]));
        assert!(ids[0].iter().map(|it| it.name()).eq(names.iter().map(String::as_str)));
    }
}
