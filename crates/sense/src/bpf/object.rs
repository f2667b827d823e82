//! One compiled BPF object: loaded, attached, read, and gone when dropped.

use super::calls::{attach_iterator, attach_tracepoint, run_iterator};
use super::refusal::{causes, failed, missing, refused};
use super::tracepoints::{Attached, Tracepoints};
use super::{functions, gate};
use crate::root::Root;
use crate::source::Miss;
use aya::maps::Map;
use aya::programs::Program;
use aya::{Btf, BtfError, Ebpf, EbpfError, EbpfLoader};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The bytes of crates/sense/bpf/NAME.bpf.c, compiled.
macro_rules! include_object {
    ($name:literal) => {
        aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/", $name, ".bpf.o"))
    };
}
pub(crate) use include_object;

/// The kernel's type information, parsed, and the loader that works with it: some 13 MB, and 60 ms to make. Whoever loads
/// several objects keeps one of these until all are loaded; the last one dropped gives the memory back.
#[derive(Clone)]
pub(crate) struct Types(Arc<Mutex<Kit>>);

impl Types {
    /// Reads it, unless somebody holds it already.
    ///
    /// # Errors
    /// This kernel or this process may not use BPF; the type information makes no sense.
    pub(crate) fn of(root: &Root) -> Result<Self, Miss> {
        static HELD: Mutex<Weak<Mutex<Kit>>> = Mutex::new(Weak::new());
        gate::check(root)?;
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kit) = held.upgrade() {
            return Ok(Self(kit));
        }
        let kit = Kit::new().map_err(|e| Miss::Failed(format!("/{}: {}", gate::TYPES, causes(&e))))?;
        let kit = Arc::new(Mutex::new(kit));
        *held = Arc::downgrade(&kit);
        Ok(Self(kit))
    }
}

/// One loader for all objects: aya's parses the type information anew for each loader made.
struct Kit {
    /// Borrows `types`, whatever its lifetime says. It stands before them, and so is dropped first.
    loader: EbpfLoader<'static>,
    types: Box<Btf>,
}

impl Kit {
    fn new() -> Result<Self, BtfError> {
        let mut loader = EbpfLoader::new();
        // What it has parsed for itself goes before ours is parsed: one in memory is enough.
        loader.btf(None);
        let types = Box::new(Btf::from_sys_fs()?);
        // SAFETY: the types are on the heap, where they stay when the Kit moves, and are only ever borrowed as shared; the
        // loader, which holds this reference, never leaves the Kit and is dropped before them.
        let borrowed: &'static Btf = unsafe { &*std::ptr::from_ref(&*types) };
        loader.btf(Some(borrowed));
        Ok(Self { loader, types })
    }

    /// Without the kernel's types the fields would not be relocated and the programs read nonsense, in silence: this loader
    /// always has them.
    fn load(&mut self, bytes: &[u8]) -> Result<Ebpf, EbpfError> {
        let mut ebpf = self.loader.load(&functions::resolved(bytes, &self.types))?;
        for (name, program) in ebpf.programs_mut() {
            match program {
                Program::BtfTracePoint(program) => program.load(name, &self.types)?,
                Program::Iter(program) if !name.starts_with(ONCE) => program.load(name, &self.types)?,
                _ => {}
            }
        }
        Ok(ebpf)
    }
}

/// How the names of iterators begin that are called once.
const ONCE: &str = "once_";

/// A loaded object. Dropping it detaches its programs and frees its maps.
#[derive(Debug)]
pub(crate) struct Object {
    name: &'static str,
    ebpf: Ebpf,
    /// Its tracepoint programs at work, by name.
    attached: BTreeMap<String, OwnedFd>,
    /// The iterator that was run last, attached: to attach it takes longer than to begin it.
    iterator: Option<(String, OwnedFd)>,
}

