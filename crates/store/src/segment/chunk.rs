//! A column of a row group as its file has it: a page of data, and before it a dictionary where values recur.
//!
//! The crate's own column writer takes a value for each row. Here rows in a row that have the same are written as one, so that
//! closing a segment costs what changed in it.

use super::told::{Dictionary, Rows, Told};
use bytes::Bytes;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::Result;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::writer::{SerializedRowGroupWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;
use std::io::Write;
use zstd::bulk::Compressor;
use zstd::zstd_safe;

/// Finer levels cost twice the time for 3 %.
const LEVEL: i32 = 3;
/// Bytes below which a column is not compressed: the frame around it would be as long.
const SHORT: usize = 64;

/// Writes columns, one after the other.
pub(super) struct ChunkWriter {
    compressor: Compressor<'static>,
    /// What was compressed last; its room is used again.
    compressed: Vec<u8>,
}

impl ChunkWriter {
    pub(super) fn new() -> std::io::Result<Self> {
        Ok(Self { compressor: Compressor::new(LEVEL)?, compressed: Vec::new() })
    }

    /// Adds a column of so many rows to a row group.
    pub(super) fn write<W: Write + Send>(
        &mut self,
        group: &mut SerializedRowGroupWriter<W>,
        column: ColumnDescPtr,
        rows: &Rows,
        count: usize,
    ) -> Result<()> {
        let told = Told::of(rows, column.max_def_level() > 0);
        let compression = if told.length() < SHORT { Compression::UNCOMPRESSED } else { zstd()? };
        let mut pages = TrackedWrite::new(Vec::new());
        let dictionary = match told.dictionary {
            Some(dictionary) => Some(self.dictionary(&mut pages, compression, dictionary)?),
            None => None,
        };
        let data_at = pages.bytes_written();
        let encoding = if dictionary.is_some() { Encoding::RLE_DICTIONARY } else { Encoding::PLAIN };
        let data = self.data(&mut pages, compression, told.data, count, encoding)?;
        let pages = Bytes::from(pages.into_inner()?);
        let mut metadata = ColumnChunkMetaData::builder(column)
            .set_compression(compression)
            .set_encodings(vec![Encoding::PLAIN, Encoding::RLE, encoding])
            .set_total_compressed_size(pages.len() as i64)
            .set_total_uncompressed_size((dictionary.unwrap_or(0) + data) as i64)
            .set_num_values(count as i64)
            .set_data_page_offset(data_at as i64)
            .set_dictionary_page_offset(dictionary.map(|_| 0));
        if let Some(statistics) = rows.statistics() {
            metadata = metadata.set_statistics(statistics);
        }
        let close = ColumnCloseResult {
            bytes_written: pages.len() as u64,
            rows_written: count as u64,
            metadata: metadata.build()?,
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        group.append_column(&pages, close)
    }

    fn dictionary(
        &mut self,
        to: &mut TrackedWrite<Vec<u8>>,
        compression: Compression,
        dictionary: Dictionary,
    ) -> Result<usize> {
        let header = PageKind::Dictionary { values: dictionary.values };
        self.page(to, compression, dictionary.bytes, header)
    }

    fn data(
        &mut self,
        to: &mut TrackedWrite<Vec<u8>>,
        compression: Compression,
        bytes: Vec<u8>,
        rows: usize,
        encoding: Encoding,
    ) -> Result<usize> {
        self.page(to, compression, bytes, PageKind::Data { rows, encoding })
    }

    /// Adds a page of these bytes; how many they are, with its header, where they are not compressed.
    fn page(
        &mut self,
        to: &mut TrackedWrite<Vec<u8>>,
        compression: Compression,
        bytes: Vec<u8>,
        kind: PageKind,
    ) -> Result<usize> {
        let length = bytes.len();
        let bytes = if compression == Compression::UNCOMPRESSED { bytes.into() } else { self.compressed(&bytes)? };
        let header = page_header(kind, length, &bytes);
        to.write_all(&header)?;
        to.write_all(&bytes)?;
        Ok(length + header.len())
    }

    fn compressed(&mut self, bytes: &[u8]) -> std::io::Result<Bytes> {
        self.compressed.clear();
        self.compressed.reserve(zstd_safe::compress_bound(bytes.len()));
        self.compressor.compress_to_buffer(bytes, &mut self.compressed)?;
        Ok(Bytes::copy_from_slice(&self.compressed))
    }
}

/// What is in a page.
enum PageKind {
    Dictionary { values: usize },
    Data { rows: usize, encoding: Encoding },
}

/// A page's header (`PageHeader` of parquet.thrift, in Thrift's compact protocol). The crate writes none with a checksum.
fn page_header(kind: PageKind, length: usize, bytes: &[u8]) -> Vec<u8> {
    const DATA_PAGE: i32 = 0;
    const DICTIONARY_PAGE: i32 = 2;
    let mut out = Vec::with_capacity(32);
    let page_type = if matches!(kind, PageKind::Data { .. }) { DATA_PAGE } else { DICTIONARY_PAGE };
    // type, uncompressed_page_size, compressed_page_size, crc
    for number in [page_type, length as i32, bytes.len() as i32, crc32fast::hash(bytes) as i32] {
        put_field(&mut out, 1, number);
    }
    match kind {
        // data_page_header: num_values, encoding, definition_level_encoding, repetition_level_encoding
        PageKind::Data { rows, encoding } => {
            out.push(1 << 4 | STRUCT);
            for number in [rows as i32, encoding as i32, Encoding::RLE as i32, Encoding::RLE as i32] {
                put_field(&mut out, 1, number);
            }
        }
        // dictionary_page_header: num_values, encoding
        PageKind::Dictionary { values } => {
            out.push(3 << 4 | STRUCT);
            put_field(&mut out, 1, values as i32);
            put_field(&mut out, 1, Encoding::PLAIN as i32);
        }
    }
    // The ends of both structs.
    out.extend([0, 0]);
    out
}

/// Thrift's numbers for the types of fields.
const I32: u8 = 5;
const STRUCT: u8 = 12;

/// A field that comes so many after the one before.
fn put_field(out: &mut Vec<u8>, after: u8, number: i32) {
    out.push(after << 4 | I32);
    // Zigzag, so that small negative numbers are short too.
    let mut left = (number << 1 ^ number >> 31) as u32;
    while left >= 0x80 {
        out.push(left as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
}

fn zstd() -> Result<Compression> {
    Ok(Compression::ZSTD(ZstdLevel::try_new(LEVEL)?))
}
