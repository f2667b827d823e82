//! Bringing what was written to the device, by threads of the kernel's, which leave word (io_submit(2)).
//!
//! Of a tail that is read when there is more to write: waiting for it (fdatasync(2)) takes four wake-ups a second of a recorder
//! that otherwise needs one. The files of a segment, some forty and as many folders, are flushed at once and waited for once:
//! one after the other (fsync(2)) they take hundreds of wake-ups, and the file system a commit each.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// linux/aio_abi.h
const IOCB_CMD_FSYNC: u16 = 2;
const IOCB_CMD_FDSYNC: u16 = 3;

/// Flushes files and folders, and what the file system notes of them, and waits until all are on the device.
///
/// # Errors
/// Those of fsync(2), of any of them.
pub(crate) fn flush_all(files: &[File]) -> io::Result<()> {
    let Ok(context) = Context::new(files.len()) else { return files.iter().try_for_each(File::sync_all) };
    let mut events = Vec::with_capacity(files.len());
    for file in files {
        match context.flush(file, IOCB_CMD_FSYNC) {
            Ok(()) => events.push(Event::default()),
            Err(_) => file.sync_all()?,
        }
    }
    let mut due = events.as_mut_slice();
    while !due.is_empty() {
        let got = context.results(due.len(), due)?;
        due = &mut due[got..];
    }
    events.iter().try_for_each(Event::outcome)
}

/// Flushes files, one after the other.
pub(crate) struct Flusher {
    context: Option<Context>,
    /// Whether word has not come yet of the last one.
    under_way: bool,
}

impl Flusher {
    /// Where the kernel has no asynchronous I/O, or lets us have none, it waits.
    pub(crate) fn new() -> Self {
        Self { context: Context::new(1).ok(), under_way: false }
    }

    /// Begins to flush a file; nothing else may be under way.
    ///
    /// # Errors
    /// Those of fdatasync(2), where it had to wait for it.
    pub(crate) fn begin(&mut self, file: &File) -> io::Result<()> {
        match &self.context {
            Some(context) if context.flush(file, IOCB_CMD_FDSYNC).is_ok() => {
                self.under_way = true;
                Ok(())
            }
            _ => file.sync_data(),
        }
    }

    /// Whether one is still under way.
    ///
    /// # Errors
    /// What went wrong with it.
    pub(crate) fn is_under_way(&mut self) -> io::Result<bool> {
        self.reap(0)
    }

    /// Waits for it.
    ///
    /// # Errors
    /// What went wrong with it.
    pub(crate) fn wait(&mut self) -> io::Result<()> {
        self.reap(1).map(drop)
    }

    /// Takes word of it, waiting until there are so many words.
    fn reap(&mut self, words: usize) -> io::Result<bool> {
        let Some(context) = self.context.as_ref().filter(|_| self.under_way) else { return Ok(false) };
        let mut event = [Event::default()];
        if context.results(words, &mut event)? == 0 {
            return Ok(true);
        }
        self.under_way = false;
        event[0].outcome().map(|()| false)
    }
}

/// Room in the kernel for what is under way (io_setup(2)).
struct Context(u64);

impl Context {
    /// For so many at once.
    fn new(most: usize) -> io::Result<Self> {
        let mut context = 0_u64;
        // SAFETY: io_setup(2) writes a number the size of a pointer, no larger than `context`, which outlives the call.
        checked(unsafe { libc::syscall(libc::SYS_io_setup, most as libc::c_long, &raw mut context) })?;
        Ok(Self(context))
    }

    fn flush(&self, file: &File, command: u16) -> io::Result<()> {
        let block = ControlBlock {
            command,
            file: u32::try_from(file.as_raw_fd()).unwrap_or(u32::MAX),
            ..ControlBlock::default()
        };
        let blocks = [&raw const block];
        // SAFETY: one pointer to one control block, both of which outlive the call; the kernel copies what it needs, and keeps
        // the file open by itself.
        checked(unsafe { libc::syscall(libc::SYS_io_submit, self.0, 1 as libc::c_long, blocks.as_ptr()) }).map(drop)
    }

    /// Takes word of what is done, once there are `at_least` so many words, and as many as there is room for; how many came.
    fn results(&self, at_least: usize, events: &mut [Event]) -> io::Result<usize> {
        let (least, most) = (at_least as libc::c_long, events.len() as libc::c_long);
        let timeout: *const libc::timespec = std::ptr::null();
        let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let timeout = if at_least == 0 { &raw const none } else { timeout };
        loop {
            // SAFETY: there is room for so many events, and the time, where there is one, outlives the call.
            let got =
                unsafe { libc::syscall(libc::SYS_io_getevents, self.0, least, most, events.as_mut_ptr(), timeout) };
            match checked(got) {
                Ok(got) => return Ok(usize::try_from(got).unwrap_or(0)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: takes the number that io_setup gave, and nobody uses it after this.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.0) };
    }
}

fn checked(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// `struct iocb` of linux/aio_abi.h, its unused fields put together: all of them are zero.
#[repr(C)]
#[derive(Default)]
struct ControlBlock {
    data: u64,
    key_and_flags: u64,
    command: u16,
    priority: u16,
    file: u32,
    rest: [u64; 5],
}

/// `struct io_event` of linux/aio_abi.h.
#[repr(C)]
#[derive(Default)]
struct Event {
    data: u64,
    block: u64,
    result: i64,
    result_too: i64,
}

impl Event {
    fn outcome(&self) -> io::Result<()> {
        if self.result < 0 {
            return Err(io::Error::from_raw_os_error(i32::try_from(-self.result).unwrap_or(libc::EIO)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn files_and_folders_are_flushed_together() {
        flush_all(&[]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = |n: u32| {
            let mut file = File::create(folder.path().join(n.to_string())).unwrap();
            file.write_all(b"rows").unwrap();
            file
        };
        let mut all: Vec<File> = (0..100).map(file).collect();
        all.push(File::open(folder.path()).unwrap());
        flush_all(&all).unwrap();
        // One that cannot be flushed is told, whatever became of the others.
        let (_, pipe) = std::io::pipe().unwrap();
        all.insert(50, File::from(std::os::fd::OwnedFd::from(pipe)));
        assert!(flush_all(&all).is_err());
    }

    #[test]
    fn a_flush_is_begun_and_word_comes_of_it() {
        assert_eq!((size_of::<ControlBlock>(), size_of::<Event>()), (64, 32), "as in linux/aio_abi.h");
        let mut file = tempfile::tempfile().unwrap();
        for mut flusher in [Flusher::new(), Flusher { context: None, under_way: false }] {
            for _ in 0..3 {
                file.write_all(b"sample").unwrap();
                flusher.begin(&file).unwrap();
                flusher.wait().unwrap();
                assert!(!flusher.is_under_way().unwrap());
            }
        }
    }

    #[test]
    fn what_cannot_be_flushed_is_said() {
        let (_, pipe) = std::io::pipe().unwrap();
        let pipe = File::from(std::os::fd::OwnedFd::from(pipe));
        assert!(Flusher::new().begin(&pipe).is_err());
    }
}