impl Object {
    /// Loads the object and attaches its tracepoint programs (`SEC("tp_btf/NAME") int NAME(...)`: a program has the name of
    /// the tracepoint it belongs to). Iterators are loaded, and run when read; programs of other kinds are left to the
    /// caller ([`programs`](Self::programs)).
    ///
    /// # Errors
    /// BPF cannot be used here; this kernel lacks a tracepoint or a field; its verifier refuses a program.
    pub(crate) fn load(name: &'static str, bytes: &[u8], root: &Root) -> Result<Self, Miss> {
        let types = Types::of(root)?;
        let mut kit = types.0.lock().unwrap_or_else(PoisonError::into_inner);
        let ebpf = kit.load(bytes).map_err(|e| refused(name, &e))?;
        let mut attached = BTreeMap::new();
        for (tracepoint, program) in ebpf.programs() {
            if let Program::BtfTracePoint(program) = program {
                let program = program.fd().map_err(|e| refused(name, &e))?;
                let link = attach_tracepoint(program.as_fd()).map_err(|e| refused(name, &e))?;
                attached.insert(tracepoint.to_owned(), link);
            }
        }
        Ok(Self { name, ebpf, attached, iterator: None })
    }

    /// Some of its tracepoint programs, and that they are attached, to be dropped and attached anew as their owner wants it.
    ///
    /// # Errors
    /// There is none of such a name.
    pub(crate) fn take_tracepoints(&mut self, names: &[&str]) -> Result<(Tracepoints, Attached), Miss> {
        let descriptor = |tracepoint: &&str| {
            let program = self.ebpf.program(tracepoint).ok_or_else(|| missing(self.name, tracepoint))?;
            let program = program.fd().map_err(|e| failed(self.name, &e))?;
            program.as_fd().try_clone_to_owned().map_err(|e| failed(self.name, &e))
        };
        let programs = names.iter().map(descriptor).collect::<Result<Vec<_>, Miss>>()?;
        let attached = names.iter().filter_map(|tracepoint| self.attached.remove(*tracepoint)).collect();
        Ok((Tracepoints::new(self.name, programs), Attached::of(attached)))
    }

    /// Runs an iterator (`SEC("iter/NAME") int NAME(...)`): the file holds what it writes.
    ///
    /// # Errors
    /// There is none of that name, or the kernel does not run it.
    pub(crate) fn iterate(&mut self, iterator: &str) -> Result<File, Miss> {
        let name = self.name;
        let link = match self.iterator.take() {
            Some((of, link)) if of == iterator => link,
            _ => {
                let program = self.ebpf.program(iterator).ok_or_else(|| missing(name, iterator))?;
                let program = program.fd().map_err(|e| failed(name, &e))?;
                attach_iterator(program.as_fd(), iterator.starts_with(ONCE)).map_err(|e| failed(name, &e))?
            }
        };
        let file = run_iterator(link.as_fd()).map_err(|e| failed(name, &e));
        self.iterator = Some((iterator.to_owned(), link));
        file
    }

    /// Loads an iterator that is to be called once (`SEC("iter/NAME") int once_NAME(...)`), which may call functions that not
    /// every kernel has. Whether this one does.
    pub(crate) fn load_once(&mut self, iterator: &str, root: &Root) -> bool {
        let Ok(types) = Types::of(root) else { return false };
        let kit = types.0.lock().unwrap_or_else(PoisonError::into_inner);
        match self.ebpf.program_mut(iterator) {
            Some(Program::Iter(program)) => program.load(over(iterator), &kit.types).is_ok(),
            _ => false,
        }
    }

    /// A map, to be wrapped as what it is: `aya::maps::HashMap::try_from(object.map("requests")?)`.
    ///
    /// # Errors
    /// There is none of that name.
    pub(crate) fn map(&self, map: &str) -> Result<&Map, Miss> {
        self.ebpf.map(map).ok_or_else(|| missing(self.name, map))
    }

    /// The same, to be owned by the caller, as a ring buffer must be.
    ///
    /// # Errors
    /// There is none of that name.
    pub(crate) fn take_map(&mut self, map: &str) -> Result<Map, Miss> {
        self.ebpf.take_map(map).ok_or_else(|| missing(self.name, map))
    }

    /// Its programs, for those that are not attached by [`load`](Self::load).
    pub(crate) fn programs(&mut self) -> impl Iterator<Item = (&str, &mut Program)> {
        self.ebpf.programs_mut()
    }
}

/// What an iterator goes over.
fn over(iterator: &str) -> &str {
    iterator.strip_prefix(ONCE).unwrap_or(iterator)
}
