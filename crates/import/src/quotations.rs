//! Output quoted in a sentence: "it prints `rx_errors: 5`".

/// Returns the quotations between backquotes in a sentence that may be output.
pub fn quotations(text: &str) -> Vec<&str> {
    // Checked first, since every line that begins no output is tested.
    if !text.contains('`') {
        return Vec::new();
    }
    let parts: Vec<&str> = text.split('`').collect();
    // Each quotation has two marks.
    if parts.len() < 3 || parts.len().is_multiple_of(2) {
        return Vec::new();
    }
    let may_be_output = |quotation: &&&str| quotation.split_whitespace().count() > 1 || quotation.contains([':', '=']);
    parts.iter().skip(1).step_by(2).filter(may_be_output).copied().collect()
}

/// Returns true if the words around the quotations in a line deny or suppose something, or call it an example.
pub fn is_doubted(text: &str) -> bool {
    const DOUBTS: [&str; 22] = [
        "not", "no", "never", "without", "none", "neither", "instead", "unlike", "if", "unless", "when", "whenever",
        "would", "could", "should", "might", "expect", "expected", "example", "like", "such", "e.g",
    ];
    let is_doubt = |word: &str| {
        let word = word.trim_matches(|c: char| c.is_ascii_punctuation()).to_ascii_lowercase();
        DOUBTS.contains(&word.as_str()) || word.ends_with("n't")
    };
    text.split('`').step_by(2).flat_map(str::split_whitespace).any(is_doubt)
}
