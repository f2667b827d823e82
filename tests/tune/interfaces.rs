//! Tests of settings of network interfaces: made and undone.

use crate::cage::{in_cage, tool};
use std::fs;
use std::process::Command;

#[test]
fn an_interface_is_guarded_and_comes_back() {
    in_cage(|cage| {
        tool("ip", &["link", "add", "wsl-a", "mtu", "1500", "type", "veth", "peer", "name", "wsl-b"]);
        let mtu = || fs::read_to_string("/sys/class/net/wsl-a/mtu").unwrap().trim().to_owned();
        cage.expect(1, &["set", "interface.mtu@wsl-a=9000"]);
        let out = cage.expect(0, &["set", "interface.mtu@wsl-a=9000", "nic.offload.gso@wsl-a=off", "--yes"]);
        assert!(out.contains("rolled back at "), "{out}");
        assert_eq!(mtu(), "9000");
        assert_eq!(cage.expect(0, &["get", "nic.offload.gso@wsl-a"]), "0\n");
        cage.expect(0, &["undo"]);
        assert_eq!((mtu().as_str(), cage.expect(0, &["get", "nic.offload.gso@wsl-a"]).as_str()), ("1500", "1\n"));
        // A new interface with the same name is not the changed one.
        cage.expect(0, &["set", "interface.tx_queue_len@wsl-a=77", "--no-confirm"]);
        tool("ip", &["link", "del", "wsl-a"]);
        tool("ip", &["link", "add", "wsl-a", "txqueuelen", "77", "type", "veth", "peer", "name", "wsl-b"]);
        assert!(cage.expect(0, &["undo"]).contains("a different interface"));
        assert_eq!(cage.expect(0, &["get", "interface.tx_queue_len@wsl-a"]), "77\n");
    });
}

#[test]
fn what_a_card_can_do_is_set_one_by_one() {
    in_cage(|cage| {
        tool("ip", &["link", "add", "wsl-f", "type", "veth", "peer", "name", "wsl-g"]);
        let names =
            ["rx_vlan", "tx_vlan", "scatter_gather", "tso", "gso"].map(|name| format!("nic.offload.{name}@wsl-f"));
        let get: Vec<&str> = ["get"].into_iter().chain(names.iter().map(String::as_str)).collect();
        let before = cage.expect(0, &get);
        assert!(before.lines().all(|line| line.ends_with("=1")), "{before}");
        cage.expect(0, &["set", "nic.offload.rx_vlan@wsl-f=off", "nic.offload.scatter_gather@wsl-f=off", "--yes"]);
        let now: Vec<bool> = cage.expect(0, &get).lines().map(|line| line.ends_with("=1")).collect();
        // The other flag in the same word stays; features that need scatter-gather are switched off with it.
        assert_eq!(now, [false, true, false, false, false]);
        cage.expect(0, &["undo"]);
        assert_eq!(cage.expect(0, &get), before);
        let out = cage.expect(2, &["set", "nic.channels.rx@wsl-f=100000", "--yes"]);
        assert!(out.contains("wsl-f takes ") && out.contains(" at most"), "{out}");
    });
}

#[test]
fn a_queueing_discipline_is_ours_or_left_alone() {
    in_cage(|cage| {
        tool("ip", &["link", "add", "wsl-q", "type", "veth", "peer", "name", "wsl-r"]);
        tool("ip", &["link", "set", "wsl-q", "up"]);
        let name = "interface.qdisc@wsl-q";
        assert_eq!(cage.expect(0, &["get", name]), "default\n");
        cage.expect(0, &["set", &format!("{name}=pfifo"), "--yes"]);
        assert_eq!(cage.expect(0, &["get", name]), "pfifo\n");
        cage.expect(0, &["set", &format!("{name}=bfifo"), "--yes"]);
        cage.expect(0, &["undo", "--all"]);
        assert_eq!(cage.expect(0, &["get", name]), "default\n");
        assert!(cage.expect(1, &["set", &format!("{name}=wsl-nosuch"), "--yes"]).contains("no queueing discipline"));
        assert_eq!(cage.expect(0, &["get", name]), "default\n");
        if Command::new("tc")
            .args(["qdisc", "add", "dev", "wsl-q", "root", "pfifo", "limit", "7"])
            .status()
            .is_ok_and(|s| s.success())
        {
            assert!(cage.expect(2, &["set", &format!("{name}=bfifo"), "--yes"]).contains("could not be restored"));
        }
    });
}

#[test]
fn a_sysfs_of_another_namespace_is_not_written_to() {
    in_cage(|cage| {
        // SAFETY: unshare has no preconditions; it only affects this thread.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0);
        let out = cage.expect(2, &["set", "interface.mtu@lo=1500", "--yes"]);
        assert!(out.contains("another network namespace"), "{out}");
    });
}
