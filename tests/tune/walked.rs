//! Tests which finding `whyslow try --auto` works on.

use crate::cage::in_cage;
use crate::group::Group;
use crate::load::Load;
use crate::trial::{verdict, whyslow};

#[test]
fn the_finding_that_is_named_is_walked() {
    in_cage(|cage| {
        let groups = [Group::new(cage, "cpu"), Group::new(cage, "cpu")];
        let [Some(one), Some(other)] = groups else { return };
        let load = |group: &Group| {
            group.write("cpu.cfs_quota_us", "5000");
            Load::shell(&group.joined("while :; do :; done"))
        };
        let _loads = [load(&one), load(&other)];
        // Enough time to watch, but none to try anything.
        let walk = |finding: &str| {
            whyslow(cage, &["--json", "--yes", "--auto", "--budget", "2s", "--finding", finding]).output().unwrap()
        };
        for group in [&one, &other] {
            let walk = verdict(&walk(&format!("cpu.throttled@{}", group.name())));
            assert_eq!(walk["subject"]["name"], group.name(), "{walk}");
        }
        let out = walk("cpu.throttled@/wsl-nosuch");
        assert_eq!(out.status.code(), Some(1));
        let stderr = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(
            stderr.contains("cpu.throttled@/wsl-nosuch was not found, but ") && stderr.contains(&one.name()),
            "{stderr}"
        );
    });
}
