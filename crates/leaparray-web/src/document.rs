//! The page as one document, put together from `page/*`.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

const HTML: &str = include_str!("../page/page.html");
/// The files in the order in which they are put together.
const STYLE: &str = concat!(
    include_str!("../page/base.css"),
    include_str!("../page/tiles.css"),
    include_str!("../page/table.css"),
    include_str!("../page/detail.css"),
    include_str!("../page/phone.css"),
    include_str!("../page/fleet.css"),
    include_str!("../page/changes.css"),
);
const SCRIPT: &str = concat!(
    include_str!("../page/format.js"),
    include_str!("../page/dom.js"),
    include_str!("../page/storage.js"),
    include_str!("../page/palette.js"),
    include_str!("../page/ring.js"),
    include_str!("../page/store.js"),
    include_str!("../page/verdict.js"),
    include_str!("../page/address.js"),
    include_str!("../page/token.js"),
    include_str!("../page/connection.js"),
    include_str!("../page/strips.js"),
    include_str!("../page/charts.js"),
    include_str!("../page/tiles.js"),
    include_str!("../page/order.js"),
    include_str!("../page/table.js"),
    include_str!("../page/moment.js"),
    include_str!("../page/detail.js"),
    include_str!("../page/fleet.js"),
    include_str!("../page/changes.js"),
    include_str!("../page/background.js"),
    include_str!("../page/save.js"),
    include_str!("../page/theme.js"),
    include_str!("../page/keyboard.js"),
    include_str!("../page/main.js"),
);

/// The page, and the policy that allows its script and its style and nothing else.
pub(crate) struct Document {
    pub(crate) html: String,
    pub(crate) policy: String,
}

/// The document, put together once.
pub(crate) static DOCUMENT: LazyLock<Document> = LazyLock::new(|| {
    let html = HTML.replacen("/*STYLE*/", STYLE, 1).replacen("/*SCRIPT*/", SCRIPT, 1);
    let policy = format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        hash(SCRIPT),
        hash(STYLE),
    );
    Document { html, policy }
});

/// Returns the source expression of a script or a style: the hash of the text of its element.
fn hash(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text)))
}

#[cfg(test)]
mod tests {
    use super::DOCUMENT;

    /// A browser loads the page in an incident, over whatever connection there is.
    #[test]
    fn document_has_at_most_207_600_bytes() {
        let bytes = DOCUMENT.html.len();
        assert!(bytes <= 207_600, "{bytes} bytes");
    }
}
