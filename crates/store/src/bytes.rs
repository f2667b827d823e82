//! Variable-length integers and text, as the tail's frames encode them.

/// The bytes are not a valid encoding: damaged, or written by another program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Damaged;

/// Appends a varint (LEB128).
pub(crate) fn put_number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a wrapping difference, zigzag-encoded so that small differences of either sign are short.
pub(crate) fn put_step(out: &mut Vec<u8>, from: u64, to: u64) {
    put_number(out, zigzag(to.wrapping_sub(from) as i64));
}

/// Appends the length and the bytes of a text.
pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_number(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// Maps 0, -1, 1, -2, ... to 0, 1, 2, 3, ...
pub(crate) fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Reverses [`zigzag`].
pub(crate) fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Reads these encodings, but never past the end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// Returns the bytes not read yet.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Damaged> {
        let (first, rest) = self.rest.split_first().ok_or(Damaged)?;
        self.rest = rest;
        Ok(*first)
    }

    pub(crate) fn bytes(&mut self, count: u64) -> Result<&'a [u8], Damaged> {
        let count = usize::try_from(count).map_err(|_| Damaged)?;
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(Damaged)?;
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn number(&mut self) -> Result<u64, Damaged> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Damaged)
    }

    /// Reads the number that [`put_step`] encoded relative to `from`.
    pub(crate) fn step(&mut self, from: u64) -> Result<u64, Damaged> {
        Ok(from.wrapping_add(unzigzag(self.number()?) as u64))
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, Damaged> {
        let length = self.number()?;
        std::str::from_utf8(self.bytes(length)?).map_err(|_| Damaged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_survive_encoding(values: Vec<u64>) {
            let mut out = Vec::new();
            values.iter().for_each(|v| put_number(&mut out, *v));
            let mut cursor = Cursor::new(&out);
            for v in values {
                prop_assert_eq!(cursor.number(), Ok(v));
            }
            prop_assert!(cursor.is_at_end());
        }

        #[test]
        fn steps_and_text_read_back(from: u64, to: u64, text: String) {
            let mut out = Vec::new();
            put_step(&mut out, from, to);
            put_text(&mut out, &text);
            let mut cursor = Cursor::new(&out);
            prop_assert_eq!(cursor.step(from), Ok(to));
            prop_assert_eq!(cursor.text(), Ok(text.as_str()));
        }

        #[test]
        fn arbitrary_bytes_end_in_an_error(bytes: Vec<u8>) {
            let mut cursor = Cursor::new(&bytes);
            while cursor.text().is_ok() {}
            let mut cursor = Cursor::new(&bytes);
            while cursor.number().is_ok() {}
        }
    }

    #[test]
    fn small_steps_are_one_byte() {
        for to in [937, 1000, 1063] {
            let mut out = Vec::new();
            put_step(&mut out, 1000, to);
            assert_eq!(out.len(), 1, "{to}");
        }
    }
}
