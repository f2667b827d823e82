//! Writes pages with checksums: the crate verifies a page's CRC when it reads, but writes none.

use parquet::basic::{Encoding, PageType};
use parquet::column::page::{CompressedPage, Page, PageWriteSpec, PageWriter};
use parquet::errors::{ParquetError, Result};

/// Collects the pages of one column chunk.
pub(super) struct ChecksummedPages<'p>(pub(super) &'p mut Vec<u8>);

impl PageWriter for ChecksummedPages<'_> {
    fn write_page(&mut self, page: CompressedPage) -> Result<PageWriteSpec> {
        let offset = self.0.len();
        let header = header(&page)?;
        self.0.extend_from_slice(&header);
        self.0.extend_from_slice(page.data());
        Ok(PageWriteSpec {
            page_type: page.page_type(),
            uncompressed_size: page.uncompressed_size() + header.len(),
            compressed_size: page.compressed_size() + header.len(),
            num_values: page.num_values(),
            offset: offset as u64,
            bytes_written: (self.0.len() - offset) as u64,
        })
    }

    fn close(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Encodes the `PageHeader` of parquet.thrift in Thrift's compact protocol.
fn header(page: &CompressedPage) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(32);
    let crc = crc32fast::hash(page.data());
    // type, uncompressed_page_size, compressed_page_size, crc
    let sizes = [page.uncompressed_size() as i32, page.compressed_size() as i32, crc as i32];
    put_i32(&mut out, page.page_type() as i32);
    sizes.into_iter().for_each(|number| put_i32(&mut out, number));
    match (page.page_type(), page.compressed_page()) {
        (PageType::DATA_PAGE, Page::DataPage { num_values, encoding, .. }) => {
            // data_page_header: num_values, encoding, definition_level_encoding, repetition_level_encoding
            put_struct(
                &mut out,
                1,
                &[*num_values as i32, *encoding as i32, Encoding::RLE as i32, Encoding::RLE as i32],
            );
        }
        (PageType::DICTIONARY_PAGE, Page::DictionaryPage { num_values, encoding, .. }) => {
            // dictionary_page_header: num_values, encoding
            put_struct(&mut out, 3, &[*num_values as i32, *encoding as i32]);
        }
        (other, _) => return Err(ParquetError::NYI(format!("a page of type {other}"))),
    }
    out.push(STOP);
    Ok(out)
}

/// Thrift's numbers for field types.
const STOP: u8 = 0;
const I32: u8 = 5;
const STRUCT: u8 = 12;

/// Appends a struct that skips `skip` field ids, with its fields numbered from 1.
fn put_struct(out: &mut Vec<u8>, skip: u8, fields: &[i32]) {
    out.push(skip << 4 | STRUCT);
    fields.iter().for_each(|field| put_i32(out, *field));
    out.push(STOP);
}

/// Appends the field whose id follows the previous one's, as a zigzag varint.
fn put_i32(out: &mut Vec<u8>, number: i32) {
    out.push(1 << 4 | I32);
    crate::bytes::put_number(out, u64::from((number << 1 ^ number >> 31) as u32));
}
