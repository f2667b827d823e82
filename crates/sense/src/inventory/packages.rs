//! Installed packages: those of dpkg (deb-status(5)), apk and pacman from their files, those of RPM through `rpm`, because only
//! it can read its database.
//!
//! They are read again when the files change.

use super::{Section, Things};
use crate::root::Root;
use crate::source_error::SourceError;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;
use whyslow_model::value::Name;

/// Package database of a distribution.
struct Database {
    /// The first file that exists shows whether the database changed.
    files: &'static [&'static str],
    list: fn(&Root, &mut Things) -> Result<(), SourceError>,
    /// Number of rounds until a changed database is read again.
    pause: u32,
}

const DPKG: &str = "var/lib/dpkg/status";
const APK: [&str; 2] = ["lib/apk/db/installed", "usr/lib/apk/db/installed"];
const PACMAN: &str = "var/lib/pacman/local";
const DATABASES: [Database; 4] = [
    Database { files: &[DPKG], list: list_dpkg, pause: 1 },
    Database { files: &APK, list: list_apk, pause: 1 },
    Database { files: &[PACMAN], list: list_pacman, pause: 1 },
    Database {
        files: &[
            "usr/lib/sysimage/rpm/rpmdb.sqlite",
            "usr/lib/sysimage/rpm/Packages.db",
            "var/lib/rpm/rpmdb.sqlite",
            "var/lib/rpm/Packages.db",
            "var/lib/rpm/Packages",
        ],
        list: list_rpm,
        pause: 10,
    },
];
/// Bytes read at most; larger files are truncated. The file of ten thousand packages has ten megabytes.
const LARGEST: u64 = 64 << 20;
const RPM: &str = "/usr/bin/rpm";
/// Time limit for `rpm`.
const PATIENCE: Duration = Duration::from_secs(30);

/// Detects changes of a file: time, size and inode.
type Stamp = (i64, u64, u64);

#[derive(Default)]
pub(super) struct Packages {
    stamps: [Option<Stamp>; DATABASES.len()],
    /// Rounds since the last attempt to read each database.
    rounds: [Option<u32>; DATABASES.len()],
}

impl Section for Packages {
    fn read(&mut self, root: &Root) -> Result<Option<(Things, Option<i64>)>, SourceError> {
        let stamps = DATABASES.each_ref().map(|database| stamp(root, database.files));
        self.rounds.iter_mut().flatten().for_each(|rounds| *rounds = rounds.saturating_add(1));
        let is_due = |at: usize| {
            stamps[at] != self.stamps[at] && self.rounds[at].is_none_or(|rounds| rounds >= DATABASES[at].pause)
        };
        if !(0..DATABASES.len()).any(is_due) {
            return Ok(None);
        }
        let mut things = Things::default();
        for (at, database) in DATABASES.iter().enumerate().filter(|(at, _)| stamps[*at].is_some()) {
            self.rounds[at] = Some(0);
            (database.list)(root, &mut things)?;
        }
        self.stamps = stamps;
        let changed = stamps.iter().flatten().map(|(time, ..)| *time).max();
        Ok(Some((things, changed)))
    }
}

fn stamp(root: &Root, files: &[&str]) -> Option<Stamp> {
    let metadata = files.iter().find_map(|file| fs::metadata(root.at(file)).ok())?;
    let time = metadata.mtime().checked_mul(1_000_000_000)?.checked_add(metadata.mtime_nsec())?;
    Some((time, metadata.size(), metadata.ino()))
}

fn list_dpkg(root: &Root, things: &mut Things) -> Result<(), SourceError> {
    each_stanza(root, DPKG, ["Package", "Version", "Status"], |[name, version, status]| {
        // `want flag state`: the configuration of a removed package may still be present.
        let state = status.split_whitespace().nth(2).unwrap_or_default();
        if !["", "not-installed", "config-files"].contains(&state) {
            add(things, name, version);
        }
    })
}

fn list_apk(root: &Root, things: &mut Things) -> Result<(), SourceError> {
    let file = APK.into_iter().find(|file| root.at(file).exists()).unwrap_or(APK[0]);
    each_stanza(root, file, ["P", "V"], |[name, version]| add(things, name, version))
}

/// Reads a folder `NAME-VERSION-RELEASE` for each package.
fn list_pacman(root: &Root, things: &mut Things) -> Result<(), SourceError> {
    for folder in root.list(PACMAN) {
        let mut dashes = folder.rmatch_indices('-');
        if let Some((at, _)) = dashes.nth(1) {
            add(things, &folder[..at], &folder[at + 1..]);
        }
    }
    Ok(())
}

