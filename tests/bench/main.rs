//! Tests of `whyslow bench` from the outside: what it refuses to touch, what it leaves behind, and whether its
//! accounting is right.

mod ended;
mod fio;
mod fixture;
mod in_use;
mod journal;
mod layers;
mod machine;
mod measured;
mod net;
#[path = "../skip/mod.rs"]
mod skip;
mod written;
