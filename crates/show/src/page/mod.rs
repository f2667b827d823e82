//! The web page as one self-contained file: `web/` with the document that it shows, or without one, as `whyslow serve` sends it.
//!
//! The file can be opened from a mail attachment, so it requests nothing, and its content security policy allows only its own
//! scripts and style, identified by their hashes. Untrusted text (names of processes, mounts, hosts) occurs only in the document,
//! which is data; `web/dom.js` puts it on the screen.

mod bundle;
mod embedded;

use crate::{escape, json};
use bundle::{FLEET_MAIN, MAIN, bundle};
use embedded::EmbeddedPage;
use serde::Serialize;
use sha2::{Digest, Sha256};
use whyslow_documents::chart::PageData;

const INDEX: &str = include_str!("../../../../web/index.html");
const STYLE: &str = include_str!("../../../../web/style.css");
const LIBRARY: &str = include_str!("../../../../web/vendor/uPlot.iife.min.js");
const LICENSE: &str = include_str!("../../../../web/vendor/uPlot.LICENSE");
const LIBRARY_STYLE: &str = include_str!("../../../../web/vendor/uPlot.min.css");

/// The page as a server sends it: the page requests its content from the server.
pub struct ServedPage {
    /// The page.
    pub html: String,
    /// Its content security policy, for the header of that name.
    pub policy: String,
}

/// Returns the page of a report, as one file.
pub fn html(page: &PageData) -> String {
    file(&page.title, &EmbeddedPage::new(page))
}

/// Returns the page of a machine or of recordings, without a document.
pub fn served() -> ServedPage {
    served_by(MAIN, "whyslow")
}

/// Returns the page of a fleet.
pub fn fleet() -> ServedPage {
    served_by(FLEET_MAIN, "whyslow fleet")
}

fn served_by(main: &str, title: &str) -> ServedPage {
    let parts = PageParts::new(main);
    let policy = format!("{}; connect-src 'self'; img-src data:; frame-ancestors 'none'", parts.policy());
    // An empty icon: otherwise browsers would request one from the server, without the token.
    let head = format!("<title>{title}</title>\n<link rel=\"icon\" href=\"data:,\">");
    ServedPage { html: parts.page(&head, ""), policy }
}

fn file<T: Serialize>(title: &str, document: &T) -> String {
    let parts = PageParts::new(MAIN);
    let policy = parts.policy();
    let head = format!(
        "<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n<title>{}</title>",
        escape::xml(title)
    );
    let document = format!("<script type=\"application/json\" id=\"document\">{}</script>\n", embedded(document));
    parts.page(&head, &document)
}

/// Style and scripts.
struct PageParts {
    style: String,
    library: String,
    program: String,
}

impl PageParts {
    fn new(main: &str) -> Self {
        Self {
            style: format!("{LIBRARY_STYLE}\n{STYLE}"),
            // The licence must be included in every copy.
            library: format!("/*\n{LICENSE}*/\n{LIBRARY}"),
            program: bundle(main),
        }
    }

    /// Returns the content security policy that allows only these.
    fn policy(&self) -> String {
        format!(
            "default-src 'none'; script-src {} {}; style-src {}; base-uri 'none'; form-action 'none'",
            source(&self.library),
            source(&self.program),
            source(&self.style)
        )
    }

    /// Returns the page with this start of its head, and a document if there is one.
    fn page(&self, head: &str, document: &str) -> String {
        let head = format!("{head}\n<style>{}</style>", self.style);
        let library = format!("{document}<script>{}</script>", self.library);
        let program = format!("<script>{}</script>", self.program);
        // In the order in which they occur in the file.
        let parts = [
            ("<title>whyslow</title>", &*head),
            ("<link rel=\"stylesheet\" href=\"vendor/uPlot.min.css\">\n", ""),
            ("<link rel=\"stylesheet\" href=\"style.css\">\n", ""),
            ("<script src=\"vendor/uPlot.iife.min.js\"></script>", &*library),
            ("<script type=\"module\" src=\"main.js\"></script>", &*program),
        ];
        let mut page = String::with_capacity(parts.iter().map(|(_, text)| text.len()).sum::<usize>() + INDEX.len());
        let mut rest = INDEX;
        for (marker, text) in parts {
            let (before, after) = rest.split_once(marker).expect("a test holds web/index.html against these");
            page.push_str(before);
            page.push_str(text);
            rest = after;
        }
        page.push_str(rest);
        page
    }
}

