//! Recommends a profile for a machine, by its hardware and the programs that run on it.

use super::compute;
use crate::machine::Machine;
use whyslow_documents::tune::Recommendation;
use whyslow_sense::Root;

/// A possible purpose of a machine.
struct Role {
    programs: &'static [&'static str],
    profile: &'static str,
    /// Description of the programs that run here.
    who: &'static str,
    /// Minimum share of memory for the machine to count as dedicated to the role; `None` for programs whose memory use is not
    /// visible (the kernel's own nfsd).
    least: Option<f64>,
}

/// Minimum share of memory of a program, and that of guests: a smaller one may be incidental.
const PROGRAM: Option<f64> = Some(0.02);
const GUESTS: Option<f64> = Some(0.25);

const ROLES: [Role; 6] = [
    Role { programs: &["postgres", "postmaster"], profile: "db-postgresql", who: "PostgreSQL", least: PROGRAM },
    Role { programs: &["mysqld", "mariadbd"], profile: "db-mysql", who: "MySQL or MariaDB", least: PROGRAM },
    Role { programs: &["oracle", "ora_pmon*"], profile: "db-oracle", who: "Oracle", least: PROGRAM },
    Role { programs: &["glusterfsd", "ceph-osd"], profile: "storage-server", who: "an object server", least: PROGRAM },
    Role { programs: &["nfsd", "smbd"], profile: "storage-server", who: "a file server", least: None },
    Role { programs: &["qemu-system-*", "qemu-kvm"], profile: "vm-host", who: "a virtual machine", least: GUESTS },
];

/// A role whose programs run here.
struct Candidate {
    role: &'static Role,
    /// One of its processes: PID and name.
    process: (String, String),
    /// Share of memory that its processes hold; `None` if it is unknown.
    share: Option<f64>,
}

impl Candidate {
    fn for_role(root: &Root, role: &'static Role) -> Option<Self> {
        let processes = compute::running(root, role.programs);
        let first = processes.first()?.clone();
        let name = root.word(&format!("proc/{first}/comm")).unwrap_or_default();
        Some(Self { role, process: (first, name), share: share(root, &processes) })
    }

    fn counts(&self) -> bool {
        match (self.role.least, self.share) {
            (None, _) => true,
            (Some(least), Some(share)) => share >= least,
            // If memory use is unknown, a server program counts, but guests do not: people try them out on machines of every
            // kind.
            (Some(least), None) => Some(least) == PROGRAM,
        }
    }

    /// Returns the weight of the role: the larger share of memory decides.
    fn weight(&self) -> f64 {
        self.share.unwrap_or(0.0)
    }

    fn words(&self) -> String {
        let (pid, name) = &self.process;
        match self.share.filter(|share| *share > 0.0) {
            Some(share) => {
                format!("{} runs here ({name}, process {pid}) and holds {} of memory", self.role.who, percent(share))
            }
            None => format!("{} runs here ({name}, process {pid})", self.role.who),
        }
    }
}

/// Returns the profile that fits best, with the reason.
pub fn recommend(machine: &Machine) -> Recommendation {
    let found: Vec<Candidate> = ROLES.iter().filter_map(|role| Candidate::for_role(machine.root(), role)).collect();
    let (counting, by_the_way): (Vec<Candidate>, Vec<Candidate>) = found.into_iter().partition(Candidate::counts);
    // The first of equals wins: databases precede file servers.
    let best = counting.iter().rev().max_by(|a, b| a.weight().total_cmp(&b.weight()));
    let (profile, mut why) = match best {
        Some(best) => (best.role.profile, best.words()),
        None if compute::is_guest(machine) => {
            ("vm-guest", "this is a virtual machine, and nothing on it needs more: the host orders its disks' requests, which server-throughput does \
                 not allow for"
                .to_owned())
        }
        None => ("server-throughput", "no other profile fits better: throughput suits most servers".to_owned()),
    };
    let others = counting.iter().filter(|other| best.is_none_or(|best| !std::ptr::eq(best, *other)));
    for other in others.chain(&by_the_way) {
        let holds = other.share.map_or(String::new(), |share| format!(" with {} of memory", percent(share)));
        why.push_str(&format!("; {} runs too, but only{holds}: not {}", other.process.1, other.role.profile));
    }
    Recommendation { profile: profile.to_owned(), why: why.replace(" but only:", " by the way:") }
}

