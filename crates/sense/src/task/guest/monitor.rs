//! Client of QEMU's monitor (QMP) that sends only queries.
//!
//! The socket serves one client at a time, and others wait. The monitor is therefore left alone while it has a client, as it
//! always has under libvirt, and each reading uses a short connection of its own.

use super::QemuProcess;
use crate::root::Root;
use serde_json::{Value, json};
use socket2::{Domain, SockAddr, Socket, Type};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::time::Duration;

/// Time limit for an answer: a stopped process never answers.
const PATIENCE: Duration = Duration::from_millis(300);
/// Maximum bytes of an answer; the longest describe a hundred disks.
const LONGEST: u64 = 4 << 20;
/// Maximum number of lines skipped before an answer: events may arrive at any time.
const MOST_EVENTS: usize = 100;
/// State of a connected socket in /proc/net/unix (net/unix/af_unix.c: SS_CONNECTED; a listening one is SS_UNCONNECTED).
const CONNECTED: &str = "03";

/// A connection to the monitor of one guest.
pub(super) struct Monitor(BufReader<Socket>);

impl Monitor {
    /// Connects to the monitor of a guest.
    ///
    /// # Errors
    /// Returns the reason why the monitor cannot be queried.
    pub(super) fn open(root: &Root, process: &QemuProcess) -> Result<Self, String> {
        let pid = process.task.pid;
        if !root.is_live() {
            return Err("this is a copy of a machine".into());
        }
        if process.config.monitors.is_empty() {
            return Err("its monitor has no socket of its own".into());
        }
        let sockets = root.maybe(&format!("proc/{pid}/net/unix")).unwrap_or_default();
        let is_free = |path: &&String| !of_path(&sockets, path).any(|socket| socket.state == CONNECTED);
        let Some(path) = process.config.monitors.iter().find(is_free) else {
            return Err("its monitor is in use".into());
        };
        // The socket must belong to this QEMU process, whatever the command line of another program says.
        let is_its_own = |socket: UnixSocket<'_>| {
            let file = format!("socket:[{}]", socket.inode);
            process.files.iter().any(|(_, target)| *target == file)
        };
        if !of_path(&sockets, path).any(is_its_own) {
            return Err("its monitor may not be read, or is gone".into());
        }
        // Resolved in the process's mount namespace, which may differ from ours.
        let seen = root.at(format!("proc/{pid}/root/{}", path.trim_start_matches('/')));
        Self::connect(&SockAddr::unix(seen).map_err(|e| e.to_string())?).map_err(|e| format!("its monitor: {e}"))
    }

    fn connect(address: &SockAddr) -> io::Result<Self> {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        // The write timeout also applies to connect(2).
        socket.set_write_timeout(Some(PATIENCE))?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.connect(address)?;
        let mut monitor = Self(BufReader::new(socket));
        if monitor.line()?.get("QMP").is_none() {
            return Err(io::Error::other("it is not a QEMU monitor"));
        }
        monitor.ask("qmp_capabilities").map(|_| monitor).ok_or_else(|| io::Error::other("it does not answer"))
    }

    /// Sends a query. Returns `None` if QEMU reports an error, as it does for the balloon of a guest without one.
    pub(super) fn ask(&mut self, question: &str) -> Option<Value> {
        self.execute(&json!({ "execute": question }))
    }

    /// Returns the value of a device's property, given the device's QOM path.
    pub(super) fn property(&mut self, path: &str, property: &str) -> Option<Value> {
        self.execute(&json!({ "execute": "qom-get", "arguments": { "path": path, "property": property } }))
    }

    fn execute(&mut self, command: &Value) -> Option<Value> {
        let mut line = command.to_string();
        line.push('\n');
        self.0.get_mut().write_all(line.as_bytes()).ok()?;
        for _ in 0..MOST_EVENTS {
            let mut answer = self.line().ok()?;
            if answer.get("event").is_none() {
                return answer.get_mut("return").map(Value::take);
            }
        }
        None
    }

    fn line(&mut self) -> io::Result<Value> {
        let mut line = Vec::new();
        self.0.by_ref().take(LONGEST).read_until(b'\n', &mut line)?;
        Ok(serde_json::from_slice(&line)?)
    }
}

struct UnixSocket<'t> {
    state: &'t str,
    inode: &'t str,
}

/// Lists the sockets bound to a path: the listening one, and one for each client. Paths may contain spaces, and numbers are
/// padded.
fn of_path<'t>(text: &'t str, path: &'t str) -> impl Iterator<Item = UnixSocket<'t>> {
    text.lines().filter_map(move |line| {
        let mut words = line.strip_suffix(path)?.strip_suffix(' ')?.split_whitespace();
        let [state, inode] = [words.nth(5)?, words.next()?];
        words.next().is_none().then_some(UnixSocket { state, inode })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_of_a_path_are_those_that_are_bound_to_exactly_it() {
        let text = "Num       RefCount Protocol Flags    Type St Inode Path
000000005785e9ba: 00000002 00000000 00010000 0001 01   377 /run/a b.sock
000000003b2027d4: 00000003 00000000 00000000 0001 03 7456403 /run/a b.sock
000000003b2027d5: 00000003 00000000 00000000 0001 03 7456404 /x /run/a b.sock
000000003b2027d6: 00000003 00000000 00000000 0001 03 7456405
";
        let found = |path| of_path(text, path).map(|socket| (socket.state, socket.inode)).collect::<Vec<_>>();
        assert_eq!(found("/run/a b.sock"), [("01", "377"), ("03", "7456403")]);
        assert_eq!(found("/run/a"), []);
    }
}
