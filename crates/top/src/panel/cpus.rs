//! Table of CPUs: time by mode.

use super::Context;
use crate::entity::EntityId;
use crate::table::{Column, Row, Value};
use whyslow_model::catalogue::{Cpu, Frequency};
use whyslow_quantities::{Quantity, cpu};

pub(super) const COLUMNS: [Column; 9] = [
    Column::number("CPU", 4, 0),
    Column::number("BUSY", 7, 1),
    Column::number("USER", 7, 2),
    Column::number("SYSTEM", 7, 3),
    Column::number("INTERRUPT", 9, 5),
    Column::number("STEAL", 7, 4),
    Column::number("I/O WAIT", 8, 6),
    Column::number("IDLE", 7, 7),
    Column::number("FREQUENCY", 9, 8),
];

pub(super) fn rows(context: &Context<'_>) -> Vec<Row> {
    let frequencies = context.window.newest::<Frequency>();
    let changes = context.rates.changes::<Cpu>();
    changes
        .iter()
        .map(|change| {
            let share = |of: &Quantity<Cpu>| Value::share(of.over(change));
            let cells = vec![
                // Padded, so that CPUs sort by number.
                Value::Words(format!("{:>4}", change.key())),
                share(&cpu::BUSY),
                share(&cpu::USER),
                share(&cpu::SYSTEM),
                share(&cpu::INTERRUPT),
                share(&cpu::STEAL),
                share(&cpu::IOWAIT),
                share(&cpu::IDLE),
                Value::number(frequencies.get(change.key()).and_then(|f| f.current.get()), "Hz"),
            ];
            Row::new(EntityId::Cpu(*change.key()), cells)
        })
        .collect()
}
