//! Functions of the kernel by address (/proc/kallsyms, kernel/kallsyms.c).

use crate::root::Root;

/// Symbols that mark the end of the kernel's text (arch/x86/kernel/vmlinux.lds.S). Code behind them without a symbol of its own,
/// such as a BPF program, must not be attributed to them.
const TEXT_ENDS: [&str; 2] = ["_etext", "_einittext"];

/// Names and modules of the kernel's functions.
pub(crate) type KernelSymbols = KernelFunctions<(String, Option<String>)>;

/// A value for each of the kernel's functions, by address.
#[derive(Debug)]
pub(crate) struct KernelFunctions<T> {
    /// Sorted by address; `None` where the kernel's text ends.
    functions: Vec<(u64, Option<T>)>,
}

impl KernelSymbols {
    /// Reads the kernel's symbols, which takes tens of milliseconds. Empty if the kernel hides them.
    pub(crate) fn read(root: &Root) -> Self {
        let text = root.maybe("proc/kallsyms").unwrap_or_default();
        Self::parse(&text, |name, module| (name.to_owned(), module.map(str::to_owned)))
    }
}

impl<T> KernelFunctions<T> {
    /// Parses lines of `ffffffff81000000 T name [module]` and calls `about` with the name and module (`bpf` for BPF programs) of
    /// each function. Skips addresses that the kernel hides (zero).
    pub(crate) fn parse(text: &str, about: impl Fn(&str, Option<&str>) -> T) -> Self {
        let function = |line: &str| {
            let mut fields = line.split_ascii_whitespace();
            let address = u64::from_str_radix(fields.next()?, 16).ok().filter(|&address| address != 0)?;
            // Text symbols: global, local and weak.
            fields.next().filter(|kind| matches!(*kind, "t" | "T" | "w" | "W"))?;
            let name = fields.next()?;
            let module = fields.next().map(|module| module.trim_matches(['[', ']']));
            Some((address, (!TEXT_ENDS.contains(&name)).then(|| about(name, module))))
        };
        let mut functions: Vec<_> = text.lines().filter_map(function).collect();
        functions.sort_by_key(|(address, _)| *address);
        Self { functions }
    }

    /// Converts the value of each function.
    pub(crate) fn map<U>(&self, about: impl Fn(&T) -> U) -> KernelFunctions<U> {
        let functions = self.functions.iter().map(|(address, known)| (*address, known.as_ref().map(&about)));
        KernelFunctions { functions: functions.collect() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// Finds the last function that begins at or before an address.
    pub(crate) fn find(&self, address: u64) -> Option<&T> {
        let after = self.functions.partition_point(|(start, _)| *start <= address);
        self.functions.get(after.checked_sub(1)?)?.1.as_ref()
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

    fn parse(text: &str) -> KernelSymbols {
        KernelFunctions::parse(text, |name, module| (name.to_owned(), module.map(str::to_owned)))
    }

    #[test]
    fn an_address_belongs_to_the_function_before_it() {
        let symbols = parse(SYMBOLS);
        let at = |address| symbols.find(address).map(|(name, module)| (&**name, module.as_deref()));
        assert_eq!(at(0xffff_ffff_8100_01ff), Some(("_text", None)));
        assert_eq!(at(0xffff_ffff_8100_0200), Some(("do_one", None)));
        assert_eq!(at(0xffff_ffff_8100_0300), None);
        assert_eq!(at(u64::MAX), Some(("ext4_map_blocks", Some("ext4"))));
        assert_eq!(at(0), None);
    }

    #[test]
    fn hidden_addresses_are_left_out() {
        assert!(parse("0000000000000000 T _text\n0000000000000000 T do_one\n").is_empty());
    }

    #[test]
    fn no_text_makes_it_panic() {
        never_panics(SYMBOLS, |text| {
            parse(text).find(1 << 40);
        });
    }
}
