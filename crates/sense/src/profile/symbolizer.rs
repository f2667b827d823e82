//! Converts addresses to frames. Each address of a file is looked up once, for all processes and stacks.

use super::address_space::{AddressSpaces, MappedFiles, Mapping};
use super::elf_symbols::{self, Function};
use super::perf_map::PerfMap;
use super::recorder::{AddressSpaceId, RawStack};
use crate::kallsyms::KernelSymbols;
use crate::root::Root;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};
use whyslow_documents::profile::{self, Frame};

/// Time limit for reading the symbols of all files. Functions without symbols by then show only the file.
const TIMEOUT: Duration = Duration::from_secs(60);

pub(super) struct Symbolizer<'a> {
    spaces: &'a AddressSpaces,
    kernel: &'a KernelSymbols,
    /// By file and offset.
    functions: HashMap<(usize, u64), Vec<Function>>,
    perf_maps: HashMap<u32, PerfMap>,
    /// Files whose symbols were not read in time.
    unread: usize,
}

impl<'a> Symbolizer<'a> {
    /// Looks up all addresses of the stacks.
    pub(super) fn new<'s>(
        stacks: impl IntoIterator<Item = &'s RawStack>,
        spaces: &'a AddressSpaces,
        kernel: &'a KernelSymbols,
        root: &Root,
    ) -> Self {
        let mut symbolizer = Self { spaces, kernel, functions: HashMap::new(), perf_maps: HashMap::new(), unread: 0 };
        let mut wanted: BTreeMap<usize, BTreeSet<u64>> = BTreeMap::new();
        for stack in stacks {
            for address in instructions(&stack.user) {
                let Some(mapping) = symbolizer.mapping(stack.space, address) else { continue };
                if let Some(file) = mapping.file {
                    wanted.entry(file).or_default().insert(mapping.file_offset(address));
                }
                if mapping.may_be_jit() {
                    let pid = stack.space.pid();
                    symbolizer.perf_maps.entry(pid).or_insert_with(|| PerfMap::read(pid, root));
                }
            }
        }
        symbolizer.read_functions(wanted, &spaces.files);
        symbolizer
    }

    fn read_functions(&mut self, wanted: BTreeMap<usize, BTreeSet<u64>>, files: &MappedFiles) {
        let end = Instant::now() + TIMEOUT;
        for (file, offsets) in wanted {
            let offsets: Vec<u64> = offsets.into_iter().collect();
            let left = end.saturating_duration_since(Instant::now());
            match files.get(file).and_then(|file| elf_symbols::of_file(file, &offsets, left)) {
                Some(functions) => {
                    let places = offsets.into_iter().map(|offset| (file, offset));
                    self.functions.extend(places.zip(functions));
                }
                None => self.unread += 1,
            }
        }
    }

    pub(super) fn has_kernel(&self) -> bool {
        !self.kernel.is_empty()
    }

    pub(super) fn unread(&self) -> usize {
        self.unread
    }

    fn mapping(&self, space: AddressSpaceId, address: u64) -> Option<&Mapping> {
        self.spaces.spaces.get(&space)?.find(address)
    }

    pub(super) fn has_mappings(&self, space: AddressSpaceId) -> bool {
        self.spaces.spaces.contains_key(&space)
    }

    /// Returns the functions at a user address, outermost first; `None` if nothing executable is mapped there.
    pub(super) fn user(&self, space: AddressSpaceId, address: u64) -> Option<Vec<Frame>> {
        let mapping = self.mapping(space, address)?;
        let module = Some(mapping.path.clone()).filter(|path| !path.is_empty());
        let frame =
            |function, inlined| Frame { function, module: module.clone(), space: profile::Space::User, inlined };
        let found = mapping.file.and_then(|file| self.functions.get(&(file, mapping.file_offset(address))));
        if let Some(functions) = found.filter(|functions| !functions.is_empty()) {
            return Some(functions.iter().map(|f| frame(Some(f.name.clone()), f.inlined)).collect());
        }
        let jit = self.perf_maps.get(&space.pid()).filter(|_| mapping.may_be_jit());
        Some(vec![frame(jit.and_then(|map| map.find(address)).map(Into::into), false)])
    }

    pub(super) fn kernel(&self, address: u64) -> Frame {
        let (function, module) = self.kernel.find(address).cloned().unzip();
        Frame { function, module: module.flatten(), space: profile::Space::Kernel, inlined: false }
    }
}

/// Iterates over the instructions of a stack, innermost first. All but the first are return addresses, which may already belong
/// to the next line or function; the call is before them.
pub(super) fn instructions(stack: &[u64]) -> impl DoubleEndedIterator<Item = u64> {
    stack.iter().enumerate().map(|(place, &address)| if place == 0 { address } else { address.saturating_sub(1) })
}
