//! Helpers shared by the tests of this crate. A test that cannot run here calls [`skip`] and returns.

#[path = "../../../tests/skip/mod.rs"]
mod skip;

pub(crate) use skip::{has_program, is_root, skip, skip_unless_ci};

use crate::Root;
use crate::source::Source;
use crate::source_error::SourceError;
use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestRunner};
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::{NamedTempFile, TempDir};
use whyslow_model::snapshot::Snapshot;

/// Whether BPF can be used here; skips if not.
pub(crate) fn has_bpf() -> bool {
    match crate::bpf::check(&Root::live()) {
        Ok(()) => true,
        Err(SourceError::Absent(why)) => {
            skip(&why);
            false
        }
        Err(error) => {
            skip_unless_ci(&format!("{error:?}"));
            false
        }
    }
}

/// Attaches the BPF programs of a source of the live machine. Returns `None` and skips the test if BPF cannot be used here.
pub(crate) fn attached(mut source: Box<dyn Source>) -> Option<Box<dyn Source>> {
    has_bpf().then(|| {
        read(&mut *source);
        source
    })
}

/// Polls until `condition` returns a value, for at most 30 s.
pub(crate) fn wait_for<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(start.elapsed() < Duration::from_secs(30), "timed out waiting until {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Like [`wait_for`], for a condition without a value.
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    wait_for(what, || condition().then_some(()));
}

/// Reads a source of the live machine.
pub(crate) fn read(source: &mut dyn Source) -> Snapshot {
    let mut out = Snapshot::default();
    assert_eq!(source.read(&Root::live(), &mut out), Ok(()), "{}", source.info().name);
    out.sort();
    out
}

/// Positions at which a text is truncated and overwritten, and the text that overwrites it.
#[derive(Clone, Debug)]
pub(crate) struct Damage(prop::sample::Index, prop::sample::Index, String);

pub(crate) fn any_damage() -> impl Strategy<Value = Damage> {
    (any::<prop::sample::Index>(), any::<prop::sample::Index>(), "\\PC{0,4}").prop_map(|(a, b, c)| Damage(a, b, c))
}

