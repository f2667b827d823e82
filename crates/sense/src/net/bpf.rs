//! What the network's BPF programs have in common (crates/sense/bpf/net.h).

use super::namespaces::Namespaces;
use crate::Root;
use crate::bpf::{c_string, c_struct};
use std::collections::HashMap;
use whyslow_model::value::Name;

/// The lowest inode of a network namespace (include/uapi/linux/nsfs.h: NET_NS_INIT_INO). While a packet waits in a socket, its
/// interface pointer holds other data, which reads as no namespace.
const FIRST_NAMESPACE: u32 = 0xefff_ff00;

c_struct! {
    /// `struct netns_interface`: an interface in a network namespace, zeros if the packet has none.
    #[derive(Debug, PartialEq, Eq, Hash)]
    pub(super) struct NetLocation {
        /// The namespace's inode.
        pub(super) namespace: u32,
        interface: [u8; 16],
    }
}

impl NetLocation {
    pub(super) fn is_valid(&self) -> bool {
        self.namespace >= FIRST_NAMESPACE
    }

    pub(super) fn interface(&self) -> Option<String> {
        c_string(&self.interface)
    }
}

/// Names of namespaces, looked up once per sample.
pub(super) struct NamespaceNames<'a> {
    namespaces: &'a Namespaces,
    root: &'a Root,
    names: HashMap<u32, Name>,
}

impl<'a> NamespaceNames<'a> {
    pub(super) fn new(namespaces: &'a Namespaces, root: &'a Root) -> Self {
        Self { namespaces, root, names: HashMap::new() }
    }

    pub(super) fn get(&mut self, inode: u32) -> Name {
        let look_up = || self.namespaces.name_of(self.root, inode.into());
        self.names.entry(inode).or_insert_with(look_up).clone()
    }
}
