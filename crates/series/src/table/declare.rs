//! Declaration of charts.

use whyslow_documents::chart::{Chart, ChartKind};
use whyslow_model::catalogue::{FamilyInfo, Unit};
use whyslow_quantities::{Declaration, Expression};

/// Declaration of a chart.
#[derive(Debug)]
pub struct ChartSpec {
    /// Unique name.
    pub id: &'static str,
    /// Title above the chart.
    pub title: &'static str,
    /// Unit of the values.
    pub unit: &'static str,
    /// One sentence on what the chart shows.
    pub help: &'static str,
    /// Kind of chart.
    pub kind: ChartKind,
    /// True if the chart is left out when all its counts are zero.
    pub(crate) is_of_events: bool,
    /// Signals of the diagnosis whose numbers the chart shows.
    pub signals: &'static [&'static str],
    /// Sources of the values. The first one that has data is used.
    pub(crate) sources: &'static [SourceSpec],
}

impl ChartSpec {
    /// Returns the group of charts that it belongs to.
    pub fn family(&self) -> &'static str {
        self.id.split_once('.').map_or(self.id, |(family, _)| family)
    }

    /// Returns the families of the catalogue that it can be computed from.
    pub fn read_from(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.sources.iter().map(|source| source.family.name)
    }

    /// Returns true if it shows the total of all entities of a family, not single entities.
    pub fn is_of_all(&self, family: &str) -> bool {
        let mut sources = self.sources.iter().filter(|source| source.family.name == family);
        sources.all(|source| matches!(source.entities, Entities::Machine | Entities::Sum))
    }

    /// Returns the chart without data.
    pub fn outline(&self) -> Chart {
        Chart {
            id: self.id.to_owned(),
            title: self.title.to_owned(),
            family: self.family().to_owned(),
            unit: self.unit.to_owned(),
            help: self.help.to_owned(),
            kind: self.kind,
            signals: self.signals.iter().map(|&signal| signal.to_owned()).collect(),
            ..Chart::default()
        }
    }
}

/// A family that a chart is computed from.
#[derive(Debug)]
pub(crate) struct SourceSpec {
    pub(crate) family: &'static FamilyInfo,
    pub(crate) entities: Entities,
    pub(crate) lines: &'static [LineSpec],
}

impl SourceSpec {
    /// Returns the columns that it needs.
    pub(crate) fn columns(&self) -> impl Iterator<Item = usize> {
        self.lines.iter().flat_map(|line| line.amount.columns()).chain(self.entities.column())
    }
}

/// Selection of the entities of a family that get series in a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entities {
    /// The machine: a family with one row.
    Machine,
    /// Up to this many entities, those with the largest means.
    Top(usize),
    /// Up to this many whole devices. Partitions, for which the kernel has no number, count with their disk.
    TopWhole(usize),
    /// Up to this many control groups without groups below them.
    TopLeaves(usize),
    /// Up to this many CPUs.
    TopCpus(usize),
    /// Up to this many processes, named by their command, which is in this column, and PID.
    TopTasks(usize, usize),
    /// Up to this many file systems, whose numbers are in this column, each by its shortest mount point.
    TopFileSystems(usize, usize),
    /// Up to this many network namespaces, by name. The observer's own has none.
    TopNamespaces(usize),
    /// The sum over all entities.
    Sum,
    /// Up to this many sums over entities whose key has the same first part: a softirq vector on all CPUs.
    TopNames(usize),
    /// Up to this many sums over an interrupt line on all CPUs, with its devices, which are in this column.
    TopLines(usize, usize),
    /// Up to this many sums over the processes with the same command, which is in this column.
    TopCommands(usize, usize),
}

impl Entities {
    /// Returns the column with the command, number or devices that decides which entities belong together.
    pub(crate) fn column(self) -> Option<usize> {
        match self {
            Self::TopTasks(_, column)
            | Self::TopCommands(_, column)
            | Self::TopLines(_, column)
            | Self::TopFileSystems(_, column) => Some(column),
            _ => None,
        }
    }
}

/// A series of each entity.
#[derive(Debug)]
pub(crate) struct LineSpec {
    /// Suffix of the entity's name.
    pub(crate) label: &'static str,
    pub(crate) amount: Amount,
}

