//! Wholes whose parts add up: who holds how much, and what no part accounts for.
//!
//! A part may be missing where a kernel or a tool does not print it. Its amount is then in the rest.

use crate::Term;
use crate::declare::term;
use whyslow_model::catalogue::{CpuMean, Family, FamilyInfo, Group, Meminfo};

/// A whole of the entities of a family, and its parts.
#[derive(Debug)]
pub struct Whole {
    /// What is divided: `memory`.
    pub name: &'static str,
    /// Unit of the amounts.
    pub unit: &'static str,
    /// Family whose columns these are.
    pub family: &'static FamilyInfo,
    /// Column of the whole; none if it is the sum of its parts.
    pub total: Option<usize>,
    /// The parts.
    pub parts: &'static [Part],
    /// Sets of parts. All of one set must be known: without them, the rest would be theirs.
    pub main: &'static [&'static [&'static str]],
    /// What has the rest.
    pub rest: &'static str,
}

/// A part of a whole.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Who holds it, in words.
    pub holder: &'static str,
    /// Columns that are added.
    pub plus: &'static [Term],
    /// Columns that are subtracted if they are known, because they are in the sum and are a part of their own.
    pub minus: &'static [usize],
    /// Columns that must be known as well: without them, another part has the amount.
    pub given: &'static [usize],
    /// Columns that have the amount themselves: with all of them, there is no such part.
    pub unless: &'static [usize],
    /// True if it is large only if something is wrong, or on purpose, and no other cause names it.
    pub is_seldom_large: bool,
}

macro_rules! wholes {
    ($( $NAME:ident: $Family:ident, $name:literal in $unit:literal $(= $total:ident)?, main $($($main:literal)&+)|+, rest $rest:literal {
        $( $(seldom large $large:literal)? $holder:literal = $($plus:tt)&+ $(- $($minus:ident)&+)? $(given $($given:ident)&+)? $(unless $($unless:ident)&+)?; )+
    } )+) => {
        $(
            #[doc = concat!("Who has the ", $name, ".")]
            pub static $NAME: Whole = {
                const FAMILY: &FamilyInfo = &<$Family as Family>::INFO;
                Whole {
                    name: $name,
                    unit: $unit,
                    family: FAMILY,
                    total: total!(FAMILY $($total)?),
                    main: &[$( &[$($main),+] ),+],
                    rest: $rest,
                    parts: &[ $( Part {
                        holder: $holder,
                        plus: &[ $( term!(FAMILY $plus) ),+ ],
                        minus: &[ $($( $crate::column(FAMILY, stringify!($minus)) ),+)? ],
                        given: &[ $($( $crate::column(FAMILY, stringify!($given)) ),+)? ],
                        unless: &[ $($( $crate::column(FAMILY, stringify!($unless)) ),+)? ],
                        is_seldom_large: $($large ||)? false,
                    } ),+ ],
                }
            };
        )+

        /// All wholes.
        pub static ALL: &[&Whole] = &[ $(&$NAME),+ ];
    };
}

macro_rules! total {
    ($family:ident) => {
        None
    };
    ($family:ident $column:ident) => {
        Some($crate::column($family, stringify!($column)))
    };
}

wholes! {
    // Documentation/filesystems/proc.rst: meminfo. A memory report of the kernel's log lists pages in use, whose kind is unknown.
    MEMORY: Meminfo, "memory" in "bytes" = mem_total, main "free" & "memory of programs" & "page cache of files" | "free" & "programs and page cache", rest "the kernel, unaccounted" {
        "free" = mem_free;
        "memory of programs" = anon_pages given cached;
        "page cache of files" = cached & [buffers] & [swap_cached] - shmem given anon_pages;
        "programs and page cache" = active & inactive & [unevictable] - shmem unless anon_pages & cached;
        seldom large true "shared memory and tmpfs" = shmem;
        "huge pages" = hugetlb;
        "kernel objects that can be reclaimed" = s_reclaimable;
        "kernel objects that cannot be reclaimed" = s_unreclaim;
        "kernel objects" = slab unless s_unreclaim;
        "page tables" = page_tables;
        seldom large true "kernel stacks" = kernel_stack;
        seldom large true "per-CPU data of the kernel" = percpu;
        // The stacks of tasks are mapped with vmalloc.
        seldom large true "vmalloc" = vmalloc_used - kernel_stack;
    }
    // Documentation/admin-guide/cgroup-v2.rst: memory.current, memory.stat.
    GROUP_MEMORY: Group, "memory of the group" in "bytes" = memory, main "memory of programs" & "page cache of files", rest "the kernel for this group, unaccounted" {
        "memory of programs" = anon;
        "page cache of files" = file - shmem;
        seldom large true "shared memory and tmpfs" = shmem;
        "kernel objects" = slab;
    }
    // proc(5): /proc/stat.
    CPU_TIME: CpuMean, "CPU time" in "s", main "idle", rest "not accounted to any mode" {
        "programs" = [user] & [nice];
        "the kernel for programs" = system;
        "interrupts" = [irq] & [softirq];
        "taken by the hypervisor" = steal;
        "idle while requests were outstanding" = iowait;
        "idle" = idle;
    }
}

