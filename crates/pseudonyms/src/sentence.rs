//! Sentences, which can contain names of any kind: addresses, paths, UUIDs and host names are recognized by their form, others if
//! they were encountered standing alone.

use crate::known;
use crate::names::{each_part, is_number, looks_like_uuid};
use crate::{Pseudonyms, lock};
use std::collections::HashSet;
use std::sync::LazyLock;
use whyslow_model::kernel_log::{LOG_PATTERNS, MEMORY_REPORT, UNMISTAKABLE, prefilter};

/// Characters between words. Brackets also occur in addresses, `[::1]:80`.
const DELIMITERS: &[char] = &['"', '\'', '(', ')', '{', '}', '<', '>', ',', ';', '=', '|', '`'];
/// Sentences are not searched for shorter names, because too many words are that short.
const SHORTEST: usize = 4;
/// Prefixes of iSCSI, NVMe and Fibre Channel identities.
const STORAGE_NAMES: [&str; 5] = ["iqn.", "nqn.", "naa.", "eui.", "wwn-"];
/// Words that parsers of the kernel log check, besides those of its patterns.
const PARSED: [&str; 24] = [
    "error",
    "Error",
    "Buffer",
    "device",
    "sector",
    "failed",
    "Failed",
    "Hardware",
    "Sense",
    "status",
    "command",
    "timeout",
    "reset",
    "link",
    "Link",
    "task",
    "server",
    "medium",
    "target",
    "interface",
    "host",
    "channel",
    "filesystem",
    "journal",
];

/// The words that identify messages: a name that is one of them is not replaced in sentences.
static VOCABULARY: LazyLock<HashSet<&'static str>> = LazyLock::new(|| {
    let patterns = LOG_PATTERNS.iter().flat_map(|pattern| pattern.words.iter().copied());
    let all = patterns.chain(prefilter()).chain(MEMORY_REPORT.iter().copied()).chain(UNMISTAKABLE.iter().copied());
    all.flat_map(|words| words.split(|c: char| !c.is_alphanumeric())).chain(PARSED).collect()
});

/// Selects the encountered names that are replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetNames {
    /// Names that are rarely ordinary words.
    Distinctive,
    /// All names.
    All,
}

impl Pseudonyms {
    /// Replaces the names in a sentence of whyslow or of a tool.
    pub(crate) fn sentence(&self, text: &str) -> String {
        let of_file =
            lock(&self.files).iter().find_map(|(file, new)| Some((text.find(file)?, file.len(), new.clone())));
        match of_file {
            Some((at, length, new)) => self.sentence(&text[..at]) + &new + &self.sentence(&text[at + length..]),
            None => self.names_in(text, MetNames::Distinctive),
        }
    }

    /// Replaces the names in a text.
    pub(crate) fn names_in(&self, text: &str, met: MetNames) -> String {
        let is_delimiter = |c: char| c.is_whitespace() || DELIMITERS.contains(&c);
        let mut new = String::with_capacity(text.len());
        for piece in text.split_inclusive(is_delimiter) {
            let word = piece.trim_end_matches(is_delimiter);
            new.push_str(&self.bracketed(word, met));
            new.push_str(&piece[word.len()..]);
        }
        new
    }

    /// Replaces a word, or words between brackets: `[::1]:80`, `db[1234]:`.
    fn bracketed(&self, word: &str, met: MetNames) -> String {
        match self.word(word, met) {
            Some(new) => new,
            None if word.contains(['[', ']']) => each_part(word, '[', |part| {
                each_part(part, ']', |inner| self.word(inner, met).unwrap_or_else(|| inner.to_owned()))
            }),
            None => word.to_owned(),
        }
    }

    /// Replaces a word and keeps its trailing punctuation; returns `None` if it is not a name.
    fn word(&self, word: &str, met: MetNames) -> Option<String> {
        let name = word.trim_end_matches(['.', ':', '!', '?']);
        // Stripping `::` and the like leaves nothing, so the complete word is tried first.
        let whole = self.address_word(word);
        let new = whole.map(|new| (new, word.len())).or_else(|| Some((self.name_in_sentence(name, met)?, name.len())));
        new.map(|(new, length)| new + &word[length..])
    }

