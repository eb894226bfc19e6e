use super::DOCUMENT;

#[test]
fn document_has_the_numbers_of_the_rule_and_no_other_braces() {
    let (text, script) = DOCUMENT.html.split_once("<script>").unwrap();
    let (_, text) = text.split_once("</style>").unwrap();
    assert!(text.contains("at least 10 % failed, or at least 90 % were refused, of 20 requests"));
    assert!(!text.contains(['{', '}']), "a number without a name");
    assert!(script.contains(r#"JSON.parse('{"recent":10,"few":20,"#));
}

#[test]
fn script_has_nothing_of_its_modules_that_only_modules_may_have() {
    let (_, script) = DOCUMENT.html.split_once("<script>").unwrap();
    assert!(script.starts_with("'use strict';\n"));
    for word in ["import ", "export "] {
        assert!(!script.lines().any(|it| it.trim_start().starts_with(word)), "{word}");
    }
}

/// A browser loads the page in an incident, over whatever connection there is.
#[test]
fn document_has_at_most_207_600_bytes() {
    let bytes = DOCUMENT.html.len();
    assert!(bytes <= 207_600, "{bytes} bytes");
}
