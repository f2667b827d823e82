//! What the network's BPF programs have in common (crates/sense/bpf/net.h).

use super::namespaces::Namespaces;
use crate::Root;
use std::collections::HashMap;
use whyslow_model::value::Name;

/// The lowest inode a network namespace can have (include/uapi/linux/nsfs.h: NET_NS_INIT_INO). A packet that waits in a
/// socket keeps other things where its interface was; what is read of it then is no namespace.
const FIRST_NAMESPACE: u32 = 0xefff_ff00;

/// `struct place_in_net`: an interface of a network namespace, zeroes where a packet had none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub(super) struct PlaceInNet {
    /// The namespace's inode.
    pub namespace: u32,
    interface: [u8; 16],
}

impl PlaceInNet {
    /// Whether there can be such a place.
    pub fn is_sound(&self) -> bool {
        self.namespace >= FIRST_NAMESPACE
    }

    /// The interface's name, where the packet had one.
    pub fn interface(&self) -> Option<String> {
        text(&self.interface)
    }
}

/// A text of the kernel that ends at its first zero; `None` where it is empty.
pub(super) fn text(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    (end > 0).then(|| String::from_utf8_lossy(&bytes[..end]).into_owned())
}

/// Names of namespaces, looked up once a sample.
pub(super) struct Names<'a> {
    namespaces: &'a Namespaces,
    root: &'a Root,
    known: HashMap<u32, Name>,
}

impl<'a> Names<'a> {
    /// With none looked up.
    pub fn new(namespaces: &'a Namespaces, root: &'a Root) -> Self {
        Self { namespaces, root, known: HashMap::new() }
    }

    /// The name of a namespace.
    pub fn of(&mut self, inode: u32) -> Name {
        let look_up = || self.namespaces.name_of(self.root, inode.into());
        self.known.entry(inode).or_insert_with(look_up).clone()
    }
}
