//! Everything there is to judge, computed once from a Window.

use crate::signal::{Entity, Scope};
use crate::signals::{
    connection, core, disk, group, host, interface, io, kill, limit, mount, peer, process, quota, socket, task, thread,
};
use std::collections::BTreeMap;
use whyslow_model::catalogue::Process;
use whyslow_model::diagnosis::{Reading, Subject};
use whyslow_model::topology::Topology;
use whyslow_model::window::Window;

/// The entities of a window, with their signals.
#[derive(Debug)]
pub struct Facts {
    /// The machine.
    pub host: Entity,
    /// What lies on what.
    pub topology: Topology,
    entities: BTreeMap<Scope, Vec<Entity>>,
}

impl Facts {
    /// Computes all signals.
    pub fn of(window: &Window) -> Self {
        let changes = window.changes::<Process>();
        let processes = task::processes(window, &changes);
        let threads = task::threads(window, &processes);
        let host = Entity::new(Subject::host(), host::read(&host::HostUse::new(window, &processes)));
        let topology = Topology::of(window);
        let stall = number(&host, Scope::Host, "stall.io");
        let uses = io::uses(window, &topology, &processes, &changes);
        let entities = BTreeMap::from([
            (Scope::Host, vec![host.clone()]),
            (Scope::Core, core::entities(window)),
            (Scope::Disk, disk::entities(window, &topology, stall, &uses)),
            (Scope::Quota, quota::entities(window)),
            (Scope::Mount, mount::entities(window)),
            (Scope::Group, group::entities(window)),
            (Scope::Process, process::entities(&processes, &changes)),
            (Scope::Thread, thread::entities(&threads)),
            (Scope::Io, io::entities(&uses)),
            (Scope::Kill, kill::entities(window)),
            (Scope::Interface, interface::entities(window, &threads)),
            (Scope::Connection, connection::entities(window)),
            (Scope::Peer, peer::entities(window)),
            (Scope::Listener, socket::listener::entities(window)),
            (Scope::Datagram, socket::datagram::entities(window)),
            (Scope::Limit, limit::entities(window)),
        ]);
        Self { host, topology, entities }
    }

    /// The entities of one kind.
    pub fn entities(&self, scope: Scope) -> &[Entity] {
        self.entities.get(&scope).map_or(&[], Vec::as_slice)
    }

    /// A signal of the host.
    pub fn host_number(&self, name: &str) -> Option<f64> {
        number(&self.host, Scope::Host, name)
    }
}

fn number(entity: &Entity, scope: Scope, name: &str) -> Option<f64> {
    let at = scope.signals().iter().position(|s| s.name == name)?;
    match entity.values.get(at)?.as_ref()? {
        Reading::Number(n) => Some(*n),
        Reading::Text(_) => None,
    }
}
