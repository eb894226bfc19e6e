//! The syntax of content types (RFC 9110, section 8.3.1).

/// Returns the rest of a content type after a prefix in lowercase. Types are case-insensitive.
pub(crate) fn strip_prefix<'a>(content_type: &'a [u8], prefix: &[u8]) -> Option<&'a [u8]> {
    let (start, rest) = content_type.split_at_checked(prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then_some(rest)
}

/// Returns whether the rest of a content type is nothing but parameters, or nothing.
pub(crate) fn is_parameters(rest: &[u8]) -> bool {
    matches!(rest.trim_ascii_start().first(), None | Some(b';'))
}

/// Returns whether a content type is this type in lowercase, with or without parameters.
pub(crate) fn is_type(content_type: &[u8], media_type: &[u8]) -> bool {
    strip_prefix(content_type, media_type).is_some_and(is_parameters)
}
