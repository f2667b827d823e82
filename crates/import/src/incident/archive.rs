//! Recognizes compressed files, and archives made by tar (POSIX.1 pax, and GNU tar's long names), by their first bytes,
//! whatever their names, and reads them as streams.
//!
//! The existing crates for tar hold names and extended headers of any length in memory, which a hostile archive can exploit.

use super::BUFFER;
use super::monitor::{ReadMonitor, UnpackedReader};
use flate2::read::MultiGzDecoder;
use lzma_rust2::XzReader;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;

const GZIP: &[u8] = &[0x1f, 0x8b];
const XZ: &[u8] = &[0xfd, b'7', b'z', b'X', b'Z', 0];
/// Unsupported compression, by its first bytes.
const OTHERS: [(&[u8], &str); 4] = [
    (b"BZh", "bzip2; unpack it first (bunzip2)"),
    (b"PK\x03\x04", "zip; unpack it first (unzip)"),
    (&[0x28, 0xb5, 0x2f, 0xfd], "zstd; unpack it first (unzstd)"),
    (b"7z\xbc\xaf", "7-zip; unpack it first"),
];
/// The memory limit of xz in KiB: its highest preset needs 65 MiB.
const XZ_MEMORY: u32 = 72 * 1024;
/// Bytes of a header; contents fill whole blocks.
pub const BLOCK: usize = 512;
/// Maximum length of a name, and of the extended header that may hold one.
const LONGEST_NAME: u64 = 4096;
const LONGEST_EXTENDED: u64 = 64 * 1024;

/// Opens a reader of a file's content, and decompresses it if needed.
///
/// # Errors
/// Fails if it cannot be read, or its compression is not supported.
pub fn opened<'r>(reader: impl Read + 'r, monitor: &Arc<ReadMonitor>) -> io::Result<Box<dyn BufRead + 'r>> {
    let mut reader = BufReader::with_capacity(BUFFER, reader);
    let head = reader.fill_buf()?;
    if let Some((_, what)) = OTHERS.iter().find(|(magic, _)| head.starts_with(magic)) {
        return Err(io::Error::other(format!("compressed by {what}")));
    }
    Ok(if head.starts_with(GZIP) {
        let unpacked = BufReader::with_capacity(BUFFER, MultiGzDecoder::new(reader));
        Box::new(UnpackedReader::new(unpacked, Arc::clone(monitor)))
    } else if head.starts_with(XZ) {
        let unpacked = BufReader::with_capacity(BUFFER, XzReader::new_mem_limit(reader, true, XZ_MEMORY));
        Box::new(UnpackedReader::new(unpacked, Arc::clone(monitor)))
    } else {
        Box::new(reader)
    })
}

/// Returns true if a tar archive begins here.
///
/// # Errors
/// Fails if it cannot be read.
pub fn is_tar(reader: &mut impl BufRead) -> io::Result<bool> {
    let head = reader.fill_buf()?;
    Ok(head.len() >= BLOCK && TarHeader::read(&head[..BLOCK]).is_some())
}

#[derive(Debug, PartialEq, Eq)]
pub struct TarHeader {
    name: String,
    size: u64,
    kind: u8,
}

impl TarHeader {
    /// Reads a block; `None` if the header checksum does not match.
    pub fn read(block: &[u8]) -> Option<Self> {
        let sum = octal(block.get(148..156)?)?;
        let blank = |at: usize| (148..156).contains(&at);
        let counted: u64 =
            block[..BLOCK].iter().enumerate().map(|(at, b)| u64::from(if blank(at) { b' ' } else { *b })).sum();
        if counted != sum {
            return None;
        }
        let text = |range: std::ops::Range<usize>| {
            let bytes = &block[range];
            String::from_utf8_lossy(bytes.split(|b| *b == 0).next().unwrap_or_default()).into_owned()
        };
        let prefix = if &block[257..263] == b"ustar\0" { text(345..500) } else { String::new() };
        let name = if prefix.is_empty() { text(0..100) } else { format!("{prefix}/{}", text(0..100)) };
        Some(Self { name, size: number(&block[124..136])?, kind: block[156] })
    }
}

/// Parses a size: octal, or, if that is too short, binary with the first bit set (GNU).
fn number(field: &[u8]) -> Option<u64> {
    if field.first()? & 0x80 == 0 {
        return octal(field);
    }
    field.iter().skip(1).try_fold(0_u64, |sum, byte| sum.checked_mul(256)?.checked_add(u64::from(*byte)))
}

fn octal(field: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(field).ok()?.trim_matches(['\0', ' ']);
    if text.is_empty() { Some(0) } else { u64::from_str_radix(text, 8).ok() }
}

pub struct Tar<R> {
    reader: R,
    /// Unread bytes of the current file, and of the padding after it.
    left: u64,
    padding: u64,
}

