//! Tests of what `make install` and the packages contain, and that the parts fit together.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// Stages everything that belongs to whyslow below a folder.
fn staged(prefix: &str) -> tempfile::TempDir {
    let folder = whyslow_testing::folder();
    let program = env!("CARGO_BIN_EXE_whyslow");
    let status = Command::new(root().join("packaging/stage.sh"))
        .args(["whyslow", program, program, prefix])
        .arg(folder.path())
        .status()
        .expect("stage.sh runs");
    assert!(status.success());
    folder
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn every_command_has_a_manual_page_and_the_services_name_pages_that_exist() {
    let installed = staged("/usr");
    let pages = names(&installed.path().join("usr/share/man/man1"));
    for page in ["whyslow.1", "whyslow-record.1", "whyslow-tune-set.1", "whyslow-bench-net-serve.1"] {
        assert!(pages.contains(page), "{page}: {pages:?}");
    }
    let units = installed.path().join("usr/lib/systemd/system");
    for unit in names(&units) {
        let text = fs::read_to_string(units.join(&unit)).unwrap();
        let manual = text.lines().find_map(|line| line.strip_prefix("Documentation=man:")).expect("a manual page");
        let page = manual.replace("(1)", ".1");
        assert!(pages.contains(&page), "{unit}: {page}");
        assert!(text.contains("\nExecStart=/usr/bin/whyslow "), "{unit}: {text}");
    }
}

#[test]
fn settings_are_installed_once_and_those_with_credentials_are_private() {
    use std::os::unix::fs::PermissionsExt;
    let installed = staged("/usr/local");
    let settings = installed.path().join("etc/default");
    assert_eq!(names(&settings), ["whyslow-exporter", "whyslow-ship"].map(String::from).into());
    let mode = |name: &str| fs::metadata(settings.join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("whyslow-exporter"), mode("whyslow-ship")), (0o644, 0o600));
    let unit = installed.path().join("usr/local/lib/systemd/system/whyslow-record.service");
    assert!(fs::read_to_string(unit).unwrap().contains("ExecStart=/usr/local/bin/whyslow record"));
}

#[test]
fn nothing_is_written_to_etc_for_a_prefix_of_a_user() {
    let installed = staged("/home/user/.local");
    assert_eq!(names(installed.path()), ["home".to_owned()].into());
}

#[test]
fn every_service_belongs_to_a_package() {
    let list = fs::read_to_string(root().join("packaging/stage.sh")).unwrap();
    for unit in names(&root().join("systemd")) {
        let service = unit.strip_suffix(".service").expect("a service");
        assert!(list.contains(service), "{unit}");
    }
}

#[test]
fn what_was_installed_is_uninstalled() {
    let installed = staged("/usr/local");
    let uninstall = root().join("packaging/uninstall.sh");
    let status = Command::new(uninstall).args(["whyslow", "/usr/local"]).arg(installed.path()).status().unwrap();
    assert!(status.success());
    let left = Command::new("find").arg(installed.path().join("usr")).args(["-type", "f"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&left.stdout), "");
}

/// Returns the settings of a service, without comments.
fn settings_of(unit: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join("systemd").join(unit)).unwrap();
    text.lines().filter(|line| line.contains('=') && !line.starts_with('#')).map(str::to_owned).collect()
}

#[test]
fn no_service_has_more_privileges_than_are_listed() {
    for unit in names(&root().join("systemd")) {
        let settings = settings_of(&unit);
        let capabilities =
            settings.iter().find_map(|line| line.strip_prefix("CapabilityBoundingSet=")).expect("a list");
        assert!(
            !capabilities.starts_with('~'),
            "{unit}: a list of what is withheld has what is added to the kernel later"
        );
        for must in [
            "NoNewPrivileges=yes",
            "ProtectClock=yes",
            "MemoryDenyWriteExecute=yes",
            "LockPersonality=yes",
            "UMask=0077",
        ] {
            assert!(settings.iter().any(|line| line == must), "{unit}: {must}");
        }
        let namespaces = settings.iter().find_map(|line| line.strip_prefix("RestrictNamespaces="));
        assert!(namespaces.is_some_and(|may| ["yes", "net"].contains(&may)), "{unit}: {namespaces:?}");
    }
}

#[test]
fn what_has_to_see_the_machines_file_systems_has_no_view_of_its_own_of_them() {
    const OWN_VIEW: [&str; 11] = [
        "ProtectSystem",
        "ProtectHome",
        "PrivateTmp",
        "PrivateDevices",
        "PrivateMounts",
        "ProtectKernelTunables",
        "ProtectKernelModules",
        "ProtectKernelLogs",
        "ProtectControlGroups",
        "TemporaryFileSystem",
        "BindReadOnlyPaths",
    ];
    for unit in ["whyslow-record.service", "whyslow-exporter.service", "whyslow-recover.service"] {
        let settings = settings_of(unit);
        let own = settings.iter().find(|line| OWN_VIEW.iter().any(|name| line.starts_with(&format!("{name}="))));
        assert_eq!(own, None, "{unit}");
    }
}

#[test]
fn services_are_as_little_exposed_as_their_work_allows() {
    let most =
        [("record", 4.8), ("exporter", 4.9), ("recover", 3.9), ("ship", 2.2), ("serve", 1.4), ("fleet-compact", 2.2)];
    for (service, most) in most {
        let unit = root().join(format!("systemd/whyslow-{service}.service"));
        let out = Command::new("systemd-analyze").args(["security", "--offline=true", "--no-pager"]).arg(unit).output();
        let Ok(out) = out else {
            eprintln!("skipped: no systemd-analyze");
            return;
        };
        let said = String::from_utf8_lossy(&out.stdout).into_owned();
        let Some((_, rest)) = said.split_once("Overall exposure level for ") else {
            eprintln!("skipped: systemd-analyze cannot do this offline: {}", String::from_utf8_lossy(&out.stderr));
            return;
        };
        let level: f64 = rest.split_whitespace().nth(1).and_then(|level| level.parse().ok()).expect("a number");
        assert!(level <= most, "{service}: {level}");
    }
}
