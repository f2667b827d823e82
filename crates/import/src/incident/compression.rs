//! Compressed files and archives are recognized by their first bytes, whatever their names.

use super::BUFFER;
use super::monitor::{ReadMonitor, UnpackedReader};
use super::tar;
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

/// A reader of a file's content, decompressed if needed.
///
/// # Errors
/// If it cannot be read, or its compression is not supported.
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

/// Whether a tar archive begins here.
///
/// # Errors
/// If it cannot be read.
pub fn is_tar(reader: &mut impl BufRead) -> io::Result<bool> {
    let head = reader.fill_buf()?;
    Ok(head.len() >= tar::BLOCK && tar::TarHeader::read(&head[..tar::BLOCK]).is_some())
}
