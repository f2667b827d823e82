//! States that servers show in their process titles. A PostgreSQL session that waits for a lock sleeps like an idle one; only its
//! title shows the difference (`update_process_title`, on by default): `postgres: user database host UPDATE waiting`.

use crate::root::Root;
use std::collections::{BTreeMap, BTreeSet};

/// A database session, as shown in its title.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Session {
    database: String,
    waits: bool,
    /// The session has an open transaction and does nothing.
    idle_in_transaction: bool,
}

/// Counts how often each watched process was waiting for a lock, and collects the possible holders.
#[derive(Clone, Debug, Default)]
pub(super) struct LockTitles {
    /// By process: the number of checks, and the number of checks that found it waiting.
    seen: BTreeMap<u32, (u32, u32)>,
    /// Sessions of the same database that were idle in a transaction meanwhile.
    holders: BTreeMap<u32, BTreeSet<u32>>,
}

impl LockTitles {
    /// Reads a process's title.
    pub(super) fn note(&mut self, pid: u32, root: &Root) {
        let Some(session) = session(pid, root) else { return };
        let (looks, waits) = self.seen.entry(pid).or_default();
        *looks += 1;
        if !session.waits {
            return;
        }
        *waits += 1;
        if *waits == 1 || waits.is_multiple_of(10) {
            let pids = root.list("proc").into_iter().filter_map(|name| name.parse::<u32>().ok());
            let holds = |pid: &u32| {
                let other = (*pid != 0).then(|| self::session(*pid, root)).flatten();
                other.is_some_and(|other| other.idle_in_transaction && other.database == session.database)
            };
            self.holders.entry(pid).or_default().extend(pids.filter(holds));
        }
    }

    /// Returns the share of checks at which the process waited for a lock, by its title.
    pub(super) fn waiting(&self, pid: u32) -> f64 {
        self.seen.get(&pid).map_or(0.0, |&(looks, waits)| f64::from(waits) / f64::from(looks.max(1)))
    }

    /// Returns the session that holds the lock, if there is only one candidate.
    pub(super) fn holder(&self, pid: u32) -> Option<u32> {
        let holders = self.holders.get(&pid)?;
        holders.first().copied().filter(|_| holders.len() == 1)
    }
}

fn session(pid: u32, root: &Root) -> Option<Session> {
    parse(&root.maybe(&format!("proc/{pid}/cmdline"))?)
}

/// Parses `postgres: [CLUSTER:] USER DATABASE HOST[(PORT)] STATE`, padded with zeros.
fn parse(title: &str) -> Option<Session> {
    let words: Vec<&str> = title.trim_end_matches(['\0', ' ']).strip_prefix("postgres: ")?.split(' ').collect();
    let host = words.iter().position(|word| word.starts_with('[') || word.ends_with(')'))?;
    let (database, state) = (words.get(host.checked_sub(1)?)?, words[host + 1..].join(" "));
    Some(Session {
        database: (*database).to_owned(),
        waits: state.ends_with(" waiting"),
        idle_in_transaction: state.starts_with("idle in transaction"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(titles: &[(u32, &str)]) -> (tempfile::TempDir, Root) {
        let folder = whyslow_testing::folder();
        for (pid, title) in titles {
            let dir = folder.path().join(format!("proc/{pid}"));
            std::fs::create_dir_all(&dir).unwrap();
            std::fs::write(dir.join("cmdline"), format!("{title}\0\0\0")).unwrap();
        }
        let root = Root::captured(folder.path());
        (folder, root)
    }

    #[test]
    fn a_session_says_what_it_does() {
        let state = |title: &str| parse(title).map(|s| (s.database, s.waits, s.idle_in_transaction));
        assert_eq!(state("postgres: bob shop [local] UPDATE waiting\0\0"), Some(("shop".into(), true, false)));
        assert_eq!(state("postgres: bob shop 10.0.0.7(41234) idle in transaction"), Some(("shop".into(), false, true)));
        assert_eq!(state("postgres: main: bob shop [local] SELECT"), Some(("shop".into(), false, false)));
        assert_eq!(
            (state("postgres: checkpointer "), state("sleep 60"), state("postgres: [local]")),
            (None, None, None)
        );
    }

    #[test]
    fn the_only_open_transaction_of_the_database_holds_the_lock() {
        let titles = [
            (1, "postgres: bob shop [local] UPDATE waiting"),
            (2, "postgres: eve shop [local] idle in transaction"),
            (3, "postgres: eve other [local] idle in transaction"),
            (4, "postgres: bob shop [local] idle"),
        ];
        let (_folder, root) = tree(&titles);
        let mut found = LockTitles::default();
        (0..3).for_each(|_| found.note(1, &root));
        found.note(4, &root);
        assert_eq!((found.waiting(1), found.holder(1)), (1.0, Some(2)));
        assert_eq!((found.waiting(4), found.holder(4), found.waiting(9)), (0.0, None, 0.0));
        let (_folder, root) = tree(&[titles[0], titles[1], (5, titles[1].1)]);
        let mut two = LockTitles::default();
        two.note(1, &root);
        assert_eq!((two.waiting(1), two.holder(1)), (1.0, None));
    }
}
