//! A list that only grows, at its end, while other threads read it.

use std::ops::Deref;
use std::{fmt, mem};

use crate::sync::{Arc, RacyOnce, into_inner};

/// A linked list to which threads append without a lock. Items are never removed.
///
/// Each link is set once, by the first thread that makes an item for it. A thread that loses the
/// race returns the winner's item if that matches, and otherwise tries the next link. So if two
/// threads append equal items at once, only one of the items is in the list.
pub(crate) struct AppendList<T> {
    first: Link<T>,
}

/// An item of a list. It may outlive the list.
pub(crate) struct Item<T> {
    value: T,
    next: Link<T>,
}

struct Link<T>(RacyOnce<Arc<Item<T>>>);

impl<T> AppendList<T> {
    pub(crate) fn new() -> Self {
        Self { first: Link::new() }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first.get().is_none()
    }

    /// Returns the items, in the order in which they were appended.
    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Item<T>>> + use<'_, T> {
        std::iter::successors(self.first.get(), |item| item.next.get())
    }

    /// Returns the first item for which `is_it` holds, and its index. If there is none, and the
    /// list has fewer than `max` items, appends the result of `make`, for which `is_it` must hold.
    /// Returns `None` if the list is full.
    pub(crate) fn find_or_append(
        &self,
        is_it: impl Fn(&T) -> bool,
        make: impl Fn() -> T,
        max: usize,
    ) -> Option<(usize, &Arc<Item<T>>)> {
        let mut end = &self.first;
        for index in 0.. {
            let item = match end.get() {
                Some(item) => item,
                None if index >= max => return None,
                None => end.0.get_or_init(|| Arc::new(Item { value: make(), next: Link::new() })),
            };
            if is_it(&item.value) {
                return Some((index, item));
            }
            end = &item.next;
        }
        None
    }
}

impl<T> Link<T> {
    fn new() -> Self {
        Self(RacyOnce::new())
    }

    #[inline]
    fn get(&self) -> Option<&Arc<Item<T>>> {
        self.0.get()
    }

    /// Takes the item that the link refers to, and leaves the link empty.
    fn take(&mut self) -> Option<Arc<Item<T>>> {
        let link = mem::replace(&mut self.0, RacyOnce::new());
        link.get().cloned()
    }
}

impl<T> Drop for Link<T> {
    /// Drops the items in a loop: if each item dropped the next one, the depth of the stack would
    /// be the number of items.
    fn drop(&mut self) {
        let mut next = self.take();
        while let Some(item) = next {
            // If another reference keeps the item, it also keeps the items that follow.
            next = into_inner(item).and_then(|mut item| item.next.take());
        }
    }
}

impl<T> Deref for Item<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: fmt::Debug> fmt::Debug for AppendList<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<T: fmt::Debug> fmt::Debug for Item<T> {
    /// Formats the item without the items that follow it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::fmt::Write;

    use super::*;

    const MANY: usize = 1_000_000;

    /// Makes a list of the numbers below `len`, without searching for the end at each append.
    fn list(len: usize) -> AppendList<usize> {
        let list = AppendList::new();
        let mut end = &list.first;
        for value in 0..len {
            end = &end.0.get_or_init(|| Arc::new(Item { value, next: Link::new() })).next;
        }
        list
    }

    /// Runs `run` on a thread whose stack is too small for one call for each of a million items.
    fn on_a_small_stack(run: impl FnOnce() + Send + 'static) {
        std::thread::Builder::new().stack_size(64 << 10).spawn(run).unwrap().join().unwrap();
    }

    /// Counts the bytes that are written.
    struct Length(usize);

    impl Write for Length {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0 += text.len();
            Ok(())
        }
    }

    #[test]
    fn item_is_appended_once() {
        let list = AppendList::new();
        let find = |value| list.find_or_append(|&it| it == value, || value, 2);
        let index_of = |value| find(value).map(|(index, item)| (index, ***item));
        assert!(list.is_empty());
        assert_eq!([7, 8, 7, 9].map(index_of), [Some((0, 7)), Some((1, 8)), Some((0, 7)), None]);
        assert!(list.iter().map(|item| ***item).eq([7, 8]) && !list.is_empty());
        assert_eq!(format!("{list:?}"), "[7, 8]");
    }

    #[test]
    fn million_items_are_formatted_and_dropped_on_a_small_stack() {
        on_a_small_stack(|| {
            let list = list(MANY);
            let mut length = Length(0);
            write!(length, "{list:?}").unwrap();
            assert!(length.0 > 6 * MANY, "{} bytes", length.0);
        });
    }

    #[test]
    fn rest_of_a_list_is_dropped_with_the_item_that_leads_to_it() {
        on_a_small_stack(|| {
            let list = list(MANY);
            let second = list.iter().nth(1).unwrap().clone();
            let end = list.iter().last().unwrap().clone();
            drop(list);
            assert_eq!(Arc::strong_count(&second), 1);
            assert_eq!(Arc::strong_count(&end), 2, "the item before refers to it");
            drop(second);
            assert_eq!((**end, Arc::strong_count(&end)), (MANY - 1, 1));
        });
    }
}
