//! Finds the sentences in Rust sources: string literals that read like English, without those of tests.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Macros whose text only a developer sees.
const INTERNAL: [&str; 9] =
    ["assert", "assert_eq", "assert_ne", "concat", "debug_assert", "include_str", "panic", "todo", "unreachable"];

/// Files and folders that list words of others, such as kernel messages.
const WORDS_OF_OTHERS: [&str; 6] = [
    "diagnose/src/kernel_log/array.rs",
    "diagnose/src/kernel_log/storage",
    "import/src/formats/netstat.rs",
    "model/src/kernel_log.rs",
    "model/src/kernel_log",
    "pseudonyms/src/log.rs",
];

/// Returns the sentences of a crate, by source file, with its path below `src`.
pub fn sentences_of(crate_folder: &Path) -> Vec<(String, Vec<String>)> {
    let src = crate_folder.join("src");
    let mut files = Vec::new();
    rust_files(&src, &mut files);
    files.retain(|path| !WORDS_OF_OTHERS.iter().any(|words| is_below(path, words)));
    files.sort();
    let parsed: Vec<(PathBuf, TokenStream)> = files
        .into_iter()
        .map(|path| {
            let text = fs::read_to_string(&path).expect("a source file");
            let tokens = text.parse().unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            (path, tokens)
        })
        .collect();
    let mut scan = Scan::default();
    let found: Vec<(PathBuf, Vec<String>)> = parsed
        .into_iter()
        .map(|(path, tokens)| {
            scan.folder = module_folder(&path);
            scan.is_help = is_below(&path, "fleet/src/args.rs") || is_below(&path, "fleet/src/commands");
            scan.is_format = is_below(&path, "import/src/formats");
            scan.walk(tokens);
            (path, std::mem::take(&mut scan.found))
        })
        .collect();
    let is_test =
        |path: &Path| scan.tests.iter().any(|module| path.starts_with(module) || path == module.with_extension("rs"));
    let with_sentences = found.into_iter().filter(|(path, found)| !found.is_empty() && !is_test(path));
    let name =
        |path: &Path| path.strip_prefix(&src).expect("a file of the crate").with_extension("").display().to_string();
    with_sentences.map(|(path, found)| (name(&path), found)).collect()
}

/// Returns true if a path is this file or in this folder of `crates`.
fn is_below(path: &Path, part: &str) -> bool {
    path.ancestors().any(|above| above.ends_with(part))
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for path in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Returns the folder of a file's submodules.
fn module_folder(path: &Path) -> PathBuf {
    let is_root = ["lib", "main", "mod"].iter().any(|name| path.file_stem().is_some_and(|stem| stem == *name));
    if is_root { path.parent().expect("a folder").to_owned() } else { path.with_extension("") }
}

#[derive(Default)]
struct Scan {
    folder: PathBuf,
    /// Whether doc comments are help.
    is_help: bool,
    /// Whether headers of other tools are to be expected.
    is_format: bool,
    /// The doc comment before the next token.
    comment: String,
    found: Vec<String>,
    /// Modules for tests only, without `.rs`.
    tests: BTreeSet<PathBuf>,
}

impl Scan {
    fn walk(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            let is_inner = is_punct(tokens.get(at + 1), '!');
            let attribute = tokens.get(at + 1 + usize::from(is_inner)).filter(|_| is_punct(tokens.get(at), '#'));
            if let Some(TokenTree::Group(group)) = attribute.filter(|token| is_group(token, Delimiter::Bracket)) {
                at += 2 + usize::from(is_inner);
                if group.stream().to_string().replace(' ', "") == "cfg(test)" {
                    at = self.skip_item(&tokens, at);
                } else {
                    self.attribute(group.stream());
                }
                continue;
            }
            self.end_comment();
            if is_internal(&tokens[..at]) && matches!(tokens[at], TokenTree::Group(_)) {
                at += 1;
                continue;
            }
            match &tokens[at] {
                TokenTree::Group(group) => self.walk(group.stream()),
                TokenTree::Literal(literal) => {
                    if let Ok(text) = syn::parse_str::<syn::LitStr>(&literal.to_string()) {
                        self.take(&text.value());
                    }
                }
                TokenTree::Ident(_) | TokenTree::Punct(_) => {}
            }
            at += 1;
        }
    }

    fn attribute(&mut self, tokens: TokenStream) {
        let name = tokens.clone().into_iter().next().map(|token| token.to_string());
        match name.as_deref() {
            Some("doc") if self.is_help => {
                let line = tokens.into_iter().last().map(|literal| literal.to_string());
                let line = line.and_then(|literal| syn::parse_str::<syn::LitStr>(&literal).ok());
                self.comment.extend(line.map(|line| line.value()));
            }
            Some("arg" | "command" | "error") => self.walk(tokens),
            _ => {}
        }
    }

    /// Takes a doc comment that is help, which has no full stop at its end.
    fn end_comment(&mut self) {
        let comment = std::mem::take(&mut self.comment);
        if !comment.ends_with('.') {
            self.take(&comment);
        }
    }

    /// Skips an item for tests. Notes its name if it is a module in a file of its own.
    fn skip_item(&mut self, tokens: &[TokenTree], start: usize) -> usize {
        let is_end = |token: &TokenTree| is_punct(Some(token), ';') || is_group(token, Delimiter::Brace);
        let end = tokens[start..].iter().position(is_end).map_or(tokens.len(), |length| start + length);
        let module = tokens[start..end].iter().position(|token| token.to_string() == "mod");
        if let (Some(at), true) = (module, is_punct(tokens.get(end), ';')) {
            self.tests.insert(self.folder.join(tokens[start + at + 1].to_string()));
        }
        end + 1
    }

    fn take(&mut self, text: &str) {
        let is_columns = text.contains('\n');
        for line in text.lines() {
            // Columns of an example and its description are separated by spaces.
            let line =
                if is_columns { line.rsplit_once("  ").map_or(line, |(_, description)| description) } else { line };
            let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
            if is_sentence(&line) && !(self.is_format && is_header(&line)) {
                self.found.push(line);
            }
        }
    }
}

