//! Compressed files and archives are known by their first bytes, whatever they are called.

use super::BUFFER;
use super::tar;
use super::watch::{Unpacked, Watch};
use flate2::read::MultiGzDecoder;
use lzma_rust2::XzReader;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;

const GZIP: &[u8] = &[0x1f, 0x8b];
const XZ: &[u8] = &[0xfd, b'7', b'z', b'X', b'Z', 0];
/// What is not read, by its first bytes.
const OTHERS: [(&[u8], &str); 4] = [
    (b"BZh", "bzip2; unpack it first (bunzip2)"),
    (b"PK\x03\x04", "zip; unpack it first (unzip)"),
    (&[0x28, 0xb5, 0x2f, 0xfd], "zstd; unpack it first (unzstd)"),
    (b"7z\xbc\xaf", "7-zip; unpack it first"),
];
/// Memory that xz may take, in KiB: its highest preset takes 65 MiB.
const XZ_MEMORY: u32 = 72 * 1024;

/// A reader of what is in a file, unpacked where it is compressed.
///
/// # Errors
/// Where it cannot be read, or is compressed in a way that is not known here.
pub fn opened<'r>(reader: impl Read + 'r, watch: &Arc<Watch>) -> io::Result<Box<dyn BufRead + 'r>> {
    let mut reader = BufReader::with_capacity(BUFFER, reader);
    let head = reader.fill_buf()?;
    if let Some((_, what)) = OTHERS.iter().find(|(magic, _)| head.starts_with(magic)) {
        return Err(io::Error::other(format!("compressed by {what}")));
    }
    Ok(if head.starts_with(GZIP) {
        let unpacked = BufReader::with_capacity(BUFFER, MultiGzDecoder::new(reader));
        Box::new(Unpacked::new(unpacked, Arc::clone(watch)))
    } else if head.starts_with(XZ) {
        let unpacked = BufReader::with_capacity(BUFFER, XzReader::new_mem_limit(reader, true, XZ_MEMORY));
        Box::new(Unpacked::new(unpacked, Arc::clone(watch)))
    } else {
        Box::new(reader)
    })
}

/// Whether an archive begins here.
///
/// # Errors
/// Where it cannot be read.
pub fn is_tar(reader: &mut impl BufRead) -> io::Result<bool> {
    let head = reader.fill_buf()?;
    Ok(head.len() >= tar::BLOCK && tar::Header::read(&head[..tar::BLOCK]).is_some())
}
