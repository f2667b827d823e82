//! A minimal netlink client: dumps and single requests (netlink(7), rtnetlink(7)).
//!
//! [`messages`] and [`attributes`] parse received bytes; they stay within the slice and stop at the first malformed element.

use crate::source_error::SourceError;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use whyslow_model::value::Name;

/// Size of a message header: length, type, flags, sequence number, port.
const HEADER: usize = 16;
/// Size of an attribute header: length, type.
const ATTRIBUTE_HEADER: usize = 4;
/// The kernel makes a dump's messages as large as the reader's buffer, up to 32 KiB.
const BUFFER: usize = 64 * 1024;
/// Time limit for an answer of the kernel.
static TIMEOUT: libc::timeval = libc::timeval { tv_sec: 2, tv_usec: 0 };
/// NLA_TYPE_MASK: the other bits of an attribute's type are flags.
const TYPE_MASK: u16 = 0x3fff;

/// A netlink socket. It belongs to the network namespace of the thread that opened it.
pub struct Netlink {
    fd: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Netlink {
    /// Opens a socket of a protocol such as `NETLINK_ROUTE`.
    ///
    /// # Errors
    /// `Absent` if the kernel lacks the protocol.
    pub fn open(protocol: libc::c_int) -> Result<Self, SourceError> {
        // SAFETY: a system call that takes no pointer.
        let fd = unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, protocol) };
        if fd < 0 {
            return Err(socket_error(&io::Error::last_os_error()));
        }
        // SAFETY: `fd` was just opened, and nothing else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let length = size_of_val(&TIMEOUT) as libc::socklen_t;
        // SAFETY: the pointer and the length describe TIMEOUT, which the kernel only reads.
        let set = unsafe {
            libc::setsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVTIMEO, (&raw const TIMEOUT).cast(), length)
        };
        if set < 0 {
            return Err(socket_error(&io::Error::last_os_error()));
        }
        Ok(Self { fd, sequence: 0, buffer: Vec::with_capacity(BUFFER) })
    }

    /// Requests every object of a kind and calls `each` with the payload of each answer. A dump that changed meanwhile
    /// (NLM_F_DUMP_INTR) is accepted: at worst it lacks or repeats an object.
    ///
    /// # Errors
    /// Fails if the request is not supported, not permitted or fails; `each` has then been called for the answers before the
    /// error.
    pub fn dump(&mut self, kind: u16, request: &[u8], each: impl FnMut(&[u8])) -> Result<(), SourceError> {
        self.send(kind, libc::NLM_F_DUMP as u16, request)?;
        self.receive(usize::MAX, each)
    }

    /// Sends a request that the kernel answers with one message or an error, and calls `take` with the payload.
    ///
    /// # Errors
    /// Fails like [`dump`](Self::dump).
    pub fn ask(&mut self, kind: u16, request: &[u8], take: impl FnMut(&[u8])) -> Result<(), SourceError> {
        self.send(kind, 0, request)?;
        self.receive(1, take)
    }

    /// Sends a request that changes something. `flags` are added to NLM_F_REQUEST and NLM_F_ACK: NLM_F_CREATE, NLM_F_REPLACE.
    ///
    /// # Errors
    /// Fails like [`dump`](Self::dump).
    pub fn tell(&mut self, kind: u16, flags: u16, request: &[u8]) -> Result<(), SourceError> {
        self.send(kind, libc::NLM_F_ACK as u16 | flags, request)?;
        self.receive(usize::MAX, |_| ())
    }

    fn send(&mut self, kind: u16, flags: u16, payload: &[u8]) -> Result<(), SourceError> {
        self.sequence = self.sequence.wrapping_add(1);
        let bytes = request(kind, flags | libc::NLM_F_REQUEST as u16, self.sequence, payload);
        // SAFETY: the pointer and the length describe `bytes`, which the kernel only reads. A netlink socket that is
        // not connected sends to the kernel.
        let sent = unsafe { libc::send(self.fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0) };
        if sent < 0 { Err(socket_error(&io::Error::last_os_error())) } else { Ok(()) }
    }

    /// Receives up to `max` answers, or until the message that ends them.
    fn receive(&mut self, max: usize, mut each: impl FnMut(&[u8])) -> Result<(), SourceError> {
        let mut answers = 0;
        while answers < max {
            self.fill()?;
            for message in messages(&self.buffer).filter(|m| m.sequence == self.sequence) {
                match i32::from(message.kind) {
                    libc::NLMSG_DONE | libc::NLMSG_ERROR => return status(message.payload),
                    libc::NLMSG_NOOP => {}
                    _ => {
                        each(message.payload);
                        answers += 1;
                    }
                }
            }
        }
        Ok(())
    }

    fn fill(&mut self) -> Result<(), SourceError> {
        self.buffer.clear();
        loop {
            let spare = self.buffer.spare_capacity_mut();
            // SAFETY: the pointer and the length describe `spare`, which nothing else uses during the call.
            let got = unsafe { libc::recv(self.fd.as_raw_fd(), spare.as_mut_ptr().cast(), spare.len(), 0) };
            if let Ok(got) = usize::try_from(got) {
                // SAFETY: `got` bytes were filled: without MSG_TRUNC it is never more than the buffer has.
                unsafe { self.buffer.set_len(got) };
                return if got == 0 {
                    Err(SourceError::Failed("netlink: the kernel closed the socket".into()))
                } else {
                    Ok(())
                };
            }
            let error = io::Error::last_os_error();
            match error.kind() {
                io::ErrorKind::Interrupted => {}
                io::ErrorKind::WouldBlock => return Err(SourceError::Failed("netlink: no answer in time".into())),
                _ => return Err(socket_error(&error)),
            }
        }
    }
}

