//! A compiled BPF object: loaded, attached and read.

use super::calls::{attach_iterator, attach_tracepoint, entries, run_iterator};
use super::functions::Functions;
use super::{enums, errors};
use crate::root::Root;
use crate::source_error::SourceError;
use aya::Endianness;
use aya::maps::{Array, HashMap, Map, MapData, MapError, PerCpuArray, PerCpuHashMap, PerCpuValues};
use aya::programs::Program;
use aya::{Btf, BtfError, Ebpf, EbpfError, EbpfLoader, Pod};
use std::collections::BTreeMap;
use std::error::Error;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

/// Includes the compiled crates/sense/bpf/NAME.bpf.c.
macro_rules! include_object {
    ($name:literal) => {
        aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/", $name, ".bpf.o"))
    };
}
pub(crate) use include_object;

/// The kernel's type information (BTF), parsed, and the loader that uses it: about 13 MB and 60 ms. Code that loads several
/// objects holds one of these until all are loaded; dropping the last one frees the memory.
#[derive(Clone)]
pub(crate) struct KernelBtf(Arc<Mutex<BtfLoader>>);

impl KernelBtf {
    /// Parses the BTF unless it is in memory already.
    ///
    /// # Errors
    /// Fails if this kernel or this process may not use BPF, or if the BTF is malformed.
    pub(crate) fn load(root: &Root) -> Result<Self, SourceError> {
        static HELD: Mutex<Weak<Mutex<BtfLoader>>> = Mutex::new(Weak::new());
        errors::check(root)?;
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(loader) = held.upgrade() {
            return Ok(Self(loader));
        }
        let loader =
            BtfLoader::new().map_err(|e| SourceError::Failed(format!("/{}: {}", errors::TYPES, errors::causes(&e))))?;
        let loader = Arc::new(Mutex::new(loader));
        *held = Arc::downgrade(&loader);
        Ok(Self(loader))
    }
}

/// The single loader for all objects: aya parses the BTF again for each loader.
struct BtfLoader {
    /// Borrows `btf`, whatever its lifetime says. Declared first, so it is dropped first.
    loader: EbpfLoader<'static>,
    btf: Box<Btf>,
    functions: Functions,
}

impl BtfLoader {
    fn new() -> Result<Self, BtfError> {
        let mut loader = EbpfLoader::new();
        // Frees the BTF that aya parsed itself before ours is parsed, because one copy in memory is enough.
        loader.btf(None);
        let path = Path::new("/").join(errors::TYPES);
        let mut bytes = fs::read(&path).map_err(|error| BtfError::FileError { path, error })?;
        // Linux 6.12 renumbers these flags, in an anonymous enum (include/linux/blk-mq.h).
        let _ = enums::name_enum_with("__RQF_IO_STAT", "rqf_flags", &mut bytes);
        let btf = Box::new(Btf::parse(&bytes, Endianness::default())?);
        // SAFETY: the BTF is on the heap, where it stays when the BtfLoader moves, and is only borrowed as shared; the
        // EbpfLoader, which holds this reference, never leaves the BtfLoader and is dropped first.
        let borrowed: &'static Btf = unsafe { &*std::ptr::from_ref(&*btf) };
        loader.btf(Some(borrowed));
        Ok(Self { loader, btf, functions: Functions::default() })
    }

    /// Loads an object. Without BTF the fields would not be relocated and the programs would silently read nonsense; this loader
    /// always has it.
    fn load(&mut self, bytes: &[u8]) -> Result<Ebpf, EbpfError> {
        let mut ebpf = self.loader.load(&self.functions.resolve(bytes, &self.btf))?;
        for (name, program) in ebpf.programs_mut() {
            if let Program::BtfTracePoint(program) = program {
                match name.strip_prefix(OPTIONAL) {
                    // A kernel without the tracepoint has no type of this name.
                    Some(name) => drop(program.load(name, &self.btf)),
                    None => program.load(name, &self.btf)?,
                }
            }
        }
        Ok(ebpf)
    }
}

/// The prefix of programs for tracepoints that not every kernel has.
const OPTIONAL: &str = "optional_";

/// The prefix of iterators that are called once.
const ONCE: &str = "once_";

/// A loaded object. Dropping it detaches its programs and frees its maps.
#[derive(Debug)]
pub(crate) struct Object {
    name: &'static str,
    ebpf: Ebpf,
    /// Links of attached tracepoint programs, by name.
    attached: BTreeMap<String, OwnedFd>,
    /// The link of the iterator that was run last: attaching takes longer than running.
    iterator: Option<(String, OwnedFd)>,
}

