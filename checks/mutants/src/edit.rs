//! A change of some lines of code.

use std::fmt;
use std::ops::Range;

use serde::Deserialize;

/// Replaces lines of code by others.
///
/// Only code is compared: neither comments, nor indentation, nor empty lines matter, so that a
/// reworded comment breaks no mutant.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    /// A line of code that begins a block, such as that of the enclosing function. It is needed
    /// only if `find` occurs several times in the file.
    pub within: Option<String>,
    /// The lines to find. They must occur exactly once, or exactly once in the block.
    pub find: String,
    /// The lines to put in their place.
    pub replace: String,
}

/// The reason why an edit does not apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EditError {
    /// The edit has no line to find.
    Empty,
    /// The line `within` occurs this number of times instead of once.
    Within(usize),
    /// The lines to find occur this number of times instead of once.
    Find(usize),
}

impl fmt::Display for EditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("`find` has no line of code"),
            Self::Within(count) => write!(f, "`within` occurs {count} times instead of once"),
            Self::Find(count) => write!(f, "`find` occurs {count} times instead of once"),
        }
    }
}

impl std::error::Error for EditError {}

impl Edit {
    /// Returns the text with the edit.
    ///
    /// # Errors
    ///
    /// If the edit does not apply: the code has changed.
    pub fn apply(&self, text: &str) -> Result<String, EditError> {
        let lines: Vec<&str> = text.lines().collect();
        let code = code(&lines);
        let find: Vec<&str> = self.find.lines().map(str::trim).filter(|it| is_code(it)).collect();
        if find.is_empty() {
            return Err(EditError::Empty);
        }
        let block = self.block(&code)?;
        let found: Vec<_> = positions(&code[block.clone()], &find).collect();
        let [first] = found[..] else { return Err(EditError::Find(found.len())) };
        let first = block.start + first;
        let last = first + find.len() - 1;
        let (before, after) = (&lines[..code[first].number], &lines[code[last].number + 1..]);
        let mut edited: Vec<&str> = before.to_vec();
        edited.extend(self.replace.lines());
        edited.extend(after);
        edited.push("");
        Ok(edited.join("\n"))
    }

    /// Returns the positions, in the lines of code, of the block that `within` begins.
    fn block(&self, code: &[Line<'_>]) -> Result<Range<usize>, EditError> {
        let Some(within) = &self.within else { return Ok(0..code.len()) };
        let begins: Vec<_> = positions(code, &[within.trim()]).collect();
        let [start] = begins[..] else { return Err(EditError::Within(begins.len())) };
        let ends = |line: &Line<'_>| {
            let closes = line.text.starts_with('}') || line.text == "end";
            closes && line.indent <= code[start].indent
        };
        let len = code[start + 1..].iter().position(ends);
        Ok(start..len.map_or(code.len(), |len| start + 1 + len))
    }
}

/// A line of code of a file.
struct Line<'a> {
    /// Its number in the file, from 0.
    number: usize,
    indent: usize,
    text: &'a str,
}

/// Returns the lines of code: neither comments of Rust or Lua nor empty lines.
fn code<'a>(lines: &[&'a str]) -> Vec<Line<'a>> {
    let line = |(number, line): (usize, &&'a str)| {
        let text = line.trim();
        is_code(text).then(|| Line { number, indent: line.len() - line.trim_start().len(), text })
    };
    lines.iter().enumerate().filter_map(line).collect()
}

fn is_code(trimmed: &str) -> bool {
    !trimmed.is_empty() && !trimmed.starts_with("//") && !trimmed.starts_with("--")
}

/// Returns the positions at which `find` occurs among lines of code.
fn positions<'a>(code: &'a [Line<'a>], find: &'a [&str]) -> impl Iterator<Item = usize> + use<'a> {
    let is_equal = |(line, text): (&Line<'_>, &&str)| line.text == *text;
    let occurs = move |lines: &[Line<'_>]| lines.iter().zip(find).all(is_equal);
    code.windows(find.len()).enumerate().filter(move |(_, lines)| occurs(lines)).map(|(it, _)| it)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
fn one(
    it: u64,
) {
    // The first step.
    lock();

    store(it);
}

fn two() {
    lock();
    if is_open() {
        lock();
    } else {
        close();
    }
}
";

    fn edit(within: Option<&str>, find: &str, replace: &str) -> Edit {
        Edit { within: within.map(Into::into), find: find.into(), replace: replace.into() }
    }

    #[test]
    fn lines_are_replaced_whatever_their_indentation() {
        let edited = edit(None, "store(it);", "    store(it + 1);").apply(TEXT).unwrap();
        assert_eq!(edited, TEXT.replace("store(it)", "store(it + 1)"));
    }

    #[test]
    fn comments_and_empty_lines_between_the_lines_do_not_matter() {
        let edited = edit(None, "lock();\n\n// A comment.\nstore(it);", "store(it);\nlock();");
        assert!(
            edited.apply(TEXT).unwrap().contains("    // The first step.\nstore(it);\nlock();\n}")
        );
    }

    #[test]
    fn lines_must_occur_once() {
        assert_eq!(edit(None, "lock();", "").apply(TEXT), Err(EditError::Find(3)));
        assert_eq!(edit(None, "load();", "").apply(TEXT), Err(EditError::Find(0)));
        assert_eq!(edit(None, "// The first step.", "").apply(TEXT), Err(EditError::Empty));
    }

    #[test]
    fn block_tells_equal_lines_apart() {
        let of_one = edit(Some("fn one("), "lock();", "").apply(TEXT).unwrap();
        assert_eq!(of_one.matches("lock();").count(), 2);
        assert!(!of_one.contains("step.\n    lock();"));
        let inner = edit(Some("if is_open() {"), "lock();", "unlock();").apply(TEXT).unwrap();
        assert!(inner.contains("if is_open() {\nunlock();\n    }"), "{inner}");
        let other = edit(Some("} else {"), "close();", "lock();").apply(TEXT).unwrap();
        assert!(other.contains("else {\nlock();\n    }"), "{other}");
    }

    #[test]
    fn block_ends_where_its_line_is_closed() {
        assert_eq!(edit(Some("fn two() {"), "lock();", "").apply(TEXT), Err(EditError::Find(2)));
        assert_eq!(edit(Some("fn two() {"), "store(it);", "").apply(TEXT), Err(EditError::Find(0)));
        assert_eq!(edit(Some("fn one("), "is_open()", "").apply(TEXT), Err(EditError::Find(0)));
    }

    #[test]
    fn block_must_begin_once() {
        let within = |line| edit(Some(line), "store(it);", "").apply(TEXT);
        assert_eq!(within("lock();"), Err(EditError::Within(3)));
        assert_eq!(within("fn three() {"), Err(EditError::Within(0)));
    }
}
