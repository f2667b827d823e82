//! Addresses made frames. Each address of a file is looked up once, whichever processes and stacks it stands in.

use super::address_space::Space;
use super::binaries::Binaries;
use super::elf_symbols::{self, Function};
use super::kallsyms::KernelSymbols;
use super::mapping::Mapping;
use super::perf_map::PerfMap;
use super::recorder::{RawStack, SpaceId};
use crate::root::Root;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};
use whyslow_model::profile::{self, Frame};

/// For how long symbols of all files together are read. What is not read by then goes by its file's name.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where code lies, and what it is called.
pub(super) struct Names {
    spaces: HashMap<SpaceId, Space>,
    kernel: KernelSymbols,
    /// By file and offset in it.
    programs: HashMap<(usize, u64), Vec<Function>>,
    perf_maps: HashMap<u32, PerfMap>,
    /// Files whose symbols could not be read in time.
    unread: usize,
}

impl Names {
    /// Looks up all addresses of the stacks.
    pub(super) fn of(stacks: &[RawStack], spaces: HashMap<SpaceId, Space>, binaries: &Binaries, root: &Root) -> Self {
        let kernel = KernelSymbols::read(root);
        let mut names = Self { spaces, kernel, programs: HashMap::new(), perf_maps: HashMap::new(), unread: 0 };
        let mut wanted: BTreeMap<usize, BTreeSet<u64>> = BTreeMap::new();
        for stack in stacks {
            for address in instructions(&stack.user) {
                let Some(mapping) = names.mapping(stack.space, address) else { continue };
                if let Some(binary) = mapping.binary {
                    wanted.entry(binary).or_default().insert(mapping.in_file(address));
                }
                if mapping.may_be_made() {
                    let pid = stack.space.pid();
                    names.perf_maps.entry(pid).or_insert_with(|| PerfMap::read(pid, root));
                }
            }
        }
        names.read_programs(wanted, binaries);
        names
    }

    fn read_programs(&mut self, wanted: BTreeMap<usize, BTreeSet<u64>>, binaries: &Binaries) {
        let end = Instant::now() + PATIENCE;
        for (binary, offsets) in wanted {
            let offsets: Vec<u64> = offsets.into_iter().collect();
            let left = end.saturating_duration_since(Instant::now());
            match binaries.file(binary).and_then(|file| elf_symbols::of_file(file, &offsets, left)) {
                Some(functions) => {
                    let places = offsets.into_iter().map(|offset| (binary, offset));
                    self.programs.extend(places.zip(functions));
                }
                None => self.unread += 1,
            }
        }
    }

    /// Whether the kernel's functions have names.
    pub(super) fn has_kernel(&self) -> bool {
        !self.kernel.is_empty()
    }

    /// How many files' symbols could not be read in time.
    pub(super) fn unread(&self) -> usize {
        self.unread
    }

    fn mapping(&self, space: SpaceId, address: u64) -> Option<&Mapping> {
        self.spaces.get(&space)?.find(address)
    }

    /// Whether anything is known of where code lies in this address space.
    pub(super) fn knows(&self, space: SpaceId) -> bool {
        self.spaces.contains_key(&space)
    }

    /// The functions at an address of a program, the outermost first. None where nothing that can be run lies there.
    pub(super) fn program(&self, space: SpaceId, address: u64) -> Option<Vec<Frame>> {
        let mapping = self.mapping(space, address)?;
        let module = Some(mapping.path.clone()).filter(|path| !path.is_empty());
        let frame =
            |function, inlined| Frame { function, module: module.clone(), space: profile::Space::User, inlined };
        let binary = mapping.binary.and_then(|binary| self.programs.get(&(binary, mapping.in_file(address))));
        if let Some(functions) = binary.filter(|functions| !functions.is_empty()) {
            return Some(functions.iter().map(|f| frame(Some(f.name.clone()), f.inlined)).collect());
        }
        let made = self.perf_maps.get(&space.pid()).filter(|_| mapping.may_be_made());
        Some(vec![frame(made.and_then(|map| map.find(address)).map(Into::into), false)])
    }

    /// The kernel's function at an address.
    pub(super) fn kernel(&self, address: u64) -> Frame {
        let function = self.kernel.find(address);
        Frame {
            function: function.map(|f| f.name.clone()),
            module: function.and_then(|f| f.module.clone()),
            space: profile::Space::Kernel,
            inlined: false,
        }
    }
}

/// The instructions a stack stands at, innermost first. But for the first, an address is where a call returns to, which may
/// belong to the next line or function already: the call is before it.
pub(super) fn instructions(stack: &[u64]) -> impl DoubleEndedIterator<Item = u64> {
    stack.iter().enumerate().map(|(place, &address)| if place == 0 { address } else { address.saturating_sub(1) })
}