impl<R: Read> Tar<R> {
    pub fn new(reader: R) -> Self {
        Self { reader, left: 0, padding: 0 }
    }

    /// Advances to the next regular file and returns its path.
    ///
    /// # Errors
    /// Fails if the archive cannot be read, or is damaged.
    pub fn next_file(&mut self) -> io::Result<Option<String>> {
        let mut long_name = None;
        let mut long_size = None;
        loop {
            self.skip()?;
            let Some(header) = self.header()? else { return Ok(None) };
            self.hold(header.size);
            match header.kind {
                b'0' | 0 | b'7' => {
                    if let Some(size) = long_size {
                        self.hold(size);
                    }
                    return Ok(Some(long_name.take().unwrap_or(header.name)));
                }
                b'L' if header.size <= LONGEST_NAME => long_name = Some(self.text()?.trim_end_matches('\0').to_owned()),
                b'x' if header.size <= LONGEST_EXTENDED => {
                    let text = self.text()?;
                    long_name = extended(&text, "path").map(str::to_owned).or(long_name);
                    long_size = extended(&text, "size").and_then(|size| size.parse().ok());
                }
                // Other extended headers change nothing; links, devices and folders end the extension.
                b'L' | b'x' | b'g' | b'K' => {}
                _ => (long_name, long_size) = (None, None),
            }
        }
    }

    /// Returns the contents of the current file.
    pub fn contents(&mut self) -> TarContents<'_, R> {
        TarContents(self)
    }

    fn hold(&mut self, size: u64) {
        self.left = size;
        self.padding = (BLOCK as u64 - size % BLOCK as u64) % BLOCK as u64;
    }

    fn text(&mut self) -> io::Result<String> {
        let mut bytes = Vec::new();
        self.contents().read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Reads the next header. Returns `None` at the end of the archive (a block of zeros) or of the file.
    fn header(&mut self) -> io::Result<Option<TarHeader>> {
        let mut block = [0; BLOCK];
        let mut filled = 0;
        while filled < BLOCK {
            match self.reader.read(&mut block[filled..])? {
                0 if filled == 0 => return Ok(None),
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => filled += count,
            }
        }
        if block.iter().all(|b| *b == 0) {
            return Ok(None);
        }
        TarHeader::read(&block).map(Some).ok_or_else(|| io::Error::other("the archive is damaged"))
    }

    fn skip(&mut self) -> io::Result<()> {
        let all = self.left.saturating_add(self.padding);
        (self.left, self.padding) = (0, 0);
        io::copy(&mut self.reader.by_ref().take(all), &mut io::sink()).map(|_| ())
    }
}

/// The contents of one file of the archive.
pub struct TarContents<'t, R>(&'t mut Tar<R>);

impl<R: Read> Read for TarContents<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.0.reader.by_ref().take(self.0.left).read(buffer)?;
        self.0.left -= count as u64;
        Ok(count)
    }
}

/// Returns the value of a key from records such as `30 path=some/long/name`: one per line, after its length.
fn extended<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    text.lines()
        .find_map(|record| record.split_once(' ')?.1.split_once('=').filter(|(name, _)| *name == key))
        .map(|(_, v)| v)
}

#[cfg(test)]
mod fuzz {
    use super::*;
    use proptest::prelude::*;

    fn read_all(bytes: &[u8]) -> Vec<(String, usize)> {
        let mut tar = Tar::new(bytes);
        let mut files = Vec::new();
        while let Ok(Some(name)) = tar.next_file() {
            let mut contents = Vec::new();
            if tar.contents().read_to_end(&mut contents).is_err() {
                break;
            }
            files.push((name, contents.len()));
        }
        files
    }

    /// Generates blocks, some of which are headers with a correct checksum.
    fn blocks() -> impl Strategy<Value = Vec<u8>> {
        let header = ("[a-z/.]{0,20}", "[0-7]{1,11}", prop::sample::select(b"0L xg5712".to_vec())).prop_map(
            |(name, size, kind)| {
                let mut block = vec![0; BLOCK];
                block[..name.len()].copy_from_slice(name.as_bytes());
                block[124..124 + size.len()].copy_from_slice(size.as_bytes());
                block[156] = kind;
                block[148..156].fill(b' ');
                let sum: u64 = block.iter().map(|b| u64::from(*b)).sum();
                block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
                block
            },
        );
        let other = prop::collection::vec(any::<u8>(), BLOCK);
        prop::collection::vec(prop_oneof![3 => header, 1 => other], 0..12).prop_map(|blocks| blocks.concat())
    }

    proptest! {
        #[test]
        fn no_archive_makes_it_panic_or_run_on(bytes in blocks()) {
            let all: usize = read_all(&bytes).iter().map(|(_, length)| length).sum();
            prop_assert!(all <= bytes.len());
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
            read_all(&bytes);
        }
    }
}
