//! Text on its way through mail programs.

/// A text as a mail program wraps it: a longer line is broken at the last space before this many columns.
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
            // What is no quotation is marked by a space (RFC 3676, section 4.4).
            out.push_str(if line.starts_with('>') { " " } else { "" });
        }
        out.push_str(line);
        out.push('\n');
    }
    out
}
