//! Panics that are counted instead of shown.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};

thread_local! {
    static CATCHING: Cell<bool> = const { Cell::new(false) };
}

/// From now on, nothing is printed of a panic that [`catch`] gets. Others are shown as before.
pub(super) fn keep_quiet_when_caught() {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if !CATCHING.get() {
            usual(info);
        }
    }));
}

/// What `work` returns, or what it says when it panics.
pub(super) fn catch<R>(work: impl FnOnce() -> R) -> Result<R, String> {
    CATCHING.set(true);
    let result = panic::catch_unwind(AssertUnwindSafe(work));
    CATCHING.set(false);
    result.map_err(|payload| {
        let text = payload.downcast_ref::<&str>().map(|&text| text.to_owned());
        text.or_else(|| payload.downcast_ref().cloned()).unwrap_or_else(|| "no message".to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_the_panic_said() {
        assert_eq!(catch(|| 5), Ok(5));
        assert_eq!(catch(|| panic!("a text")), Err::<(), _>("a text".to_owned()));
        assert_eq!(catch(|| panic!("the number {}", 5)), Err::<(), _>("the number 5".to_owned()));
    }
}