/// Returns true for what looks like a header in the output of a tool: our own sentences begin in lower case there.
fn is_header(text: &str) -> bool {
    let is_capital = text.starts_with(|c: char| c.is_ascii_uppercase()) && !text.contains([',', ';']);
    is_capital || text.ends_with([':', '=']) || text.starts_with(['-', '#', ')'])
}

fn is_punct(token: Option<&TokenTree>, c: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == c)
}

fn is_group(token: &TokenTree, delimiter: Delimiter) -> bool {
    matches!(token, TokenTree::Group(group) if group.delimiter() == delimiter)
}

/// Returns true if what follows these tokens is for developers: the arguments of `assert!` or `.expect`.
fn is_internal(before: &[TokenTree]) -> bool {
    match before {
        [.., TokenTree::Punct(dot), TokenTree::Ident(name)] if dot.as_char() == '.' => {
            name == "expect" || name == "expect_err"
        }
        [.., TokenTree::Ident(name), TokenTree::Punct(bang)] if bang.as_char() == '!' => {
            INTERNAL.iter().any(|internal| name == internal)
        }
        _ => false,
    }
}

/// Returns true if a literal reads like English: at least two plain words, or one with a value filled in, and those are at least
/// half of it.
pub fn is_sentence(text: &str) -> bool {
    const CODE: [&str; 12] =
        ["SELECT ", "CREATE ", "WITH ", "FROM ", "WHERE ", "/proc/", "<", "%", "\\", "&&", "==", "=>"];
    if CODE.iter().any(|code| text.starts_with(code)) || text.contains(" AS ") {
        return false;
    }
    let words: Vec<&str> = text.split(' ').filter(|word| !word.starts_with('{')).collect();
    let plain = words.iter().filter(|word| is_plain_word(word)).count();
    let enough = plain >= 2 || (plain == 1 && text.contains('{') && text.contains(' '));
    enough && plain * 2 >= words.len()
}

fn is_plain_word(word: &str) -> bool {
    let bare = word.trim_matches(|c: char| ['(', ')', ',', '.', ':', ';', '\'', '"', '!', '?'].contains(&c));
    let mut chars = bare.chars();
    let starts = chars.next().is_some_and(|c| c.is_ascii_alphabetic());
    let lower = chars.clone().all(|c| c.is_ascii_lowercase() || c == '-' || c == '\'');
    starts && lower && (bare.len() > 1 || bare == "a")
}

#[test]
fn sentences_of_sources_are_those_that_users_read() {
    let mut scan = Scan::default();
    let source = r#"
        //! Not shown.
        const NAME: &str = "disk.queue";
        fn f() { write!(out, "cannot read {path}:\nrun it as root"); assert!(ok, "not for users"); x.expect("nor this one"); }
        #[cfg(test)]
        mod tests { const TEXT: &str = "text of a test"; }
        #[cfg(test)]
        mod more_tests;
    "#;
    scan.walk(source.parse().expect("Rust"));
    assert_eq!(scan.found, ["cannot read {path}:", "run it as root"]);
    assert_eq!(scan.tests, BTreeSet::from([PathBuf::from("more_tests")]));
    assert!(["a queue", "waited {}", "The disk hangs."].into_iter().all(is_sentence));
    assert!(!["{name}", "md0", "SELECT a FROM b", "rx_packets tx_packets"].into_iter().any(is_sentence));
}
