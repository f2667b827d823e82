//! Tests that values which the kernel would refuse are refused before any change, and that changes which could lock
//! somebody out need confirmation.

use crate::cage::{in_cage, sysctl};
use serde_json::Value;
use std::fs;

/// Returns the first line of the plan of a change in a dry run.
fn planned(cage: &crate::cage::Cage, change: &str) -> Value {
    cage.json(&["set", "--dry-run", change])["lines"][0].clone()
}

#[test]
fn a_dry_run_refuses_what_the_kernel_refuses() {
    in_cage(|cage| {
        for (change, words) in [
            ("net.ipv4.tcp_congestion_control=wsl", "this kernel has no wsl; it has"),
            ("clock.source=wsl", "this kernel has no wsl; it has"),
            ("vm.swappiness=201", "201 is above 200"),
            ("vm.dirty_expire_centisecs=99999999999", "above 2147483647"),
            ("vm.dirty_bytes=1", "1 is below 8192"),
            ("irq.default_affinity=ffffffff,ffffffff,ffffffff", "there is no CPU"),
            ("net.ipv4.ip_local_port_range=3000 2000", "in ascending order"),
        ] {
            let out = cage.expect(2, &["set", "--dry-run", change]);
            assert!(out.contains(words), "{change}: {out}");
        }
    });
}

/// Checks every limit of the catalogue for whole numbers against the kernel's, for settings of each network namespace.
#[test]
fn the_catalogue_has_the_kernels_ranges() {
    in_cage(|cage| {
        let mut tried = 0;
        for tunable in cage.json(&["list"]).as_array().expect("a list") {
            let name = tunable["name"].as_str().expect("a name");
            let here = tunable["here"][0]["value"].as_str();
            let (Some(now), Some(values)) = (here, tunable["values"].as_str()) else { continue };
            if tunable["scope"] != "netns" || tunable["access"] != "sysctl" {
                continue;
            }
            let range = values.rsplit(" x ").next().unwrap_or(values).split(' ').next().unwrap_or_default();
            let Some((low, high)) = range.split_once("..") else { continue };
            let (low, high) = (low.parse::<i64>().expect("a number"), high.parse::<i64>().ok());
            let words = now.split(' ').count();
            let file = format!("/proc/sys/{}", name.replace('.', "/"));
            let is_taken = |number: i64| fs::write(&file, vec![number.to_string(); words].join(" ")).is_ok();
            // The kernel must accept both limits of the catalogue, but newer kernels accept more modes than this one
            // may.
            let bounds = [Some(low), high.filter(|_| name != "net.ipv4.tcp_ecn")];
            for number in
                bounds.into_iter().flatten().filter(|_| !name.ends_with("_mem") && !name.contains("port_range"))
            {
                assert!(is_taken(number), "{name}: the kernel refuses {number}");
                tried += 1;
            }
            fs::write(&file, now).unwrap();
        }
        assert!(tried > 30, "{tried}");
    });
}

#[test]
fn what_can_stall_the_machine_and_what_lowers_a_limit_has_to_be_confirmed() {
    in_cage(|cage| {
        for (change, confirm, lowers) in [
            ("vm.min_free_kbytes=123456", true, false),
            ("vm.overcommit_memory=2", true, false),
            ("kernel.core_uses_pid=1", true, false),
            ("vm.swappiness=11", false, false),
            ("fs.file-max=77777", true, true),
            ("net.core.somaxconn=100", true, true),
        ] {
            let line = planned(cage, change);
            assert_eq!((&line["confirm"], &line["lowers"]), (&confirm.into(), &lowers.into()), "{line}");
        }
        let raised = sysctl("net.core.somaxconn").parse::<u32>().unwrap() + 1;
        let line = planned(cage, &format!("net.core.somaxconn={raised}"));
        assert_eq!((&line["confirm"], &line["lowers"]), (&true.into(), &false.into()), "of the network: {line}");
        let before = sysctl("net.core.somaxconn");
        let out = cage.expect(0, &["set", "net.core.somaxconn=100"]);
        assert!(out.contains(&format!("{before} → 100")) && out.contains("lowers the limit"), "{out}");
        assert!(out.contains("unless confirmed with 'whyslow tune confirm'"), "{out}");
        cage.expect(0, &["undo"]);
        assert_eq!(sysctl("net.core.somaxconn"), before);
    });
}

#[test]
fn a_setting_without_a_value_to_read_says_so() {
    in_cage(|cage| {
        for args in [&["get", "vm.drop_caches"][..], &["set", "vm.drop_caches=1"]] {
            let out = cage.expect(2, args);
            assert!(out.contains("write-only") && !out.contains("run as root"), "{args:?}: {out}");
        }
        let out = cage.run(&["show", "vm.drop_caches"]);
        let out = String::from_utf8(out.stdout).unwrap() + &String::from_utf8(out.stderr).unwrap();
        assert!(out.contains("write-only") && !out.contains("run as root"), "{out}");
        let out = cage.expect(2, &["set", "--yes", "kernel.ostype=x"]);
        assert!(out.contains("read-only") && !out.contains("run as root"), "{out}");
    });
}
