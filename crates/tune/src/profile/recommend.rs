//! Which profile fits a machine, by what it is and what runs on it.

use super::compute;
use crate::machine::Machine;
use whyslow_model::tune::Recommendation;

/// Programs that a machine is taken to be there for, and the profile for it.
const ROLES: [(&[&str], &str, &str); 5] = [
    (&["postgres", "postmaster"], "db-postgresql", "PostgreSQL runs here"),
    (&["mysqld", "mariadbd"], "db-mysql", "MySQL or MariaDB runs here"),
    (&["oracle", "ora_pmon*", "tnslsnr"], "db-oracle", "Oracle runs here"),
    (&["nfsd", "smbd", "glusterfsd", "ceph-osd"], "storage-server", "a file or object server runs here"),
    (&["qemu-system-*", "qemu-kvm", "libvirtd", "virtqemud"], "vm-host", "virtual machines run here"),
];

/// The profiles that fit, the best first, each with the reason.
pub fn recommend(machine: &Machine) -> Vec<Recommendation> {
    let root = machine.root();
    let mut fits: Vec<Recommendation> = Vec::new();
    for (programs, profile, why) in ROLES {
        let found = compute::running(root, programs);
        if let Some(first) = found.first() {
            let name = root.word(&format!("proc/{first}/comm")).unwrap_or_default();
            fits.push(fit(profile, format!("{why} ({name}, process {first})")));
        }
    }
    if compute::is_guest(machine) {
        fits.push(fit("vm-guest", "this is a virtual machine: its disks and clock are the host's".into()));
    }
    fits.push(fit("server-throughput", "nothing speaks for another: throughput suits most servers".into()));
    fits
}

fn fit(profile: &str, why: String) -> Recommendation {
    Recommendation { profile: profile.to_owned(), why }
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_sense::Root;

    #[test]
    fn what_runs_decides() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("proc/42")).unwrap();
        std::fs::write(folder.path().join("proc/42/comm"), "mysqld\n").unwrap();
        std::fs::write(folder.path().join("proc/cpuinfo"), "flags : fpu hypervisor sse\n").unwrap();
        let fits = recommend(&Machine::at(Root::captured(folder.path())));
        let names: Vec<&str> = fits.iter().map(|fit| fit.profile.as_str()).collect();
        assert_eq!(names, ["db-mysql", "vm-guest", "server-throughput"]);
        assert!(fits[0].why.contains("process 42"), "{}", fits[0].why);
    }
}
