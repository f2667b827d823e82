//! `whyslow tune` on the running kernel. Every test is in network and mount namespaces of its own, with a journal of its own,
//! so that nothing of this machine is changed; it needs root, and says so where it is not.

mod cage;
mod changes;
mod disk;
mod disks;
mod forged;
mod full;
mod group;
mod interfaces;
mod interrupted;
mod killed;
mod known;
mod load;
mod postgres;
mod profiles;
mod refused;
mod scheduler;
#[path = "../skip/mod.rs"]
mod skip;
mod tracer;
mod trial;
mod walked;
mod wire;
