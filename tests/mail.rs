//! Text as mail programs change it.

/// Wraps a text as a mail program does: breaks a longer line at the last space before this many columns.
pub fn wrapped(text: &str, width: usize) -> String {
    let mut out = String::new();
    for mut line in text.lines() {
        while let Some((end, at_end)) = line.char_indices().nth(width) {
            let space = if at_end == ' ' { Some(end) } else { line[..end].rfind(' ') };
            let fits = space.filter(|at| !line[..*at].trim().is_empty());
            let Some(at) = fits.or_else(|| line[end..].find(' ').map(|at| end + at)) else { break };
            out.push_str(line[..at].trim_end());
            out.push('\n');
            line = line[at..].trim_start();
            // A leading space marks a line that is not a quotation (RFC 3676, section 4.4).
            out.push_str(if line.starts_with('>') { " " } else { "" });
        }
        out.push_str(line);
        out.push('\n');
    }
    out
}
