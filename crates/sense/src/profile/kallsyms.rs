//! Functions of the kernel by address (/proc/kallsyms, kernel/kallsyms.c).

use crate::root::Root;

/// No functions, but where the kernel's code ends (arch/x86/kernel/vmlinux.lds.S): what comes after and has no name of its own,
/// such as a BPF program, is none of it.
const ENDS: [&str; 2] = ["_etext", "_einittext"];

/// The kernel's functions.
#[derive(Debug, Default)]
pub(super) struct KernelSymbols {
    /// By address.
    functions: Vec<Function>,
}

/// A function of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Function {
    address: u64,
    pub(super) name: String,
    /// The module it is of; none for what is built in. `bpf` for BPF programs.
    pub(super) module: Option<String>,
}

impl KernelSymbols {
    /// Reads them; empty where the kernel hides its addresses.
    pub(super) fn read(root: &Root) -> Self {
        root.maybe("proc/kallsyms").map(|text| Self::parse(&text)).unwrap_or_default()
    }

    /// Lines of `ffffffff81000000 T name`, with `[module]` behind it where it is of one. Hidden addresses are all zero.
    fn parse(text: &str) -> Self {
        let mut functions: Vec<Function> = text.lines().filter_map(Function::parse).collect();
        functions.sort_by_key(|function| function.address);
        Self { functions }
    }

    /// Whether there is any.
    pub(super) fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// The function that begins last before an address; none beyond the last one there is.
    pub(super) fn find(&self, address: u64) -> Option<&Function> {
        let after = self.functions.partition_point(|function| function.address <= address);
        self.functions.get(after.checked_sub(1)?).filter(|function| !ENDS.contains(&&*function.name))
    }
}

impl Function {
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split_whitespace();
        let address = u64::from_str_radix(fields.next()?, 16).ok().filter(|&address| address != 0)?;
        // Text, global and local, and weak: the rest is data.
        fields.next().filter(|kind| matches!(*kind, "t" | "T" | "w" | "W"))?;
        let name = fields.next()?.to_owned();
        let module = fields.next().map(|module| module.trim_matches(['[', ']']).to_owned());
        Some(Self { address, name, module })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::never_panics;

    const SYMBOLS: &str = "\
ffffffff81000000 T _text
ffffffff81000200 t do_one
ffffffff81000180 D some_data
ffffffff81000300 T _etext
ffffffffc0000000 t ext4_map_blocks\t[ext4]
";

    #[test]
    fn an_address_belongs_to_the_function_before_it() {
        let symbols = KernelSymbols::parse(SYMBOLS);
        let at = |address| symbols.find(address).map(|f| (&*f.name, f.module.as_deref()));
        assert_eq!(at(0xffff_ffff_8100_01ff), Some(("_text", None)));
        assert_eq!(at(0xffff_ffff_8100_0200), Some(("do_one", None)));
        assert_eq!(at(0xffff_ffff_8100_0300), None);
        assert_eq!(at(u64::MAX), Some(("ext4_map_blocks", Some("ext4"))));
        assert_eq!(at(0), None);
    }

    #[test]
    fn hidden_addresses_are_no_symbols() {
        assert!(KernelSymbols::parse("0000000000000000 T _text\n0000000000000000 T do_one\n").is_empty());
    }

    #[test]
    fn any_text_is_read() {
        never_panics(SYMBOLS, |text| {
            KernelSymbols::parse(text).find(1 << 40);
        });
    }
}