fn percent(share: f64) -> String {
    if share < 0.01 { "less than 1 %".to_owned() } else { format!("{:.0} %", share * 100.0) }
}

/// Returns the share of memory that processes hold: their own, and the largest shared part of one of them (proc_pid_status(5)).
fn share(root: &Root, processes: &[String]) -> Option<f64> {
    let total = compute::memory(root)?;
    let (mut own, mut shared, mut is_known) = (0, 0, false);
    for pid in processes {
        let Some(status) = root.maybe(&format!("proc/{pid}/status")) else { continue };
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
        };
        is_known = true;
        own += field("RssAnon:").unwrap_or(0);
        shared = shared.max(field("RssShmem:").unwrap_or(0));
    }
    (is_known && total > 0).then(|| (own + shared) as f64 / total as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::tests::{tree, write};

    struct Tree(tempfile::TempDir, Machine);

    impl Tree {
        fn new() -> Self {
            let (folder, machine) = tree(&[("proc/meminfo", "MemTotal:       10000000 kB\n")]);
            Self(folder, machine)
        }

        fn process(&self, pid: u32, name: &str, own: u64, shared: u64) {
            write(&self.0, &format!("proc/{pid}/comm"), &format!("{name}\n"));
            let status = format!("Name:\t{name}\nRssAnon:\t{own} kB\nRssShmem:\t{shared} kB\n");
            write(&self.0, &format!("proc/{pid}/status"), &status);
        }

        fn recommended(&self) -> Recommendation {
            recommend(&self.1)
        }
    }

    #[test]
    fn what_runs_decides() {
        let tree = Tree::new();
        assert_eq!(tree.recommended().profile, "server-throughput");
        write(&tree.0, "proc/cpuinfo", "flags : fpu hypervisor sse\n");
        assert_eq!(tree.recommended().profile, "vm-guest");
        tree.process(42, "mysqld", 3_000_000, 0);
        let fit = tree.recommended();
        assert_eq!(fit.profile, "db-mysql");
        assert!(fit.why.contains("process 42") && fit.why.contains("30 % of memory"), "{}", fit.why);
    }

    #[test]
    fn a_guest_by_the_way_makes_no_host() {
        let tree = Tree::new();
        tree.process(7, "qemu-system-x86", 300_000, 0);
        let fit = tree.recommended();
        assert_eq!(fit.profile, "server-throughput");
        assert!(
            fit.why.contains("qemu-system-x86 runs too") && fit.why.contains("3 % of memory: not vm-host"),
            "{}",
            fit.why
        );
        // Guests that hold most of the memory make it a VM host; a database that holds more decides.
        tree.process(8, "qemu-system-x86", 4_000_000, 0);
        assert_eq!(tree.recommended().profile, "vm-host");
        for pid in 100..110 {
            // Each backend maps the same shared buffers.
            tree.process(pid, "postgres", 10_000, 5_000_000);
        }
        let fit = tree.recommended();
        assert_eq!(fit.profile, "db-postgresql");
        assert!(fit.why.contains("51 % of memory"), "{}", fit.why);
    }

    #[test]
    fn a_database_that_idles_is_not_what_the_machine_is_for() {
        let tree = Tree::new();
        tree.process(7, "postgres", 20_000, 20_000);
        tree.process(9, "nfsd", 0, 0);
        assert_eq!(tree.recommended().profile, "storage-server");
    }
}
