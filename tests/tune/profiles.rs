//! Tests of profiles: read, applied and undone.

use crate::cage::{Cage, in_cage, sysctl, tool};
use std::fs;

/// Writes a profile to a folder that only the cage sees.
fn profile(cage: &Cage, name: &str, text: &str) {
    let folder = cage.path("profiles");
    fs::create_dir_all(folder.join(name)).unwrap();
    fs::write(folder.join(name).join("tuned.conf"), text).unwrap();
}

/// Mounts the cage's profiles at the place of the machine's own.
pub fn mounted(cage: &Cage) {
    let place = "/etc/whyslow";
    if !fs::exists(place).unwrap() {
        // The test must not create a folder on the machine: it uses an overlay over /etc/opt.
        tool(
            "mount",
            &[
                "-t",
                "overlay",
                "-o",
                &format!("lowerdir=/etc,upperdir={0}/up,workdir={0}/work", cage.path("over").display()),
                "wsl-tune-etc",
                "/etc",
            ],
        );
    }
    fs::create_dir_all(format!("{place}/profiles")).unwrap();
    tool("mount", &["--bind", cage.path("profiles").to_str().unwrap(), &format!("{place}/profiles")]);
}

fn overlay(cage: &Cage) {
    for folder in ["over/up", "over/work"] {
        fs::create_dir_all(cage.path(folder)).unwrap();
    }
}

#[test]
fn a_profile_of_tuned_is_honoured() {
    in_cage(|cage| {
        overlay(cage);
        profile(
            cage,
            "wsl-base",
            "[main]\nsummary=base\n[sysctl]\nnet.core.somaxconn=>100\nnet.ipv4.tcp_fin_timeout=33\n",
        );
        profile(
            cage,
            "wsl-child",
            "[main]\nsummary=child\ninclude=wsl-base,-wsl-nosuch\n[variables]\nprobes=${f:strip: 7 }\n[sysctl]\n# few are enough\nnet.ipv4.tcp_keepalive_probes=${probes}\nnet.ipv4.nosuch_sysctl=1\n[bootloader]\ncmdline=+skew_tick=1\n[script]\nscript=x.sh\n[variables]\nx=${f:exec:id}\n",
        );
        mounted(cage);
        let before = sysctl("net.ipv4.tcp_fin_timeout");
        let out = cage.expect(0, &["diff", "wsl-child"]);
        for words in [
            "tcp_keepalive_probes 9 → 7",
            "few are enough",
            "unsupported here",
            "boot loader",
            "run it yourself",
            "--allow-commands",
        ] {
            assert!(out.contains(words), "{words}: {out}");
        }
        cage.expect(0, &["apply", "wsl-child", "--yes"]);
        assert_eq!(
            (sysctl("net.ipv4.tcp_keepalive_probes").as_str(), sysctl("net.ipv4.tcp_fin_timeout").as_str()),
            ("7", "33")
        );
        // 4096 already exceeds 100.
        assert_eq!(sysctl("net.core.somaxconn"), "4096");
        cage.expect(0, &["verify", "wsl-child"]);
        fs::write("/proc/sys/net/ipv4/tcp_fin_timeout", "34").unwrap();
        cage.expect(1, &["verify", "wsl-child"]);
        fs::write("/proc/sys/net/ipv4/tcp_fin_timeout", "33").unwrap();
        cage.expect(0, &["undo"]);
        assert_eq!((sysctl("net.ipv4.tcp_keepalive_probes"), sysctl("net.ipv4.tcp_fin_timeout")), ("9".into(), before));
        let flat = String::from_utf8(cage.run(&["import", "wsl-child"]).stdout).unwrap();
        assert!(
            flat.contains("# few are enough\nnet.ipv4.tcp_keepalive_probes=7\n") && !flat.contains("include"),
            "{flat}"
        );
    });
}