/// Reads one package per line, with its version in the format of `rpm -q`; packages of several architectures have the same name.
fn list_rpm(root: &Root, things: &mut Things) -> Result<(), SourceError> {
    root.require_live()?;
    let format = "%{NAME}\\t%|EPOCH?{%{EPOCH}:}|%{VERSION}-%{RELEASE}\\n";
    let mut command = Command::new(RPM);
    command.args(["--query", "--all", "--nodigest", "--nosignature", "--queryformat", format]);
    for line in output(&mut command, PATIENCE)?.lines() {
        // RPM lists signing keys as packages.
        if let Some((name, version)) = line.split_once('\t').filter(|(name, _)| *name != "gpg-pubkey") {
            add(things, name, version);
        }
    }
    Ok(())
}

fn add(things: &mut Things, name: &str, version: &str) {
    if !name.is_empty() && !version.is_empty() {
        things.add(&Name::from("package"), name, version);
    }
}

/// Runs a program and returns its output. Fails if the program fails or takes too long.
fn output(command: &mut Command, patience: Duration) -> Result<String, SourceError> {
    let program = Path::new(command.get_program()).display().to_string();
    let failed = |what: &str| SourceError::Failed(format!("{program} {what}"));
    let child = command.env_clear().stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut child = child.map_err(|error| failed(&format!("cannot be run: {error}")))?;
    let (to_here, printed) = channel();
    let stdout = child.stdout.take();
    let reader = thread::Builder::new().name("packages".into()).spawn(move || {
        let mut text = Vec::new();
        if let Some(stdout) = stdout {
            // A read error needs no handling: the exit status of the program shows failures.
            let _ = stdout.take(LARGEST).read_to_end(&mut text);
        }
        let _ = to_here.send(text);
    });
    let text = reader.ok().and_then(|_| printed.recv_timeout(patience).ok());
    if text.is_none() {
        let _ = child.kill();
    }
    let status = child.wait();
    match text {
        Some(text) if status.is_ok_and(|status| status.success()) => Ok(String::from_utf8_lossy(&text).into_owned()),
        Some(_) => Err(failed("failed")),
        None => Err(failed(&format!("did not finish within {} s", patience.as_secs()))),
    }
}

/// Calls `each` with these fields of each paragraph of a file that has all but the last of them; the last one is empty if
/// missing.
fn each_stanza<const N: usize>(
    root: &Root,
    path: &str,
    fields: [&str; N],
    each: impl FnMut([&str; N]),
) -> Result<(), SourceError> {
    let file = File::open(root.at(path)).map_err(|error| SourceError::from_io(path, &error))?;
    // Streams the file, because all of dpkg's status file would be megabytes of memory.
    stanzas(BufReader::new(file.take(LARGEST)), fields, each).map_err(|error| SourceError::from_io(path, &error))
}

