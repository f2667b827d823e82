//! Names of enum values in the running kernel, from its BTF (Documentation/bpf/btf.rst): names and numbers differ between versions.

use super::errors::TYPES;
use crate::root::Root;
use crate::source_error::SourceError;
use std::collections::HashMap;
use std::fs;
use std::ops::Range;

/// `magic` of `struct btf_header`.
const MAGIC: u16 = 0xeb9f;
/// BTF_KIND_ENUM.
const ENUM: u32 = 6;
/// Size of the part that all types share: the name, kind and number of members, and a size or type.
const HEAD: usize = 12;
/// Offset of the string section's length in the header.
const STRINGS_LENGTH: usize = 20;

/// Returns the names of the enum `name` by value; empty if the kernel has no such enum.
pub(crate) fn names(root: &Root, name: &str) -> Result<HashMap<u32, String>, SourceError> {
    let bytes = fs::read(root.at(TYPES)).map_err(|e| SourceError::from_io(TYPES, &e))?;
    let types = Types::parse(&bytes).ok_or_else(|| SourceError::malformed(TYPES, "BTF header"))?;
    Ok(types.values(name).unwrap_or_default())
}

/// Names the anonymous enum that has this member, so that programs can query its values: relocations use the names of types.
/// Without such an enum, the bytes stay unchanged.
pub(super) fn name_enum_with(member: &str, name: &str, bytes: &mut Vec<u8>) -> Option<()> {
    let (types, strings) = (part(bytes, 8)?, part(bytes, 16)?);
    let place = types.start + Types::parse(bytes)?.unnamed_with(member)?;
    // The kernel writes the strings as the last section.
    if strings.end != bytes.len() {
        return None;
    }
    let offset = u32::try_from(strings.len()).ok()?;
    let length = offset.checked_add(u32::try_from(name.len()).ok()?)?.checked_add(1)?;
    bytes[place..place + 4].copy_from_slice(&offset.to_ne_bytes());
    bytes[STRINGS_LENGTH..STRINGS_LENGTH + 4].copy_from_slice(&length.to_ne_bytes());
    bytes.extend(name.bytes().chain([0]));
    Some(())
}

/// Returns the range of a section whose offset and length are in the header at `at`.
fn part(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    let header = |at: usize| word(bytes, at).map(|w| w as usize);
    let from = header(4)?.checked_add(header(at)?)?;
    let to = from.checked_add(header(at + 4)?)?;
    (to <= bytes.len()).then_some(from..to)
}

struct Types<'b> {
    types: &'b [u8],
    strings: &'b [u8],
}

impl<'b> Types<'b> {
    fn parse(bytes: &'b [u8]) -> Option<Self> {
        let magic = u16::from_ne_bytes(*bytes.first_chunk()?);
        let of = |at: usize| bytes.get(part(bytes, at)?);
        Some(Self { types: of(8)?, strings: of(16)? }).filter(|_| magic == MAGIC)
    }

    fn values(&self, name: &str) -> Option<HashMap<u32, String>> {
        let (at, members) =
            self.enums().find(|(at, _)| word(self.types, *at).and_then(|own| self.string(own)) == Some(name))?;
        Some((0..members).filter_map(|i| self.value(at + HEAD + i * 8)).collect())
    }

    /// Returns the position of the anonymous enum that has this member.
    fn unnamed_with(&self, member: &str) -> Option<usize> {
        let name = [&[0], member.as_bytes(), &[0]].concat();
        let offset = self.strings.windows(name.len()).position(|bytes| bytes == name)? as u32 + 1;
        let has_it = |(at, members): &(usize, usize)| {
            word(self.types, *at) == Some(0)
                && (0..*members).any(|i| word(self.types, at + HEAD + i * 8) == Some(offset))
        };
        self.enums().find(has_it).map(|(at, _)| at)
    }

    /// Iterates over the positions of enums and their numbers of members.
    fn enums(&self) -> impl Iterator<Item = (usize, usize)> {
        let mut next = 0;
        let types = std::iter::from_fn(move || {
            let (at, info) = (next, word(self.types, next + 4)?);
            let (kind, members) = (info >> 24 & 0x1f, (info & 0xffff) as usize);
            next += HEAD + extra(kind, members)?;
            Some((at, kind, members))
        });
        types.filter(|(_, kind, _)| *kind == ENUM).map(|(at, _, members)| (at, members))
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

/// Returns the number of bytes after the common part of a type; `None` for an unknown kind.
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
            if let Some(types) = Types::parse(&bytes) {
                let _ = types.values("x");
            }
            let _ = name_enum_with("x", "y", &mut bytes);
        }
    }

    /// Builds types: an integer, then `enum reason { none, late = 5 }`.
    fn small() -> Vec<u8> {
        with_enum(1)
    }

    fn with_enum(name: u32) -> Vec<u8> {
        let strings = b"\0reason\0none\0late\0";
        let types = [0, 1 << 24, 4, 0, name, ENUM << 24 | 2, 4, 8, 0, 13, 5u32];
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
        let found = Types::parse(&bytes).unwrap().values("reason").unwrap();
        assert_eq!(found, HashMap::from([(0, "none".to_owned()), (5, "late".to_owned())]));
        assert_eq!(Types::parse(&bytes).unwrap().values("other"), None);
        assert!(Types::parse(&bytes[..20]).is_none());
    }

    #[test]
    fn an_enum_without_a_name_gets_one_by_a_member() {
        let mut bytes = with_enum(0);
        assert_eq!(Types::parse(&bytes).unwrap().values("cause"), None);
        name_enum_with("late", "cause", &mut bytes).unwrap();
        let found = Types::parse(&bytes).unwrap().values("cause").unwrap();
        assert_eq!(found, HashMap::from([(0, "none".to_owned()), (5, "late".to_owned())]));
        for mut bytes in [small(), with_enum(0)] {
            let before = bytes.clone();
            let member = if bytes == small() { "late" } else { "lat" };
            assert_eq!(
                name_enum_with(member, "cause", &mut bytes),
                None,
                "one with a name, and one without the member"
            );
            assert_eq!(bytes, before);
        }
    }

    #[test]
    fn drop_reasons_of_the_live_kernel_have_names() {
        let Ok(names) = names(&Root::live(), "skb_drop_reason") else {
            return crate::testing::skip("this kernel has no BTF");
        };
        assert!(names.values().any(|name| name == "SKB_DROP_REASON_NO_SOCKET"), "{names:?}");
    }
}
