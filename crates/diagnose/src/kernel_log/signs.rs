//! Messages of which only the count matters.

/// How often the kernel said what.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Signs {
    /// The connection tracking table was full; with the messages that were suppressed.
    pub conntrack_full: f64,
    /// A process was killed for memory.
    pub kills: f64,
    /// Memory ran out, and there was no process left to kill.
    pub no_victim: f64,
    /// A task was stuck for minutes.
    pub hung_tasks: f64,
    /// A processor was slowed down for its heat.
    pub throttled: f64,
    /// A card lost its link, or did not send in time.
    pub link_losses: f64,
    /// A file system was remounted read-only after errors.
    pub remounts: f64,
}

/// The count of a kind of message.
type CountOf = fn(&mut Signs) -> &mut f64;

/// What a line says, and what is counted for it.
const SAYS: &[(&str, CountOf)] = &[
    ("Killed process ", |s| &mut s.kills),
    ("no killable processes", |s| &mut s.no_victim),
    ("blocked for more than", |s| &mut s.hung_tasks),
    ("temperature above threshold", |s| &mut s.throttled),
    ("Link is Down", |s| &mut s.link_losses),
    ("NETDEV WATCHDOG", |s| &mut s.link_losses),
    ("emounting filesystem read-only", |s| &mut s.remounts),
];

/// Counts them; `None` where there is no log.
pub fn count<'a>(lines: impl Iterator<Item = &'a str>) -> Option<Signs> {
    let mut signs: Option<Signs> = None;
    // printk's rate limit says how many messages it held back before the next one of the kind.
    let mut suppressed = 0.0;
    for line in lines {
        let signs = signs.get_or_insert_with(Signs::default);
        if let Some(count) =
            line.strip_suffix(" messages suppressed.").and_then(|l| l.rsplit(' ').next()?.parse::<f64>().ok())
        {
            suppressed = count;
        } else if line.contains("conntrack") && line.contains("table full") {
            signs.conntrack_full += 1.0 + std::mem::take(&mut suppressed);
        } else if let Some((_, count)) = SAYS.iter().find(|(words, _)| line.contains(words)) {
            *count(signs) += 1.0;
        }
    }
    signs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suppressed_messages_count() {
        let log = [
            "printk: 4489 messages suppressed.",
            "nf_conntrack: table full, dropping packet.",
            "ip_conntrack: table full, dropping packet",
        ];
        assert_eq!(count(log.into_iter()).unwrap().conntrack_full, 4491.0);
        assert_eq!(count(std::iter::empty()), None);
        let hung = ["INFO: task jbd2/sda1-8:812 blocked for more than 120 seconds.", "eth0: NIC Link is Down"];
        let signs = count(hung.into_iter()).unwrap();
        assert_eq!((signs.hung_tasks, signs.link_losses, signs.kills), (1.0, 1.0, 0.0));
    }
}