/// A socket that stays open between samples in the observer's own namespace: opening and closing one costs more than a request.
/// In another namespace it would keep that namespace alive, so a new one is opened there each time.
pub(super) struct HomeSocket<S>(Option<S>);

impl<S> Default for HomeSocket<S> {
    fn default() -> Self {
        Self(None)
    }
}

impl<S> HomeSocket<S> {
    /// Calls `request` with a socket of the thread's namespace, whose name is `namespace`. Closes the socket if the request
    /// fails.
    pub(super) fn with<R>(
        &mut self,
        namespace: &Name,
        open: impl FnOnce() -> Result<S, SourceError>,
        request: impl FnOnce(&mut S) -> Result<R, SourceError>,
    ) -> Result<R, SourceError> {
        let kept = if namespace.is_empty() { self.0.take() } else { None };
        let mut socket = kept.map_or_else(open, Ok)?;
        let answer = request(&mut socket)?;
        if namespace.is_empty() {
            self.0 = Some(socket);
        }
        Ok(answer)
    }
}

impl AsRawFd for Netlink {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

/// Checks the status of a dump's last message or of an acknowledgement: both begin with 0 or a negated errno.
fn status(payload: &[u8]) -> Result<(), SourceError> {
    match u32_at(payload, 0).unwrap_or(0) as i32 {
        error if error < 0 => Err(socket_error(&io::Error::from_raw_os_error(error.saturating_neg()))),
        _ => Ok(()),
    }
}

pub(super) fn socket_error(error: &io::Error) -> SourceError {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            SourceError::NotPermitted { why: format!("netlink: {error}"), remedy: "run as root".into() }
        }
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::EPROTONOSUPPORT | libc::EAFNOSUPPORT) => {
            SourceError::Absent(format!("not supported by this kernel ({error})"))
        }
        _ => SourceError::Failed(format!("netlink: {error}")),
    }
}

fn request(kind: u16, flags: u16, sequence: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + payload.len());
    bytes.extend(((HEADER + payload.len()) as u32).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend(0u32.to_ne_bytes());
    bytes.extend(payload);
    bytes
}

/// Encodes an attribute with its padding.
pub fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(ATTRIBUTE_HEADER + value.len() + 3);
    bytes.extend(((ATTRIBUTE_HEADER + value.len()) as u16).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NetlinkMessage<'a> {
    /// `NLMSG_DONE`, `RTM_NEWLINK` ...
    pub kind: u16,
    /// Sequence number of the request that it answers.
    pub sequence: u32,
    pub payload: &'a [u8],
}

