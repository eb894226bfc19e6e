//! The names that a resource, a context or a watched limiter can have.

use std::fmt;

/// Returns whether a name is valid: not empty, and without [refused](is_refused) characters.
pub(super) fn is_valid(name: &str) -> bool {
    !name.is_empty() && !name.contains(is_refused)
}

/// Returns whether names must not contain this character: a control character or a line break.
///
/// Formats with one line for each resource, such as Sentinel's metric log, cannot represent such a
/// name, and a log that prints it may show lines that no program wrote.
fn is_refused(c: char) -> bool {
    // The last two are the line separator and the paragraph separator, which are not in the
    // category of controls.
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')
}

/// Writes why a name is not valid.
pub(super) fn explain_invalid(f: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
    match name.chars().find(|&c| is_refused(c)) {
        Some(c) => write!(
            f,
            "the name {name:?} contains {c:?}, but must not contain control characters or line \
             breaks"
        ),
        None => write!(f, "the name {name:?} is empty, but needs at least one character"),
    }
}