/// Computation of a value from columns of the catalogue.
#[derive(Debug)]
pub(crate) enum Amount {
    /// A quantity.
    Of(&'static Declaration),
    /// Sum of the known `plus` gauges, minus the sum of the `minus` gauges, all of which must be known.
    Level { plus: &'static [usize], minus: &'static [usize] },
    /// The sum of the `plus` gauges minus that of the `minus` gauges, as a share of the former. All must be known.
    Part { plus: &'static [usize], minus: &'static [usize] },
    /// The values added to a histogram.
    Values { of: usize },
}

impl Amount {
    /// Returns true if the amount is per second.
    pub(crate) fn is_rate(&self) -> bool {
        let of_rate = |quantity: &Declaration| matches!(quantity.expression, Expression::Rate(_));
        matches!(self, Self::Of(quantity) if of_rate(quantity))
    }

    /// Returns the columns that it needs.
    pub(crate) fn columns(&self) -> Vec<usize> {
        match self {
            Self::Of(quantity) => quantity.expression.columns().collect(),
            Self::Level { plus, minus } | Self::Part { plus, minus } => [*plus, *minus].concat(),
            Self::Values { of } => vec![*of],
        }
    }
}

/// Returns the chart unit for the values of a column, and the conversion factor.
pub(crate) fn converted(unit: Unit) -> (&'static str, f64) {
    match unit {
        Unit::Nanoseconds => ("s", 1e-9),
        Unit::Bytes => ("By", 1.0),
        Unit::Count | Unit::Text => ("count", 1.0),
        Unit::Ratio => ("1", 1.0),
        Unit::BitsPerSecond => ("bit/s", 1.0),
        Unit::Hertz => ("Hz", 1.0),
        Unit::Celsius => ("Cel", 1.0),
    }
}

/// Declares charts: id, title, unit, help; kind; the signals it shows; and for each family the entities and their lines.
///
/// ```text
/// "disk.latency" "Latency of requests" in "s" "Time per request, from being made until done.";
/// Lines; shows "disk.wait" "disk.read_wait";
/// Disk, TopWhole(6) { "reads": of(disk::READ_WAIT); }
/// ```
macro_rules! chart_table {
    ($(
        $id:literal $title:literal in $unit:literal $help:literal;
        $kind:ident $($events:literal)?; shows $($signal:literal)*;
        $( $Family:ident, $Entities:ident $(($($most:tt)+))? { $( $label:literal: $how:ident($($columns:tt)+); )+ } )+
    )*) => {
        pub(super) static CHARTS: &[$crate::table::ChartSpec] = &[ $( $crate::table::ChartSpec {
            id: $id,
            title: $title,
            unit: $unit,
            help: $help,
            kind: whyslow_documents::chart::ChartKind::$kind,
            is_of_events: $( !stringify!($events).is_empty() || )? false,
            signals: &[ $($signal),* ],
            sources: &[ $( $crate::table::SourceSpec {
                family: &<$Family as whyslow_model::catalogue::Family>::INFO,
                entities: $crate::table::declare::entities!($Family $Entities $(($($most)+))?),
                lines: &[ $( $crate::table::LineSpec {
                    label: $label,
                    amount: $crate::table::declare::amount!($Family $how $($columns)+),
                } ),+ ],
            } ),+ ],
        } ),* ];
    };
}

macro_rules! entities {
    ($Family:ident $Entities:ident) => { $crate::table::Entities::$Entities };
    ($Family:ident $Entities:ident ($most:literal)) => { $crate::table::Entities::$Entities($most) };
    ($Family:ident $Entities:ident ($most:literal by $name:ident)) => {
        $crate::table::Entities::$Entities($most, $crate::table::declare::at!($Family $name))
    };
}

macro_rules! at {
    ($Family:ident $name:ident) => {
        whyslow_quantities::column(&<$Family as whyslow_model::catalogue::Family>::INFO, stringify!($name))
    };
}

macro_rules! amount {
    ($Family:ident of $($quantity:tt)+) => { $crate::table::Amount::Of(&$($quantity)+.declaration) };
    ($Family:ident level $($plus:ident)+ $(- $($minus:ident)+)?) => {
        $crate::table::Amount::Level {
            plus: &[ $( $crate::table::declare::at!($Family $plus) ),+ ],
            minus: &[ $( $( $crate::table::declare::at!($Family $minus) ),+ )? ],
        }
    };
    ($Family:ident part $($plus:ident)+ - $($minus:ident)+) => {
        $crate::table::Amount::Part {
            plus: &[ $( $crate::table::declare::at!($Family $plus) ),+ ],
            minus: &[ $( $crate::table::declare::at!($Family $minus) ),+ ],
        }
    };
    ($Family:ident values $of:ident) => {
        $crate::table::Amount::Values { of: $crate::table::declare::at!($Family $of) }
    };
}

pub(crate) use {amount, at, chart_table, entities};