fn stanzas<const N: usize>(
    mut file: impl BufRead,
    fields: [&str; N],
    mut each: impl FnMut([&str; N]),
) -> std::io::Result<()> {
    let mut values = [const { String::new() }; N];
    let mut line = Vec::new();
    loop {
        line.clear();
        let length = file.read_until(b'\n', &mut line)?;
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end();
        if text.is_empty() {
            if values.iter().any(|value| !value.is_empty()) {
                each(values.each_ref().map(String::as_str));
                values.iter_mut().for_each(String::clear);
            }
            if length == 0 {
                return Ok(());
            }
            continue;
        }
        // Lines that begin with a space continue a field that is not needed.
        if let Some((name, value)) = text.split_once(':')
            && let Some(at) = fields.iter().position(|field| *field == name)
        {
            value.trim().clone_into(&mut values[at]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{CapturedTree, has_program, never_panics, run};
    use std::time::Instant;

    const STATUS: &str = "Package: bash\nEssential: yes\nStatus: install ok installed\nArchitecture: amd64\nVersion: 5.2.15-2+b7\n\
                          Description: GNU Bourne Again SHell\n Version: not this\n .\n\n\
                          Package: libc6\nStatus: install ok unpacked\nArchitecture: amd64\nVersion: 2.36-9\n\n\
                          Package: libc6\nStatus: install ok installed\nArchitecture: i386\nVersion: 2.36-8\n\n\
                          Package: gone\nStatus: deinstall ok config-files\nVersion: 1\n\n\
                          Package: held\nStatus: hold ok installed\nVersion: 7\n";

    fn listed(packages: &mut Packages, tree: &CapturedTree) -> Option<Vec<(String, String)>> {
        let (things, _) = packages.read(&tree.root()).unwrap()?;
        Some(
            things.joined().into_iter().map(|(thing, version)| (thing.name.to_string(), version.to_string())).collect(),
        )
    }

    fn named(pairs: &[(&str, &str)]) -> Option<Vec<(String, String)>> {
        Some(pairs.iter().map(|(name, version)| ((*name).to_owned(), (*version).to_owned())).collect())
    }

    #[test]
    fn packages_of_dpkg_are_read_when_its_file_changes() {
        let tree = CapturedTree::with_files(&[(DPKG, STATUS)]);
        let mut packages = Packages::default();
        let expected = named(&[("bash", "5.2.15-2+b7"), ("held", "7"), ("libc6", "2.36-8, 2.36-9")]);
        assert_eq!(listed(&mut packages, &tree), expected);
        assert_eq!(listed(&mut packages, &tree), None, "not changed");
        tree.write(DPKG, &STATUS.replace("hold ok installed", "deinstall ok not-installed"));
        assert_eq!(listed(&mut packages, &tree), named(&[("bash", "5.2.15-2+b7"), ("libc6", "2.36-8, 2.36-9")]));
    }

    #[test]
    fn packages_of_apk_and_pacman_are_read() {
        let apk = CapturedTree::with_files(&[(
            APK[0],
            "C:Q1x=\nP:musl\nV:1.2.4-r2\nA:x86_64\nF:lib\n\nP:busybox\nV:1.36.1-r5\n\n",
        )]);
        assert_eq!(listed(&mut Packages::default(), &apk), named(&[("busybox", "1.36.1-r5"), ("musl", "1.2.4-r2")]));
        let pacman = CapturedTree::with_files(&[
            ("var/lib/pacman/local/gcc-libs-13.2.1-3/desc", ""),
            ("var/lib/pacman/local/ALPM_DB_VERSION", "9\n"),
        ]);
        assert_eq!(listed(&mut Packages::default(), &pacman), named(&[("gcc-libs", "13.2.1-3")]));
    }

    #[test]
    fn a_machine_without_packages_has_none() {
        assert_eq!(listed(&mut Packages::default(), &CapturedTree::with_files(&[])), None);
    }

    #[test]
    fn no_content_makes_the_reader_panic() {
        never_panics(STATUS, |text| {
            let mut count = 0;
            stanzas(text.as_bytes(), ["Package", "Version", "Status"], |_| count += 1).unwrap();
            assert!(count <= text.matches(':').count(), "each has a field");
        });
    }

    #[test]
    fn a_package_that_dpkg_installs_and_removes_is_seen() {
        if !has_program("dpkg") || !has_program("dpkg-deb") {
            return;
        }
        let tree = CapturedTree::with_files(&[
            (DPKG, ""),
            (
                "package/DEBIAN/control",
                "Package: whyslow-test\nVersion: 1.0-1\nArchitecture: all\nMaintainer: a\nDescription: b\n",
            ),
        ]);
        for folder in ["info", "updates", "triggers"] {
            fs::create_dir(tree.path().join("var/lib/dpkg").join(folder)).unwrap();
        }
        let path = tree.path().display();
        let dpkg = |arguments: &str| {
            let command = format!("dpkg --root={path} --log={path}/log --force-not-root --force-bad-path {arguments}");
            assert!(run(&command), "{command}");
        };
        assert!(run(&format!("dpkg-deb --build {path}/package {path}/test.deb")));
        let mut packages = Packages::default();
        assert_eq!(listed(&mut packages, &tree), named(&[]));
        dpkg(&format!("--install {path}/test.deb"));
        assert_eq!(listed(&mut packages, &tree), named(&[("whyslow-test", "1.0-1")]));
        dpkg("--purge whyslow-test");
        assert_eq!(listed(&mut packages, &tree), named(&[]));
    }

    #[test]
    fn a_program_that_fails_or_hangs_lists_nothing() {
        let shell = |script: &str, patience: Duration| output(Command::new("/bin/sh").args(["-c", script]), patience);
        assert_eq!(shell("echo a; echo b", PATIENCE), Ok("a\nb\n".to_owned()));
        assert_eq!(shell("echo a; exit 3", PATIENCE), Err(SourceError::Failed("/bin/sh failed".into())));
        let begun = Instant::now();
        let hung = shell("exec sleep 60", Duration::from_millis(100));
        assert_eq!(hung, Err(SourceError::Failed("/bin/sh did not finish within 0 s".into())));
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
}
