//! Quantities computed from the metrics of the catalogue. Each is declared once.
//!
//! A quantity is an amount per unit: bytes per second, seconds per request. Counters grow between two readings of an entity,
//! which is a *step*. An [`Expression`] turns that growth into an amount and a number of units. Both add up over steps, so that
//! one declaration gives the value over a [`Window`](whyslow_model::window::Window) ([`Quantity::over`]), in an interval of a
//! chart ([`Expression::step`]) and over a table of growth in SQL ([`Declaration::sql`]), and the formula that is printed.
//!
//! Unknown is not zero, in any of the three:
//!
//! - The growth of a counter in a step is unknown if the counter was not read at both ends, was reset, or belongs to another
//!   entity of the same name. A counter that wraps grew by what is left after the wrap.
//! - A sum is unknown in a step in which one of its counters is; but an [optional](Term::is_optional) one is then left out of the
//!   sum.
//! - A [quotient](Expression::Quotient) counts a step in which its amount and its units are both known. One run's bytes say
//!   nothing about another run's requests.
//! - Nothing per nothing is unknown. Nothing per something is 0.

mod declare;
mod expression;
mod formula;
mod over;
mod sql;

pub mod bounded;
pub mod connection;
pub mod cpu;
pub mod disk;
pub mod group;
pub mod interface;
pub mod interrupt;
pub mod nfs;
pub mod node;
pub mod own;
pub mod pressure;
pub mod process;
pub mod protocol;
pub mod qdisc;
pub mod system;
pub mod vmstat;
pub mod whole;

pub use declare::{Declaration, Quantity, column};
pub use expression::{Expression, Pair, StepAmount, Sum, Term};
pub(crate) use formula::Formula;
pub use over::growths;
pub use whyslow_model::normal::{Better, Normal, Range, Words};

/// Returns all quantities.
pub fn all() -> impl Iterator<Item = &'static Declaration> {
    let all = [
        connection::ALL,
        cpu::ALL,
        cpu::mean::ALL,
        disk::ALL,
        group::ALL,
        group::io::ALL,
        interface::ALL,
        interrupt::line::ALL,
        interrupt::softirq::ALL,
        interrupt::softnet::ALL,
        nfs::ALL,
        node::ALL,
        pressure::ALL,
        process::ALL,
        process::thread::ALL,
        protocol::ALL,
        qdisc::ALL,
        system::ALL,
        vmstat::ALL,
    ];
    all.into_iter().flatten().copied()
}
