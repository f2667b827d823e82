//! Names of enum values in the running kernel, from its BTF (Documentation/bpf/btf.rst): names and numbers differ between versions.

use super::errors::TYPES;
use crate::root::Root;
use crate::source_error::SourceError;
use std::collections::HashMap;
use std::fs;

/// Of `struct btf_header`.
const MAGIC: u16 = 0xeb9f;
/// BTF_KIND_ENUM.
const ENUM: u32 = 6;

/// The names of the enum `name` by value; empty if the kernel has no such enum.
pub(crate) fn names(root: &Root, name: &str) -> Result<HashMap<u32, String>, SourceError> {
    let bytes = fs::read(root.at(TYPES)).map_err(|e| SourceError::from_io(TYPES, &e))?;
    let types = Types::of(&bytes).ok_or_else(|| SourceError::malformed(TYPES, "BTF header"))?;
    Ok(types.values(name).unwrap_or_default())
}

struct Types<'b> {
    types: &'b [u8],
    strings: &'b [u8],
}

impl<'b> Types<'b> {
    fn of(bytes: &'b [u8]) -> Option<Self> {
        let magic = u16::from_ne_bytes(*bytes.first_chunk()?);
        let header = |at: usize| word(bytes, at).map(|w| w as usize);
        let body = bytes.get(header(4)?..).filter(|_| magic == MAGIC)?;
        let part = |at: usize, length: usize| body.get(at..at.checked_add(length)?);
        Some(Self { types: part(header(8)?, header(12)?)?, strings: part(header(16)?, header(20)?)? })
    }

    fn values(&self, name: &str) -> Option<HashMap<u32, String>> {
        let mut at = 0;
        loop {
            let (own_name, info) = (word(self.types, at)?, word(self.types, at + 4)?);
            let (kind, members) = (info >> 24 & 0x1f, (info & 0xffff) as usize);
            at += 12;
            if kind == ENUM && self.string(own_name) == Some(name) {
                return Some((0..members).filter_map(|i| self.value(at + i * 8)).collect());
            }
            at += extra(kind, members)?;
        }
    }

    fn value(&self, at: usize) -> Option<(u32, String)> {
        Some((word(self.types, at + 4)?, self.string(word(self.types, at)?)?.to_owned()))
    }

    fn string(&self, at: u32) -> Option<&'b str> {
        let rest = self.strings.get(at as usize..)?;
        std::str::from_utf8(rest.split(|b| *b == 0).next()?).ok()
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|w| u32::from_ne_bytes(*w))
}

/// Bytes after the common part of a type; `None` for an unknown kind.
fn extra(kind: u32, members: usize) -> Option<usize> {
    Some(match kind {
        // Integers, variables and declaration tags.
        1 | 14 | 17 => 4,
        // Arrays.
        3 => 12,
        // Structures, unions, sections and 64-bit enums.
        4 | 5 | 15 | 19 => members * 12,
        // Enums and function prototypes.
        6 | 13 => members * 8,
        // Pointers, forward declarations, qualifiers, functions, floats, type tags.
        2 | 7..=12 | 16 | 18 => 0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            let mut bytes = bytes;
            bytes.splice(..bytes.len().min(2), MAGIC.to_ne_bytes());
            if let Some(types) = Types::of(&bytes) {
                let _ = types.values("x");
            }
        }
    }

    /// An integer, then `enum reason { none, late = 5 }`.
    fn small() -> Vec<u8> {
        let strings = b"\0reason\0none\0late\0";
        let types = [0, 1 << 24, 4, 0, 1, ENUM << 24 | 2, 4, 8, 0, 13, 5u32];
        let header = [24, 0, 4 * types.len() as u32, 4 * types.len() as u32, strings.len() as u32];
        let mut bytes = MAGIC.to_ne_bytes().to_vec();
        bytes.extend([1, 0]);
        bytes.extend(header.into_iter().chain(types).flat_map(u32::to_ne_bytes));
        bytes.extend(strings);
        bytes
    }

    #[test]
    fn the_values_of_an_enum_are_found_after_other_types() {
        let bytes = small();
        let found = Types::of(&bytes).unwrap().values("reason").unwrap();
        assert_eq!(found, HashMap::from([(0, "none".to_owned()), (5, "late".to_owned())]));
        assert_eq!(Types::of(&bytes).unwrap().values("other"), None);
        assert!(Types::of(&bytes[..20]).is_none());
    }

    #[test]
    fn drop_reasons_of_the_live_kernel_have_names() {
        let Ok(names) = names(&Root::live(), "skb_drop_reason") else {
            return crate::testing::skip("this kernel has no BTF");
        };
        assert!(names.values().any(|name| name == "SKB_DROP_REASON_NO_SOCKET"), "{names:?}");
    }
}