impl Whole {
    /// Returns the name of a column as it is printed.
    pub fn printed(&self, column: usize) -> String {
        kernel_name(self.family, self.family.metrics[column].name)
    }

    /// Returns the total, and each known part with its amount. `value` returns the value of a column. `None` if the total or the
    /// main parts are unknown.
    pub fn divide(&self, value: impl Fn(usize) -> Option<f64>) -> Option<(f64, Vec<(&'static Part, f64)>)> {
        let known = self.parts.iter().filter_map(|part| Some((part, part.amount(&value)?)));
        let known: Vec<(&Part, f64)> = known.collect();
        let total = match self.total {
            Some(total) => value(total)?,
            None => known.iter().map(|(_, amount)| amount).sum(),
        };
        let is_known = |holder: &&str| known.iter().any(|(part, _)| part.holder == *holder);
        let has_main = self.main.iter().any(|set| set.iter().all(is_known));
        (has_main && total > 0.0).then_some((total, known))
    }
}

impl Part {
    /// Returns its amount; `None` if it is unknown, or if another part has it.
    fn amount(&self, value: impl Fn(usize) -> Option<f64>) -> Option<f64> {
        let is_known = |column: &usize| value(*column).is_some();
        let is_elsewhere = !self.unless.is_empty() && self.unless.iter().all(is_known);
        if is_elsewhere || !self.given.iter().all(is_known) {
            return None;
        }
        let plus = self.plus.iter().try_fold(None, |sum: Option<f64>, term| match value(term.column) {
            Some(amount) => Some(Some(sum.unwrap_or(0.0) + amount)),
            None if term.is_optional => Some(sum),
            None => None,
        })??;
        let minus: f64 = self.minus.iter().filter_map(|column| value(*column)).sum();
        Some((plus - minus).max(0.0))
    }

    /// Returns the formula as printed: `cached + buffers - shmem`.
    pub fn formula(&self, family: &FamilyInfo) -> String {
        let name = |column: &usize| kernel_name(family, family.metrics[*column].name);
        let plus: Vec<String> = self.plus.iter().map(|term| name(&term.column)).collect();
        let minus: String = self.minus.iter().map(|column| format!(" - {}", name(column))).collect();
        plus.join(" + ") + &minus
    }
}

/// Returns a column's name as the kernel prints it: `MemTotal` in /proc/meminfo, else as it is.
fn kernel_name(family: &FamilyInfo, name: &str) -> String {
    if family.name != Meminfo::INFO.name {
        return name.to_owned();
    }
    let word = |word: &str| word[..1].to_uppercase() + &word[1..];
    name.split('_').map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_their_whole_have_one_unit() {
        for whole in ALL {
            let columns = whole.parts.iter().flat_map(|part| {
                part.plus
                    .iter()
                    .map(|term| term.column)
                    .chain(part.minus.iter().copied())
                    .chain(part.unless.iter().copied())
            });
            let units: Vec<_> = columns.chain(whole.total).map(|column| whole.family.metrics[column].unit).collect();
            assert!(units.windows(2).all(|pair| pair[0] == pair[1]), "{}", whole.name);
            assert!(
                whole.main.iter().copied().flatten().all(|main| whole.parts.iter().any(|part| part.holder == *main)),
                "{}",
                whole.name
            );
        }
    }

    #[test]
    fn formulas_have_the_names_that_are_printed() {
        let formula = |whole: &Whole, at: usize| whole.parts[at].formula(whole.family);
        assert_eq!(formula(&MEMORY, 2), "Cached + Buffers + SwapCached - Shmem");
        assert_eq!(formula(&MEMORY, 12), "VmallocUsed - KernelStack");
        assert_eq!(formula(&GROUP_MEMORY, 1), "file - shmem");
    }

    #[test]
    fn a_part_that_others_have_is_left_out() {
        let column = |name: &str| crate::column(MEMORY.family, name);
        let known = [("mem_total", 100.0), ("mem_free", 10.0), ("active", 40.0), ("inactive", 20.0), ("shmem", 5.0)];
        let value = |of: &[(&str, f64)]| {
            let of: Vec<(usize, f64)> = of.iter().map(|(name, amount)| (column(name), *amount)).collect();
            move |at: usize| of.iter().find(|(column, _)| *column == at).map(|(_, amount)| *amount)
        };
        let parts = |of: &[(&str, f64)]| {
            let (_, parts) = MEMORY.divide(value(of))?;
            Some(parts.into_iter().map(|(part, amount)| (part.holder, amount)).collect::<Vec<_>>())
        };
        let expected = [("free", 10.0), ("programs and page cache", 55.0), ("shared memory and tmpfs", 5.0)];
        assert_eq!(parts(&known).unwrap(), expected);
        let with_kinds = [&known[..], &[("anon_pages", 30.0), ("cached", 25.0)]].concat();
        let of = parts(&with_kinds).unwrap();
        assert!(of.contains(&("memory of programs", 30.0)) && of.contains(&("page cache of files", 20.0)), "{of:?}");
        let cut = parts(&[&known[..], &[("cached", 25.0)]].concat()).unwrap();
        assert_eq!(cut, expected, "without the memory of programs, the kinds are unknown");
        assert_eq!(parts(&known[..2]), None, "the rest would be that of the programs");
    }
}