    fn name_in_sentence(&self, name: &str, met: MetNames) -> Option<String> {
        if let Some(address) = self.address_word(name).or_else(|| self.mac_word(name)) {
            return Some(address);
        }
        if name.len() < SHORTEST {
            return self.met_name(name, met);
        }
        if looks_like_uuid(name) {
            return Some(self.uuid_like(name));
        }
        if let Some((scheme, rest)) = name.split_once("://") {
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            return Some(format!("{scheme}://{}{}", self.authority(authority), self.path(path)));
        }
        if name.starts_with('/') && name.contains(|c: char| c.is_alphabetic()) {
            // `/var/log/messages:12`
            let line = name.rsplit_once(':').filter(|(_, line)| line.bytes().all(|b| b.is_ascii_digit() || b == b'-'));
            return Some(match line {
                Some((path, line)) => format!("{}:{line}", self.path(path)),
                None => self.path(name),
            });
        }
        if let Some(share) = name.strip_prefix("\\\\") {
            let (server, path) = share.split_once('\\').unwrap_or((share, ""));
            let path = each_part(path, '\\', |part| self.alias("path", part));
            return Some(format!("\\\\{}\\{path}", self.host(server)).trim_end_matches('\\').to_owned());
        }
        if name.split_once(":/").is_some_and(|(server, _)| !server.is_empty() && !server.contains('/')) {
            return Some(self.source(name));
        }
        if STORAGE_NAMES.iter().any(|start| name.starts_with(start)) {
            return Some(self.alias("id", name));
        }
        if let Some((user, domain)) = name.split_once('@')
            && !user.is_empty()
            && known::is_full_host_name(domain)
        {
            return Some(format!("{}@{}", self.alias("user", user), self.host(domain)));
        }
        match name.rsplit_once(':') {
            Some((host, port)) if is_number(port) && known::is_full_host_name(host) => {
                Some(format!("{}:{port}", self.host(host)))
            }
            _ if known::is_full_host_name(name) => Some(self.host(name)),
            _ => self.met_name(name, met).or_else(|| self.begins_with_interface(name)),
        }
    }

    /// Replaces `user:password@host:port` of a URL and drops the password.
    fn authority(&self, authority: &str) -> String {
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user.split(':').next().unwrap_or_default()), host),
            None => (None, authority),
        };
        let host = self.endpoints(host);
        user.map_or(host.clone(), |user| format!("{}@{host}", self.alias("user", user)))
    }

    /// Returns the pseudonym of a name that was encountered standing alone.
    fn met_name(&self, name: &str, which: MetNames) -> Option<String> {
        let met = self.met(name)?;
        let is_wanted = match which {
            MetNames::All => true,
            MetNames::Distinctive => met.in_sentences,
        };
        let is_word = name.len() >= SHORTEST && name.contains(|c: char| c.is_alphabetic());
        (is_wanted && is_word && !VOCABULARY.contains(name)).then_some(met.pseudonym)
    }

    /// Replaces an interface name at the start of a word: `uplink-TxRx-0`.
    fn begins_with_interface(&self, word: &str) -> Option<String> {
        let ends = word.match_indices(['-', ':', '@', '.', '/', '_']).map(|(at, _)| at);
        ends.rev().find_map(|end| {
            let name = &word[..end];
            self.is_met_interface(name).then(|| self.interface(name) + &word[end..])
        })
    }

    /// Whether an interface of this name was encountered.
    pub(crate) fn is_met_interface(&self, name: &str) -> bool {
        self.met(name)
            .is_some_and(|met| met.pseudonym.starts_with("if-") || known::interface_kind(&met.pseudonym).is_some())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::pseudonyms;

    #[test]
    fn names_are_told_by_their_form() {
        let names = pseudonyms();
        for (text, name) in [
            ("cannot read /srv/shop/db.log: gone", "shop"),
            ("connect to 203.0.113.7:5432 failed", "203.0.113.7"),
            ("peer [2001:db8::7]:80.", "2001:db8::7"),
            ("station 52:54:00:ab:cd:ef left", "ab:cd:ef"),
            ("mounted 01234567-89ab-cdef-0123-456789abcdef ro", "89ab-cdef"),
            ("see https://alice:pw@shop.corp.example/a?b", "shop"),
            ("mail alice@corp.example now", "alice"),
            ("\\\\filer\\shop is gone", "filer"),
            ("filer:/export/shop does not answer", "filer"),
            ("target iqn.2001-05.com.shop:disk1,", "shop"),
            ("host=db1.corp.example,", "db1"),
        ] {
            let new = names.sentence(text);
            assert!(!new.contains(name), "{new}");
            assert_eq!(new.split(' ').count(), text.split(' ').count(), "{new}");
        }
    }

    #[test]
    fn other_words_stay() {
        let names = pseudonyms();
        for text in [
            "a physical volume is missing",
            "/proc/diskstats: not permitted; run as root",
            "net.ipv4.tcp_mem is 190281",
            "ata1.00: failed command: READ DMA",
            "func+0x3a/0xd0 [module]",
            "2.5 % of 8:16, at 12:30:00",
            "",
        ] {
            assert_eq!(names.sentence(text), text);
        }
    }

    #[test]
    fn names_that_were_met_are_known_in_sentences() {
        let names = pseudonyms();
        let (host, link, process) = (names.host("shopdb"), names.interface("uplink"), names.process("customerd"));
        assert_eq!(names.sentence("shopdb has customerd"), format!("{host} has customerd"));
        assert_eq!(names.names_in("customerd[12]: x", super::MetNames::All), format!("{process}[12]: x"));
        assert_eq!(names.sentence("uplink-TxRx-0"), format!("{link}-TxRx-0"));
        // A host with the name of a word in the kernel log.
        names.host("error");
        assert_eq!(names.sentence("I/O error"), "I/O error");
    }
}
