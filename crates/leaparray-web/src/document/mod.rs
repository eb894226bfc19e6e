//! The page as one document, put together from `page/*`: style sheets, and modules of JavaScript
//! that become one script.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use crate::hub::rule;

macro_rules! modules {
    ($($name:literal,)*) => { [$(($name, include_str!(concat!("../../page/", $name)))),*] };
}

const HTML: &str = include_str!("../../page/page.html");
/// The files in the order in which they are put together.
const STYLE: &str = concat!(
    include_str!("../../page/base.css"),
    include_str!("../../page/tiles.css"),
    include_str!("../../page/table.css"),
    include_str!("../../page/detail.css"),
    include_str!("../../page/phone.css"),
    include_str!("../../page/fleet.css"),
    include_str!("../../page/rules.css"),
    include_str!("../../page/changes.css"),
);

/// The modules of the script with their names, each behind those from which it imports.
const MODULES: [(&str, &str); 27] = modules![
    "rule.js",
    "format.js",
    "storage.js",
    "palette.js",
    "ring.js",
    "render.js",
    "dom.js",
    "store.js",
    "verdict.js",
    "order.js",
    "address.js",
    "token.js",
    "connection.js",
    "strips.js",
    "charts.js",
    "tiles.js",
    "table.js",
    "changes.js",
    "moment.js",
    "detail.js",
    "fleet.js",
    "rules.js",
    "background.js",
    "save.js",
    "theme.js",
    "keyboard.js",
    "main.js",
];

/// The page, and the policy that allows its script and its style and nothing else.
pub(crate) struct Document {
    pub(crate) html: String,
    pub(crate) policy: String,
}

/// The document, put together once.
pub(crate) static DOCUMENT: LazyLock<Document> = LazyLock::new(|| {
    let script = script();
    let html = rule::numbers().fold(HTML.to_owned(), |html, (name, number)| {
        html.replace(&format!("{{{name}}}"), &number)
    });
    let html = html.replacen("/*STYLE*/", STYLE, 1).replacen("/*SCRIPT*/", &script, 1);
    let policy = format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        hash(&script),
        hash(STYLE),
    );
    Document { html, policy }
});

/// Returns the modules as one script, with the numbers of the rule. As each stands behind those
/// from which it imports, and no two have a name in common, they need no `import` and no `export`
/// there. Comments are for readers of the modules.
fn script() -> String {
    let numbers: Vec<_> =
        rule::numbers().map(|(name, number)| format!("\"{name}\":{number}")).collect();
    let lines = MODULES.iter().flat_map(|(_, text)| text.lines());
    let code = lines.filter(|it| !it.starts_with("import ") && !is_comment(it));
    let code = code.flat_map(|it| [it.strip_prefix("export ").unwrap_or(it), "\n"]);
    let script: String = ["'use strict';\n"].into_iter().chain(code).collect();
    script.replacen("/*RULE*/", &format!("{{{}}}", numbers.join(",")), 1)
}

/// Returns whether a line of a module is empty, or one of a comment.
fn is_comment(line: &str) -> bool {
    let text = line.trim_start();
    text.is_empty() || ["//", "/**", "* ", "*/"].iter().any(|it| text.starts_with(it))
}

/// Returns the source expression of a script or a style: the hash of the text of its element.
fn hash(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text)))
}

#[cfg(test)]
mod tests;
