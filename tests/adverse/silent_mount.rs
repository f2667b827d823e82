//! FUSE file system whose program accepts requests and never answers, like one that hangs (include/uapi/linux/fuse.h).

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

const INIT: u32 = 26;
const FORGET: u32 = 2;
/// The kernel sends this when a waiting process is killed.
const INTERRUPT: u32 = 36;
const HEADER: usize = 40;

/// A request that was received: its operation, and the process that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    pub operation: u32,
    pub pid: u32,
}

/// A silent mount in the mount namespace of the thread that creates it.
pub struct SilentMount {
    point: PathBuf,
    requests: Arc<Mutex<Vec<Request>>>,
    ends: Arc<AtomicBool>,
    server: Option<JoinHandle<()>>,
}

impl SilentMount {
    /// Returns `None` if this kernel has no FUSE.
    pub fn new(point: &Path) -> Option<Self> {
        let device = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/fuse").ok()?;
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", device.as_raw_fd());
        let [source, place, kind, options] =
            ["wsl-silent", point.to_str()?, "fuse", &options].map(|t| CString::new(t).unwrap());
        // SAFETY: all are C strings that outlive the call.
        let mounted = unsafe {
            libc::mount(
                source.as_ptr(),
                place.as_ptr(),
                kind.as_ptr(),
                libc::MS_NODEV | libc::MS_NOSUID,
                options.as_ptr().cast(),
            )
        };
        assert_eq!(mounted, 0, "mount: {}", std::io::Error::last_os_error());
        let (requests, ends) = (Arc::<Mutex<Vec<Request>>>::default(), Arc::<AtomicBool>::default());
        let server = {
            let (requests, ends) = (requests.clone(), ends.clone());
            std::thread::spawn(move || serve(device, &requests, &ends))
        };
        Some(Self { point: point.to_owned(), requests, ends, server: Some(server) })
    }

    /// Returns all requests except the kernel's own.
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

impl Drop for SilentMount {
    fn drop(&mut self) {
        let point = CString::new(self.point.to_str().unwrap()).unwrap();
        // Ends all requests with an error, so that processes waiting for them go on.
        // SAFETY: `point` is a C string that outlives the call.
        unsafe { libc::umount2(point.as_ptr(), libc::MNT_FORCE) };
        // SAFETY: as above.
        unsafe { libc::umount2(point.as_ptr(), libc::MNT_DETACH) };
        self.ends.store(true, Ordering::Relaxed);
        if let Some(server) = self.server.take() {
            server.join().unwrap();
        }
    }
}

fn serve(mut device: File, requests: &Mutex<Vec<Request>>, ends: &AtomicBool) {
    let mut buffer = vec![0; 1 << 20];
    while !ends.load(Ordering::Relaxed) {
        let mut poll = libc::pollfd { fd: device.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: the pointer refers to one pollfd, which matches the count.
        unsafe { libc::poll(&raw mut poll, 1, 20) };
        let Ok(length) = device.read(&mut buffer) else { continue };
        if length < HEADER {
            continue;
        }
        let word = |at: usize| u32::from_ne_bytes(buffer[at..at + 4].try_into().unwrap());
        match word(4) {
            INIT => answer_init(&mut device, &buffer[8..16]),
            FORGET | INTERRUPT => {}
            operation => requests.lock().unwrap().push(Request { operation, pid: word(32) }),
        }
    }
}

/// Answers with struct fuse_out_header and fuse_init_out: version 7.31, one page at a time.
fn answer_init(device: &mut File, unique: &[u8]) {
    const BODY: usize = 64;
    let mut answer = vec![0; 16 + BODY];
    let mut put = |at: usize, word: u32| answer[at..at + 4].copy_from_slice(&word.to_ne_bytes());
    put(0, 16 + BODY as u32);
    put(16, 7);
    put(20, 31);
    put(24, 4096);
    put(36, 4096);
    put(40, 1);
    answer[8..16].copy_from_slice(unique);
    device.write_all(&answer).unwrap();
}
