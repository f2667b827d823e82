//! Binary files of sar (sa21, sa20240101): only the sysstat they were written by knows their layout, so this machine's own
//! sadf(1) turns them into JSON.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

/// What such a file begins with (SYSSTAT_MAGIC of sa.h), in the byte order of the machine that wrote it.
const MAGIC: [[u8; 2]; 2] = [[0x96, 0xd5], [0xd5, 0x96]];

/// The text of a binary file of sar, where it is one.
///
/// # Errors
/// Where it cannot be read, or there is no sadf here.
pub fn converted(path: &Path, file: &mut File) -> io::Result<Option<Box<dyn BufRead>>> {
    let mut magic = Vec::new();
    file.by_ref().take(2).read_to_end(&mut magic)?;
    if !MAGIC.iter().any(|m| magic == m) {
        // A pipe has no way back, and is no file of sar's; what was read of it is put before the rest.
        return match file.seek(SeekFrom::Start(0)) {
            Ok(_) => Ok(None),
            Err(_) => Ok(Some(Box::new(BufReader::new(io::Cursor::new(magic).chain(file.try_clone()?))))),
        };
    }
    let sadf = Command::new("sadf")
        .args(["-j", "--"])
        .arg("-A")
        .arg(path)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut child = sadf.map_err(|e| {
        io::Error::new(e.kind(), format!("a binary file of sar, for which sadf is needed: {e}; install sysstat"))
    })?;
    let stdout = child.stdout.take().ok_or_else(|| io::Error::other("sadf has no output"))?;
    Ok(Some(Box::new(BufReader::new(Sadf { child, stdout }))))
}

/// What sadf prints.
struct Sadf {
    child: Child,
    stdout: ChildStdout,
}

impl Read for Sadf {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.stdout.read(buffer)?;
        if count == 0 && !buffer.is_empty() {
            let status = self.child.wait()?;
            if !status.success() {
                let why = "sadf cannot read it; where another version wrote it, convert it first: sadf -c FILE > NEW";
                return Err(io::Error::other(format!("{why} ({status})")));
            }
        }
        Ok(count)
    }
}

impl Drop for Sadf {
    fn drop(&mut self) {
        // Nothing is left to tell of one that has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
