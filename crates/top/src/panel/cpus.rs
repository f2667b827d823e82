//! CPUs: time by mode.

use super::{Context, over, ratio, sum};
use crate::entity::EntityId;
use crate::table::{Column, Row, Value};
use whyslow_model::catalogue::{Cpu, Frequency};
use whyslow_model::window::Change;

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

/// A CPU's time by mode: seconds a second.
pub(crate) struct Modes {
    pub(crate) user: Option<f64>,
    pub(crate) system: Option<f64>,
    pub(crate) interrupt: Option<f64>,
    pub(crate) steal: Option<f64>,
    pub(crate) iowait: Option<f64>,
    pub(crate) idle: Option<f64>,
}

impl Modes {
    pub(crate) fn of(change: &Change<'_, Cpu>) -> Self {
        Self {
            user: ratio(sum([change.rate(|c| c.user), change.rate(|c| c.nice)])),
            system: ratio(change.rate(|c| c.system)),
            interrupt: ratio(sum([change.rate(|c| c.irq), change.rate(|c| c.softirq)])),
            steal: ratio(change.rate(|c| c.steal)),
            iowait: ratio(change.rate(|c| c.iowait)),
            idle: ratio(change.rate(|c| c.idle)),
        }
    }

    pub(crate) fn busy(&self) -> Option<f64> {
        sum([self.user, self.system, self.interrupt])
    }

    pub(crate) fn all(&self) -> Option<f64> {
        sum([self.busy(), self.steal, self.iowait, self.idle])
    }
}

pub(super) fn rows(context: &Context<'_>) -> Vec<Row> {
    let frequencies = context.window.newest::<Frequency>();
    let changes = context.rates.changes::<Cpu>();
    changes
        .iter()
        .map(|change| {
            let modes = Modes::of(change);
            let share = |part: Option<f64>| Value::share(over(part, modes.all()));
            let cells = vec![
                // In the order of their numbers.
                Value::Words(format!("{:>4}", change.key())),
                share(modes.busy()),
                share(modes.user),
                share(modes.system),
                share(modes.interrupt),
                share(modes.steal),
                share(modes.iowait),
                share(modes.idle),
                Value::number(frequencies.get(change.key()).and_then(|f| f.current.get()), "Hz"),
            ];
            Row::new(EntityId::Cpu(*change.key()), cells)
        })
        .collect()
}