impl Object {
    /// Loads the object and attaches its tracepoint programs (`SEC("tp_btf/NAME") int NAME(...)`, named after their tracepoints;
    /// `optional_NAME` if a kernel may lack the tracepoint). Iterators are loaded on request
    /// ([`load_iterator`](Self::load_iterator)); programs of other kinds are left to the caller ([`programs`](Self::programs)).
    ///
    /// # Errors
    /// Fails if BPF cannot be used here, this kernel lacks a tracepoint or field, or the verifier rejects a program.
    pub(crate) fn load(name: &'static str, bytes: &[u8], root: &Root) -> Result<Self, SourceError> {
        let btf = KernelBtf::load(root)?;
        let mut loader = btf.0.lock().unwrap_or_else(PoisonError::into_inner);
        let ebpf = loader.load(bytes).map_err(|e| errors::refused(name, &e))?;
        let mut attached = BTreeMap::new();
        for (tracepoint, program) in ebpf.programs() {
            if let Program::BtfTracePoint(program) = program {
                let program = match program.fd() {
                    Err(_) if tracepoint.starts_with(OPTIONAL) => continue,
                    program => program.map_err(|e| errors::refused(name, &e))?,
                };
                let link = attach_tracepoint(program.as_fd()).map_err(|e| errors::refused(name, &e))?;
                attached.insert(tracepoint.to_owned(), link);
            }
        }
        Ok(Self { name, ebpf, attached, iterator: None })
    }

    /// Takes several tracepoint programs with their links, for an owner that detaches and attaches them.
    pub(crate) fn take_tracepoints(&mut self, names: &[&str]) -> Result<(Tracepoints, Attached), SourceError> {
        let descriptor = |tracepoint: &&str| {
            let program = self.ebpf.program(tracepoint).ok_or_else(|| errors::missing(self.name, tracepoint))?;
            let program = program.fd().map_err(|e| errors::failed(self.name, &e))?;
            program.as_fd().try_clone_to_owned().map_err(|e| errors::failed(self.name, &e))
        };
        let programs = names.iter().map(descriptor).collect::<Result<Vec<_>, SourceError>>()?;
        let attached = names.iter().filter_map(|tracepoint| self.attached.remove(*tracepoint)).collect();
        Ok((Tracepoints { object: self.name, programs: programs.into() }, Attached { _links: attached }))
    }

    /// Runs a loaded iterator and returns the file with its output.
    pub(crate) fn iterate(&mut self, iterator: &str) -> Result<File, SourceError> {
        let name = self.name;
        let link = match self.iterator.take() {
            Some((of, link)) if of == iterator => link,
            _ => {
                let program = self.ebpf.program(iterator).ok_or_else(|| errors::missing(name, iterator))?;
                let program = program.fd().map_err(|e| errors::failed(name, &e))?;
                attach_iterator(program.as_fd(), iterator.starts_with(ONCE)).map_err(|e| errors::failed(name, &e))?
            }
        };
        let file = run_iterator(link.as_fd()).map_err(|e| errors::failed(name, &e));
        self.iterator = Some((iterator.to_owned(), link));
        file
    }

    /// Loads an iterator (`SEC("iter/NAME") int NAME(...)`, or `once_NAME` if it is called once), which takes tens of
    /// milliseconds.
    ///
    /// # Errors
    /// Fails if it uses kfuncs that this kernel lacks, or the verifier rejects it.
    pub(crate) fn load_iterator(&mut self, iterator: &str, root: &Root) -> Result<(), SourceError> {
        let btf = KernelBtf::load(root)?;
        let loader = btf.0.lock().unwrap_or_else(PoisonError::into_inner);
        match self.ebpf.program_mut(iterator) {
            Some(Program::Iter(program)) => {
                program.load(over(iterator), &loader.btf).map_err(|e| errors::refused(self.name, &e))
            }
            _ => Err(errors::missing(self.name, iterator)),
        }
    }

    /// Returns a map, to be wrapped in its type: `aya::maps::HashMap::try_from(object.map("requests")?)`.
    pub(crate) fn map(&self, map: &str) -> Result<&Map, SourceError> {
        self.ebpf.map(map).ok_or_else(|| errors::missing(self.name, map))
    }

    pub(crate) fn entries<K: Pod, V: Pod>(&self, map: &str) -> Result<Vec<(K, V)>, SourceError> {
        let map: HashMap<&MapData, K, V> = HashMap::try_from(self.map(map)?).map_err(|e| self.failed(&e))?;
        entries(&map).map_err(|e| self.failed(&e))
    }

    pub(crate) fn per_cpu_entries<K: Pod, V: Pod>(&self, map: &str) -> Result<Vec<(K, PerCpuValues<V>)>, SourceError> {
        let map: PerCpuHashMap<&MapData, K, V> =
            PerCpuHashMap::try_from(self.map(map)?).map_err(|e| self.failed(&e))?;
        map.iter().collect::<Result<_, MapError>>().map_err(|e| self.failed(&e))
    }

