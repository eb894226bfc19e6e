//! The syntax of content types (RFC 9110, section 8.3.1).

/// Returns the rest of a content type after a prefix in lowercase. Types are case-insensitive. The
/// byte at `probe`, where most other types differ, is compared first, which takes a few
/// instructions.
#[inline]
pub(crate) fn strip_prefix<'a>(
    content_type: &'a [u8],
    prefix: &[u8],
    probe: usize,
) -> Option<&'a [u8]> {
    if content_type.get(probe)?.eq_ignore_ascii_case(&prefix[probe]) {
        strip(content_type, prefix)
    } else {
        None
    }
}

fn strip<'a>(content_type: &'a [u8], prefix: &[u8]) -> Option<&'a [u8]> {
    let (start, rest) = content_type.split_at_checked(prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then_some(rest)
}

/// Returns whether the rest of a content type is nothing but parameters, or nothing.
pub(crate) fn is_parameters(rest: &[u8]) -> bool {
    matches!(rest.trim_ascii_start().first(), None | Some(b';'))
}

/// Returns whether a content type is `text/event-stream`, of server-sent events.
#[inline]
pub(crate) fn is_event_stream(content_type: &[u8]) -> bool {
    strip_prefix(content_type, b"text/event-stream", "text/".len()).is_some_and(is_parameters)
}