pub(crate) fn messages(mut bytes: &[u8]) -> impl Iterator<Item = NetlinkMessage<'_>> {
    std::iter::from_fn(move || {
        let length = u32_at(bytes, 0)? as usize;
        let payload = bytes.get(HEADER..length)?;
        let message = NetlinkMessage { kind: u16_at(bytes, 4)?, sequence: u32_at(bytes, 8)?, payload };
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(message)
    })
}

/// Iterates over the attributes in a message, or in an attribute that nests others: type and value.
pub(crate) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(bytes, 0)?);
        let value = bytes.get(ATTRIBUTE_HEADER..length)?;
        let kind = u16_at(bytes, 2)? & TYPE_MASK;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// Iterates over the attributes that follow a fixed header of `head` bytes.
pub fn attributes_after(payload: &[u8], head: usize) -> impl Iterator<Item = (u16, &[u8])> {
    attributes(payload.get(head..).unwrap_or_default())
}

fn array_at<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..)?.first_chunk().copied()
}

pub(crate) fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    array_at(bytes, offset).map(u16::from_ne_bytes)
}

/// Returns the 32-bit number at an offset.
pub fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    array_at(bytes, offset).map(u32::from_ne_bytes)
}

pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    array_at(bytes, offset).map(u64::from_ne_bytes)
}

/// Decodes text that ends at the first zero byte or at the end of the slice.
pub fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::Cell;

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            for message in messages(&bytes) {
                let _ = attributes(message.payload).count();
                let _ = status(message.payload);
            }
            let _ = attributes(&bytes).count();
            let _ = text(&bytes);
        }

        #[test]
        fn an_encoded_request_is_parsed_back(kind in 0u16..0x4000, value in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut payload = attribute(kind, &value);
            payload.extend(attribute(7, b"end"));
            let bytes = request(20, 3, 9, &payload);
            let found: Vec<_> = messages(&bytes).collect();
            prop_assert_eq!(found.len(), 1);
            prop_assert_eq!((found[0].kind, found[0].sequence), (20, 9));
            let parts: Vec<_> = attributes(found[0].payload).collect();
            prop_assert_eq!(parts, vec![(kind, &value[..]), (7, &b"end"[..])]);
        }
    }

    #[test]
    fn a_truncated_message_is_skipped() {
        let mut bytes = request(1, 0, 1, b"whole...");
        bytes.extend(request(2, 0, 1, b"cut"));
        bytes.truncate(bytes.len() - 1);
        assert_eq!(messages(&bytes).map(|m| m.kind).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn a_length_of_zero_does_not_loop() {
        assert_eq!(attributes(&[0, 0, 1, 0, 4, 0, 1, 0]).count(), 0);
        assert_eq!(messages(&[0; 64]).count(), 0);
    }

    #[test]
    fn an_error_is_classified_by_its_errno() {
        assert_eq!(status(&0i32.to_ne_bytes()), Ok(()));
        assert!(matches!(status(&(-libc::EPERM).to_ne_bytes()), Err(SourceError::NotPermitted { .. })));
        assert!(matches!(status(&(-libc::ENOENT).to_ne_bytes()), Err(SourceError::Absent(_))));
        assert!(matches!(status(&i32::MIN.to_ne_bytes()), Err(SourceError::Failed(_))));
    }

    #[test]
    fn only_the_home_socket_is_kept_and_only_while_it_answers() {
        let opened = Cell::new(0);
        let open = || {
            opened.set(opened.get() + 1);
            Ok(opened.get())
        };
        let mut home = HomeSocket::default();
        let mut socket = |namespace: &str, fails: bool| {
            let refusal = SourceError::Failed("refused".into());
            home.with(&namespace.into(), open, |socket| if fails { Err(refusal) } else { Ok(*socket) })
        };
        assert_eq!((socket("", false), socket("", false)), (Ok(1), Ok(1)));
        assert_eq!((socket("other", false), socket("other", false)), (Ok(2), Ok(3)));
        assert_eq!(socket("", true), Err(SourceError::Failed("refused".into())));
        assert_eq!(socket("", false), Ok(4));
    }
}