    pub(crate) fn element<V: Pod>(&self, map: &str, index: u32) -> Result<V, SourceError> {
        let map: Array<&MapData, V> = Array::try_from(self.map(map)?).map_err(|e| self.failed(&e))?;
        map.get(&index, 0).map_err(|e| self.failed(&e))
    }

    pub(crate) fn per_cpu_element<V: Pod>(&self, map: &str, index: u32) -> Result<PerCpuValues<V>, SourceError> {
        let map: PerCpuArray<&MapData, V> = PerCpuArray::try_from(self.map(map)?).map_err(|e| self.failed(&e))?;
        map.get(&index, 0).map_err(|e| self.failed(&e))
    }

    pub(crate) fn set_element<V: Pod>(&mut self, map: &str, index: u32, value: V) -> Result<(), SourceError> {
        let name = self.name;
        let data = self.ebpf.map_mut(map).ok_or_else(|| errors::missing(name, map))?;
        let mut map: Array<&mut MapData, V> = Array::try_from(data).map_err(|e| errors::failed(name, &e))?;
        map.set(index, value, 0).map_err(|e| errors::failed(name, &e))
    }

    /// Adds an entry to a hash map, or replaces it.
    pub(crate) fn insert<K: Pod, V: Pod>(&mut self, map: &str, key: K, value: V) -> Result<(), SourceError> {
        let name = self.name;
        let data = self.ebpf.map_mut(map).ok_or_else(|| errors::missing(name, map))?;
        let mut map: HashMap<&mut MapData, K, V> = HashMap::try_from(data).map_err(|e| errors::failed(name, &e))?;
        map.insert(key, value, 0).map_err(|e| errors::failed(name, &e))
    }

    /// Returns an entry of a hash map; `None` if there is none.
    pub(crate) fn get<K: Pod, V: Pod>(&self, map: &str, key: &K) -> Result<Option<V>, SourceError> {
        let map: HashMap<&MapData, K, V> = HashMap::try_from(self.map(map)?).map_err(|e| self.failed(&e))?;
        match map.get(key, 0) {
            Ok(value) => Ok(Some(value)),
            Err(MapError::KeyNotFound) => Ok(None),
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// Removes an entry, if present, from a hash map with values of type `V`.
    pub(crate) fn remove<K: Pod, V: Pod>(&mut self, map: &str, key: &K) -> Result<(), SourceError> {
        let name = self.name;
        let data = self.ebpf.map_mut(map).ok_or_else(|| errors::missing(name, map))?;
        let mut map: HashMap<&mut MapData, K, V> = HashMap::try_from(data).map_err(|e| errors::failed(name, &e))?;
        match map.remove(key) {
            Err(MapError::SyscallError(e)) if e.io_error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
            removed => removed.map_err(|e| errors::failed(name, &e)),
        }
    }

    /// Returns the run count and total run time of its programs while the kernel kept statistics (kernel.bpf_stats_enabled).
    pub(crate) fn cost(&self) -> (u64, Duration) {
        let info = self.ebpf.programs().filter_map(|(_, program)| program.info().ok());
        info.fold((0, Duration::ZERO), |(runs, time), info| (runs + info.run_count(), time + info.run_time()))
    }

    /// Converts an error of one of its maps.
    pub(crate) fn failed(&self, error: &(dyn Error + 'static)) -> SourceError {
        errors::failed(self.name, error)
    }

    /// Takes a map that the caller must own, as a ring buffer must be.
    pub(crate) fn take_map(&mut self, map: &str) -> Result<Map, SourceError> {
        self.ebpf.take_map(map).ok_or_else(|| errors::missing(self.name, map))
    }

    pub(crate) fn programs(&mut self) -> impl Iterator<Item = (&str, &mut Program)> {
        self.ebpf.programs_mut()
    }
}

/// Loaded programs that are attached together.
#[derive(Clone, Debug)]
pub(crate) struct Tracepoints {
    object: &'static str,
    programs: Arc<[OwnedFd]>,
}

/// Attached programs; detaches them when dropped.
#[derive(Debug)]
pub(crate) struct Attached {
    _links: Vec<OwnedFd>,
}

impl Tracepoints {
    pub(crate) fn attach(&self) -> Result<Attached, SourceError> {
        let links: io::Result<_> = self.programs.iter().map(|program| attach_tracepoint(program.as_fd())).collect();
        links.map(|links| Attached { _links: links }).map_err(|e| errors::failed(self.object, &e))
    }
}

/// Returns the kind of object that an iterator visits.
fn over(iterator: &str) -> &str {
    iterator.strip_prefix(ONCE).unwrap_or(iterator)
}
