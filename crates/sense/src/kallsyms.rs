//! Functions of the kernel by address (/proc/kallsyms, kernel/kallsyms.c).

use crate::root::Root;

/// These mark the end of the kernel's text (arch/x86/kernel/vmlinux.lds.S): what follows without a name of its own, such as a BPF
/// program, does not belong to them.
const TEXT_ENDS: [&str; 2] = ["_etext", "_einittext"];

/// The functions in lines of `ffffffff81000000 T name [module]`: address, name, module. Hidden addresses are zero and left out.
pub(crate) fn functions(text: &str) -> impl Iterator<Item = (u64, &str, Option<&str>)> {
    text.lines().filter_map(|line| {
        let mut fields = line.split_ascii_whitespace();
        let address = u64::from_str_radix(fields.next()?, 16).ok().filter(|&address| address != 0)?;
        // Text symbols, global, local and weak.
        fields.next().filter(|kind| matches!(*kind, "t" | "T" | "w" | "W"))?;
        Some((address, fields.next()?, fields.next().map(|module| module.trim_matches(['[', ']']))))
    })
}

#[derive(Debug, Default)]
pub(crate) struct KernelSymbols {
    /// By address.
    functions: Vec<KernelFunction>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KernelFunction {
    address: u64,
    pub(crate) name: String,
    /// `bpf` for BPF programs.
    pub(crate) module: Option<String>,
}

impl KernelSymbols {
    /// Empty if the kernel hides its addresses.
    pub(crate) fn read(root: &Root) -> Self {
        root.maybe("proc/kallsyms").map(|text| Self::parse(&text)).unwrap_or_default()
    }

    fn parse(text: &str) -> Self {
        let function = |(address, name, module): (u64, &str, Option<&str>)| KernelFunction {
            address,
            name: name.to_owned(),
            module: module.map(str::to_owned),
        };
        let mut functions: Vec<KernelFunction> = functions(text).map(function).collect();
        functions.sort_by_key(|function| function.address);
        Self { functions }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// The last function that begins at or before an address.
    pub(crate) fn find(&self, address: u64) -> Option<&KernelFunction> {
        let after = self.functions.partition_point(|function| function.address <= address);
        self.functions.get(after.checked_sub(1)?).filter(|function| !TEXT_ENDS.contains(&&*function.name))
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
    fn hidden_addresses_are_left_out() {
        assert!(KernelSymbols::parse("0000000000000000 T _text\n0000000000000000 T do_one\n").is_empty());
    }

    #[test]
    fn no_text_makes_it_panic() {
        never_panics(SYMBOLS, |text| {
            KernelSymbols::parse(text).find(1 << 40);
        });
    }
}