#[test]
fn every_profile_of_ours_is_understood() {
    in_cage(|cage| {
        let list = cage.json(&["profiles"]);
        let built_in: Vec<&str> = list
            .as_array()
            .unwrap()
            .iter()
            .filter(|info| info["place"].as_str().unwrap().starts_with("built in/"))
            .map(|info| info["name"].as_str().unwrap())
            .collect();
        assert!(built_in.len() >= 10, "{built_in:?}");
        for name in built_in {
            let comes = cage.json(&["diff", name]);
            // The cage has no network card; everything else in the profiles is a setting.
            for note in comes["notes"].as_array().unwrap() {
                assert_eq!(note["why"], "there is no such device", "{name}: {note}");
            }
            for line in comes["lines"].as_array().unwrap() {
                assert!(line["step"]["cannot"].get("failed").is_none(), "{name}: {line}");
                assert!(line["step"]["cannot"].get("not-permitted").is_none(), "{name}: {line}");
            }
        }
    });
}

#[test]
fn what_is_to_be_raised_is_never_lowered() {
    in_cage(|cage| {
        overlay(cage);
        profile(
            cage,
            "wsl-buffers",
            "[main]\nsummary=x\n[sysctl]\nnet.ipv4.tcp_rmem=>4096 131072 131072000\nnet.ipv4.tcp_wmem=>4096 16384 131072000\n",
        );
        mounted(cage);
        // Each value is above, or below, what any profile requests.
        for (name, value) in [
            ("net.ipv4.tcp_rmem", "8192 1048576 536870912"),
            ("net.ipv4.tcp_wmem", "8192 1048576 536870912"),
            ("net.core.somaxconn", "65535"),
            ("net.ipv4.ip_local_port_range", "1024 65535"),
            ("net.ipv4.tcp_notsent_lowat", "65536"),
            ("net.ipv4.tcp_fastopen", "1027"),
            ("net.ipv4.tcp_mtu_probing", "2"),
        ] {
            fs::write(format!("/proc/sys/{}", name.replace('.', "/")), value).unwrap();
        }
        let changed = |profile: &str| {
            let lines = cage.json(&["diff", profile])["lines"].as_array().unwrap().clone();
            let changes = lines.iter().filter(|line| line["step"].get("change").is_some());
            changes.map(|line| line["target"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        for profile in ["net-throughput", "net-latency", "vlan-1500", "storage-server", "db-oracle"] {
            let changed = changed(profile);
            let lost = changed.iter().find(|name| {
                ["somaxconn", "rmem", "wmem", "local_port", "notsent", "fastopen", "mtu_probing"]
                    .iter()
                    .any(|part| name.starts_with("net.ipv4") && name.contains(part) || name.contains("somaxconn"))
            });
            assert_eq!(lost, None, "{profile}");
        }
        // Each of several numbers is handled separately.
        fs::write("/proc/sys/net/ipv4/tcp_rmem", "4096 1048576 65536000").unwrap();
        fs::write("/proc/sys/net/ipv4/tcp_wmem", "4096 8192 536870912").unwrap();
        cage.expect(0, &["apply", "wsl-buffers", "--no-confirm", "--yes"]);
        assert_eq!(sysctl("net.ipv4.tcp_rmem"), "4096 1048576 131072000");
        assert_eq!(sysctl("net.ipv4.tcp_wmem"), "4096 16384 536870912");
        cage.expect(0, &["undo"]);
        assert_eq!(sysctl("net.ipv4.tcp_rmem"), "4096 1048576 65536000");
    });
}

#[test]
fn a_profile_that_is_not_there_is_named() {
    in_cage(|cage| {
        assert!(cage.expect(2, &["apply", "wsl-nosuch"]).contains("no profile 'wsl-nosuch'"));
        assert!(cage.expect(2, &["apply", "../../etc"]).contains("no profile"));
        let fits = cage.json(&["recommend"]);
        assert_eq!(fits.as_array().unwrap().len(), 1, "{fits}");
        let name = fits[0]["profile"].as_str().unwrap();
        let out = cage.expect(0, &["recommend"]);
        assert!(out.starts_with(&format!("{name}: ")) && out.contains(&format!("whyslow tune apply {name}")), "{out}");
    });
}

#[test]
fn a_hostile_profile_keeps_nobody_waiting_and_shows_no_file() {
    in_cage(|cage| {
        overlay(cage);
        let include = |name: &str, path: &str| {
            profile(
                cage,
                name,
                &format!("[main]\nsummary=x\n[variables]\ninclude={path}\n[sysctl]\nnet.core.somaxconn=5000\n"),
            );
        };
        let secret = cage.path("secret");
        fs::write(&secret, "root:hunter2:1\nhunter2 = x\nkey=hunter2\na-b=hunter2\n").unwrap();
        include("wsl-secret", secret.to_str().unwrap());
        let fifo = cage.path("fifo");
        tool("mkfifo", &[fifo.to_str().unwrap()]);
        include("wsl-fifo", fifo.to_str().unwrap());
        include("wsl-zero", "/dev/zero");
        include("wsl-kmsg", "/proc/kmsg");
        let huge = cage.path("huge");
        fs::File::create(&huge).unwrap().set_len(1 << 40).unwrap();
        include("wsl-huge", huge.to_str().unwrap());
        let many: Vec<String> = (0..70).map(|n| format!("wsl-part-{n}")).collect();
        for name in &many {
            profile(cage, name, "[main]\nsummary=x\n");
        }
        profile(cage, "wsl-many", &format!("[main]\nsummary=x\ninclude={}\n", many.join(",")));
        for n in 0..40 {
            profile(cage, &format!("wsl-{n}"), &format!("[main]\nsummary=x\ninclude=wsl-{}\n", n + 1));
        }
        profile(
            cage,
            "wsl-escape",
            "[main]\nsummary=a\u{1b}[31mb\n[sysctl]\n# c\u{1b}]0;x\u{7}d\nnet.core.somaxconn=5\u{1b}[0m\nnet.ipv4.tcp_fin_timeout=33\n",
        );
        for (name, path) in [("wsl-link", secret), ("wsl-pipe", fifo)] {
            fs::create_dir_all(cage.path("profiles").join(name)).unwrap();
            std::os::unix::fs::symlink(&path, cage.path("profiles").join(name).join("tuned.conf")).unwrap();
        }
        let lines: String = (0..300_000).map(|n| format!("net.ipv4.wsl_{n}=1\n")).collect();
        profile(cage, "wsl-long", &format!("[main]\nsummary=x\n[sysctl]\n{lines}"));
        mounted(cage);
        let start = std::time::Instant::now();
        for (name, words) in [
            ("wsl-secret", "not a file of NAME=VALUE lines"),
            ("wsl-fifo", "not a regular file"),
            ("wsl-zero", "not a regular file"),
            ("wsl-kmsg", "kmsg"),
            ("wsl-huge", "too large"),
        ] {
            let out = joined(&cage.expect(0, &["diff", name]));
            assert!(out.contains(words) && !out.contains("hunter2"), "{name}: {out}");
            assert!(out.contains("5000"), "{name}: {out}");
        }
        for (name, words) in [
            ("wsl-0", "more than 16 deep"),
            ("wsl-many", "more than 64 profiles"),
            ("wsl-link", "line 1"),
            ("wsl-pipe", "not a regular file"),
        ] {
            let out = joined(&cage.expect(2, &["diff", name]));
            assert!(out.contains(words) && !out.contains("hunter2"), "{name}: {out}");
        }
        let out = cage.expect(0, &["import", "wsl-escape"]);
        assert!(!out.chars().any(|c| c.is_control() && c != '\n'), "{out:?}");
        assert!(out.contains("tcp_fin_timeout=33") && out.contains("control characters"), "{out}");
        let out = cage.run(&["import", "wsl-long"]);
        assert_eq!(out.stdout.iter().filter(|b| **b == b'\n').count(), 300_000 + 4);
        assert!(start.elapsed().as_secs() < 60, "{:?}", start.elapsed());
    });
}

/// Returns the text without line breaks.
fn joined(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