/// Formats a document as JSON within a script element, so that it cannot contain the element's end or the start of a comment.
fn embedded<T: Serialize>(document: &T) -> String {
    // This character occurs only in strings.
    json::line(document).replace('<', "\\u003c")
}

/// Returns the source expression that allows this script or style in a content security policy.
fn source(text: &str) -> String {
    format!("'sha256-{}'", base64(&Sha256::digest(text)))
}

/// Encodes as Base64 with padding (RFC 4648, section 4).
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group = chunk.iter().fold(0, |group, &byte| group << 8 | u32::from(byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let letter = LETTERS[(group >> (18 - 6 * place)) as usize & 63];
            text.push(if place > chunk.len() { '=' } else { char::from(letter) });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_rfc_4648() {
        let encoded = ["", "f", "fo", "foo", "foob", "fooba", "foobar"].map(|text| base64(text.as_bytes()));
        assert_eq!(encoded, ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"]);
    }

    #[test]
    fn nothing_in_a_document_ends_its_element_and_it_reads_back() {
        let hostile = "</script><script>alert(1)</script><!--\u{2028}\u{202e}";
        let json = embedded(&hostile);
        assert!(!json.contains('<') && !json.contains('\u{2028}') && !json.contains('\u{202e}'), "{json}");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), hostile);
    }

    #[test]
    fn everything_is_in_the_file() {
        let page = file("a < b", &[1]);
        assert!(page.contains("<title>a &lt; b</title>"));
        assert!(page.contains("<script type=\"application/json\" id=\"document\">[1]\n</script>"));
        for reference in [" src=\"", "rel=\"stylesheet\"", "@import", "url("] {
            assert!(!page.contains(reference), "{reference}");
        }
        let elements = ["<style>", "</style>", "<script", "</script>"].map(|tag| page.matches(tag).count());
        assert_eq!(elements, [1, 1, 3, 3]);
    }

    #[test]
    fn a_served_page_has_no_document_and_may_ask_its_server_only() {
        let ServedPage { html, policy } = served();
        assert!(html.contains("<title>whyslow</title>") && !html.contains("id=\"document\""));
        assert!(!html.contains("Content-Security-Policy"), "it is in the header");
        assert_eq!(html.matches("<script>").count(), 2);
        let program = html.rsplit_once("<script>").unwrap().1.split_once("</script>").unwrap().0;
        assert!(policy.starts_with("default-src 'none'; script-src ") && policy.contains(&source(program)), "{policy}");
        assert!(policy.ends_with("; connect-src 'self'; img-src data:; frame-ancestors 'none'"), "{policy}");
    }

    #[test]
    fn a_page_has_the_modules_that_it_needs() {
        let [host, fleet] = [served().html, fleet().html];
        let has = |page: &str, module: &str| page.contains(&format!("const module_{module} = "));
        assert!(has(&host, "site") && !has(&host, "heatmap"));
        assert!(has(&fleet, "heatmap") && has(&fleet, "report") && !has(&fleet, "site"));
        assert!(fleet.contains("<title>whyslow fleet</title>"));
    }

    #[test]
    fn the_policy_allows_what_is_in_the_file_and_nothing_else() {
        let page = file("", &());
        let between = |start: &str, end: &str| page.split_once(start).unwrap().1.split_once(end).unwrap().0;
        let policy = between("Content-Security-Policy\" content=\"", "\"");
        let program = page.rsplit_once("<script>").unwrap().1.split_once("</script>").unwrap().0;
        let expected = format!(
            "default-src 'none'; script-src {} {}; style-src {}; base-uri 'none'; form-action 'none'",
            source(between("<script>", "</script>")),
            source(program),
            source(between("<style>", "</style>"))
        );
        assert_eq!(policy, expected);
    }
}
