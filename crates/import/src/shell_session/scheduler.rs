//! I/O scheduler that a capture names around the benchmark it was used for.

/// An I/O scheduler named in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheduler {
    name: &'static str,
    /// Line of the sentence that names it; `None` if a command set it.
    said_on: Option<u32>,
}

impl Scheduler {
    /// Schedulers of block/, old and new. `none` and `deadline` also occur in other sentences.
    const NAMES: [&str; 7] = ["cfq", "bfq", "mq-deadline", "kyber", "noop", "deadline", "none"];
    const ORDINARY_WORDS: [&str; 2] = ["deadline", "none"];
    /// Maximum length of a sentence.
    const LONGEST: usize = 200;
    /// Maximum number of lines between a sentence and the output that it introduces.
    const NEAR: u32 = 4;

    /// Parses `# echo bfq > /sys/block/sda/queue/scheduler` or `With bfq I get:`. Ignores a sentence that names several
    /// schedulers.
    pub fn named(line: &str, number: u32) -> Option<Self> {
        // Checked first, since every line that is not output is tested.
        let may_name = ["fq", "FQ", "eadline", "yber", "oop", "cheduler"].iter().any(|part| line.contains(part));
        if !may_name || line.len() > Self::LONGEST {
            return None;
        }
        let words = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').map(str::to_ascii_lowercase);
        let is_command = line.contains("echo ") && line.contains("/queue/scheduler");
        let is_said = |name: &&str| words.clone().any(|word| word == **name);
        let names: Vec<&str> = Self::NAMES.into_iter().filter(|name| is_said(name)).collect();
        let [name] = names[..] else { return None };
        let is_clear = is_command || !Self::ORDINARY_WORDS.contains(&name) || line.contains("scheduler");
        is_clear.then_some(Self { name, said_on: (!is_command).then_some(number) })
    }

    /// Returns the scheduler in use for the output on a line, as far as the text says.
    pub fn at(&self, line: u32) -> Option<&'static str> {
        self.said_on.is_none_or(|said| line.saturating_sub(said) <= Self::NEAR).then_some(self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheduler_is_named_by_a_command_or_by_the_sentence_above() {
        let of = |line: &str| Scheduler::named(line, 10);
        let set = of("# echo none > /sys/block/sda/queue/scheduler").unwrap();
        assert_eq!((set.at(11), set.at(500)), (Some("none"), Some("none")));
        let said = of("With BFQ, I get:").unwrap();
        assert_eq!((said.at(12), said.at(20)), (Some("bfq"), None));
        assert_eq!(of("With noop or deadline"), None);
        assert_eq!(of("none of them"), None);
        assert_eq!(of("with the deadline scheduler:").and_then(|s| s.at(11)), Some("deadline"));
        assert_eq!(of("with mq-deadline").and_then(|s| s.at(11)), Some("mq-deadline"));
    }
}
