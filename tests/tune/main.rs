//! Tests of `whyslow tune` on the running kernel. Every test runs in its own network and mount namespaces, with its own
//! journal, so that it changes nothing on this machine. The tests need root and report if they lack it.

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
