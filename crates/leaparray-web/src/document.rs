//! The page as one document, put together from `page/*`.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

const HTML: &str = include_str!("../page/page.html");
const STYLE: &str = include_str!("../page/page.css");
const SCRIPT: &str = include_str!("../page/page.js");

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
