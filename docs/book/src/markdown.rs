//! Text within Markdown.

/// Escapes text that Markdown would take for markup: placeholders such as `<subject>`, and column separators.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('|', "\\|")
        .replace('*', "\\*")
        .replace('_', "\\_")
}

/// Returns the anchor that GitHub and mdBook give a heading.
pub fn anchor(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    heading.trim().to_lowercase().chars().filter(kept).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Returns the headings of a document, without those in code.
pub fn headings(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter_map(move |line| {
        is_code ^= line.starts_with("```");
        let heading = line.trim_start_matches('#');
        (!is_code && heading.len() < line.len() && heading.starts_with(' ')).then(|| heading.trim())
    })
}