impl Damage {
    pub(crate) fn apply(&self, text: &str) -> String {
        let Self(cut, at, piece) = self;
        let mut bytes = text.as_bytes()[..cut.index(text.len() + 1)].to_vec();
        let at = at.index(bytes.len() + 1);
        bytes.splice(at..(at + piece.len()).min(bytes.len()), piece.bytes());
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Checks that `parse` returns for any text, and for `sample` (what the kernel writes) truncated and partly overwritten.
pub(crate) fn never_panics(sample: &str, parse: impl Fn(&str)) {
    let damaged = any_damage().prop_map(|damage| damage.apply(sample));
    let text = prop_oneof![".*", "([ -~]{0,20}[ :\\n\\t]?){0,40}", damaged];
    let outcome = TestRunner::default().run(&text, |text| {
        parse(&text);
        Ok::<(), TestCaseError>(())
    });
    assert_eq!(outcome, Ok(()));
}

/// Like [`never_panics`], for binary formats and files that need not be UTF-8.
pub(crate) fn never_panics_on_bytes(sample: &[u8], parse: impl Fn(&[u8])) {
    let byte = (any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>());
    let damaged = byte.prop_map(|(cut, at, byte)| {
        let mut bytes = sample[..cut.index(sample.len() + 1)].to_vec();
        if !bytes.is_empty() {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes
    });
    let outcome = TestRunner::default().run(&prop_oneof![any::<Vec<u8>>(), damaged], |bytes| {
        parse(&bytes);
        Ok::<(), TestCaseError>(())
    });
    assert_eq!(outcome, Ok(()));
}

/// Has a process reclaim the page cache of its control group. Returns false and skips the test if that is not possible here.
pub(crate) fn reclaim_a_group() -> bool {
    let hierarchies =
        [("/sys/fs/cgroup", "memory.reclaim", "64K"), ("/sys/fs/cgroup/memory", "memory.force_empty", "0")];
    let name = whyslow_testing::name("reclaim");
    let Some((group, file, value)) = hierarchies.iter().find_map(|(hierarchy, file, value)| {
        let group = MemoryGroup::new(&Path::new(hierarchy).join(&name))?;
        group.0.join(file).exists().then_some((group, file, value))
    }) else {
        skip("no control group whose memory can be reclaimed");
        return false;
    };
    let (directory, cached) = (group.0.display(), whyslow_testing::file_in("/var/tmp"));
    let cached = cached.path().display();
    let script = format!(
        "echo $$ > {directory}/cgroup.procs; head -c 1000000 /dev/zero > {cached}; sync; echo {value} > {directory}/{file}"
    );
    // The write fails if not everything can be reclaimed.
    Command::new("sh").args(["-c", &script]).stderr(Stdio::null()).status().unwrap();
    true
}

/// A control group, removed when dropped.
pub(crate) struct MemoryGroup(PathBuf);

impl MemoryGroup {
    fn new(directory: &Path) -> Option<Self> {
        (is_root() && fs::create_dir(directory).is_ok()).then(|| Self(directory.to_owned()))
    }

    /// Creates a group in the hierarchy that limits memory. Returns `None` and skips the test if that is not possible here.
    pub(crate) fn create(name: &str) -> Option<Self> {
        let name = whyslow_testing::name(name);
        let mut hierarchies = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"].iter().map(Path::new);
        let made = hierarchies.find(|h| h.join("cgroup.procs").exists()).and_then(|h| Self::new(&h.join(&name)));
        if made.is_none() {
            skip("no control group can be made");
        }
        made
    }

    /// Starts a shell command in the group.
    pub(crate) fn spawn(&self, command: &str) -> Reaped {
        Reaped::shell(&format!("echo $$ > {}/cgroup.procs; {command}", self.0.display()))
    }

    pub(crate) fn name(&self) -> &str {
        self.0.file_name().and_then(|name| name.to_str()).unwrap()
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        wait_until("the group is removed", || fs::remove_dir(&self.0).is_ok());
    }
}

/// A captured tree, removed when dropped.
pub(crate) struct CapturedTree(TempDir);

impl CapturedTree {
    /// Creates a tree of these files, given as path relative to the root and content.
    pub(crate) fn with_files(files: &[(&str, &str)]) -> Self {
        let tree = Self(whyslow_testing::folder());
        for (path, text) in files {
            tree.write(path, text);
        }
        tree
    }

    /// Creates a tree from a text in the format of tests/fixtures/machine.txt.
    pub(crate) fn of_text(text: &str) -> Self {
        let tree = Self::with_files(&Self::files_in(text).collect::<Vec<_>>());
        let links = text.split("\n-> ").skip(1).filter_map(|link| link.split_once('\n'));
        links.for_each(|(path, rest)| tree.link(path, rest.lines().next().unwrap()));
        tree
    }

    /// Splits a text in this format into files: path and content.
    pub(crate) fn files_in(text: &str) -> impl Iterator<Item = (&str, &str)> {
        let files = text.split("\n== ").skip(1).filter_map(|file| file.split_once('\n'));
        files.map(|(path, rest)| (path, rest.split("\n-> ").next().unwrap()))
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        fs::write(self.with_parents(path), text).unwrap();
    }

    /// Creates a symbolic link, replacing an older one; its target need not exist.
    pub(crate) fn link(&self, path: &str, to: &str) {
        let path = self.with_parents(path);
        let _ = fs::remove_file(&path);
        symlink(to, path).unwrap();
    }

    pub(crate) fn remove(&self, path: &str) {
        let path = self.path().join(path);
        if path.is_dir() { fs::remove_dir_all(path).unwrap() } else { fs::remove_file(path).unwrap() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn root(&self) -> Root {
        Root::captured(self.path())
    }

    /// Reads `source` from the tree.
    pub(crate) fn read(&self, source: &mut dyn Source) -> (Result<(), SourceError>, Snapshot) {
        let mut out = Snapshot::default();
        let outcome = source.read(&self.root(), &mut out);
        out.sort();
        (outcome, out)
    }

    fn with_parents(&self, path: &str) -> PathBuf {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    }
}

/// A child process, killed and waited for when dropped.
pub(crate) struct Reaped(pub(crate) Child);

impl Reaped {
    pub(crate) fn spawn(command: &mut Command) -> Self {
        Self(whyslow_testing::ends_with_test(command).spawn().unwrap())
    }

    pub(crate) fn shell(script: &str) -> Self {
        Self::spawn(Command::new("sh").args(["-c", script]).stdout(Stdio::null()).stderr(Stdio::null()))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn signal(&self, number: i32) {
        // SAFETY: kill(2) touches no memory of ours; the child is ours and has not been waited for.
        assert_eq!(unsafe { libc::kill(self.pid() as i32, number) }, 0);
    }

    /// Waits until /proc/PID/stat shows this state.
    pub(crate) fn wait_for_state(&self, state: char) {
        wait_until_state(&format!("/proc/{}", self.pid()), state);
    }
}

impl Drop for Reaped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the ID of the calling thread.
pub(crate) fn own_tid() -> u32 {
    // SAFETY: gettid(2) takes nothing and always succeeds.
    unsafe { libc::gettid() }.cast_unsigned()
}

/// Waits until the stat file in this directory of a process or thread shows this state.
pub(crate) fn wait_until_state(directory: &str, state: char) {
    wait_until(&format!("{directory} is in state {state}"), || {
        let stat = fs::read_to_string(format!("{directory}/stat")).unwrap_or_default();
        stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with(state))
    });
}

/// A loop device on a file in `directory`, removed when dropped.
pub(crate) struct LoopDevice {
    pub(crate) node: String,
    _device: whyslow_testing::LoopDevice,
    _file: NamedTempFile,
}

impl LoopDevice {
    /// Returns `None` if there are no loop devices or the test may not set one up.
    pub(crate) fn new(directory: &str, size: u64) -> Option<Self> {
        if !is_root() {
            return None;
        }
        let file = whyslow_testing::file_in(directory);
        file.as_file().set_len(size).unwrap();
        match whyslow_testing::LoopDevice::on(file.path(), false) {
            Ok(device) => Some(Self { node: device.node(), _device: device, _file: file }),
            Err(error) => {
                skip(&format!("no loop device: {error}"));
                None
            }
        }
    }

    pub(crate) fn name(&self) -> &str {
        self.node.trim_start_matches("/dev/")
    }

    /// Opens the device with O_DIRECT, so that each call is a request.
    pub(crate) fn open_direct(&self) -> File {
        use std::os::unix::fs::OpenOptionsExt;
        fs::OpenOptions::new().read(true).write(true).custom_flags(libc::O_DIRECT).open(&self.node).unwrap()
    }
}

/// Runs a command and returns whether it succeeded.
pub(crate) fn run(command: &str) -> bool {
    let mut words = command.split(' ');
    Command::new(words.next().unwrap()).args(words).output().is_ok_and(|output| output.status.success())
}

/// Two namespaces joined by a veth pair, `a` at 10.203.0.1 and `b` at 10.203.0.2; gone when dropped.
pub(crate) struct NetnsPair {
    pub(crate) a: String,
    pub(crate) b: String,
}

impl NetnsPair {
    /// Returns `None` and skips the test if not root.
    pub(crate) fn new() -> Option<Self> {
        if !is_root() {
            return None;
        }
        let pair = Self { a: whyslow_testing::name("net-a"), b: whyslow_testing::name("net-b") };
        let (a, b) = (&pair.a, &pair.b);
        for command in [
            format!("ip netns add {a}"),
            format!("ip netns add {b}"),
            format!("ip -n {a} link add veth0 type veth peer name veth0 netns {b}"),
            format!("ip -n {a} addr add 10.203.0.1/24 dev veth0"),
            format!("ip -n {b} addr add 10.203.0.2/24 dev veth0"),
            format!("ip -n {a} link set lo up"),
            format!("ip -n {a} link set veth0 up"),
            format!("ip -n {b} link set veth0 up"),
        ] {
            assert!(run(&command), "{command}");
        }
        Some(pair)
    }
}

impl Drop for NetnsPair {
    fn drop(&mut self) {
        run(&format!("ip netns del {}", self.a));
        run(&format!("ip netns del {}", self.b));
    }
}

/// Runs `work` in a namespace.
pub(crate) fn within<T: Send>(namespace: &str, work: impl FnOnce() -> T + Send) -> T {
    let file = File::open(format!("/run/netns/{namespace}")).unwrap();
    let enter = || {
        // SAFETY: a system call that takes no pointer; `file` is open.
        assert_eq!(unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) }, 0);
        work()
    };
    thread::scope(|scope| scope.spawn(enter).join().unwrap())
}

static CROWD: RwLock<()> = RwLock::new(());

/// Takes the lock for the test that starts thousands of threads, which overflow the maps of BPF programs that follow threads.
pub(crate) fn crowd() -> RwLockWriteGuard<'static, ()> {
    CROWD.write().unwrap_or_else(PoisonError::into_inner)
}

/// Takes the lock for the tests that such a crowd would disturb.
pub(crate) fn no_crowd() -> RwLockReadGuard<'static, ()> {
    CROWD.read().unwrap_or_else(PoisonError::into_inner)
}
