//! How charts are declared.

use whyslow_model::catalogue::{FamilyInfo, Unit};
use whyslow_model::chart::{Chart, ChartKind};
use whyslow_quantities::{Declaration, Expression};

/// A chart, as declared.
#[derive(Debug)]
pub struct ChartSpec {
    /// Its name.
    pub id: &'static str,
    /// Its title.
    pub title: &'static str,
    /// The unit of its values.
    pub unit: &'static str,
    /// One sentence on what is shown.
    pub help: &'static str,
    /// How it is drawn.
    pub kind: ChartKind,
    /// Whether it is left out if nothing of what it counts happened.
    pub(crate) is_of_events: bool,
    /// The signals of the diagnosis whose numbers can be seen in it.
    pub signals: &'static [&'static str],
    /// Where its values come from: the first source that has data.
    pub(crate) sources: &'static [SourceSpec],
}

impl ChartSpec {
    /// The group of charts it belongs to.
    pub fn family(&self) -> &'static str {
        self.id.split_once('.').map_or(self.id, |(family, _)| family)
    }

    /// The families of the catalogue that it can be computed from.
    pub fn read_from(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.sources.iter().map(|source| source.family.name)
    }

    /// Whether it shows what all entities of a family did together, and not one of them.
    pub fn is_of_all(&self, family: &str) -> bool {
        let mut sources = self.sources.iter().filter(|source| source.family.name == family);
        sources.all(|source| matches!(source.entities, Entities::Machine | Entities::Sum))
    }

    /// The chart without data.
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
    /// The columns it needs.
    pub(crate) fn columns(&self) -> impl Iterator<Item = usize> {
        self.lines.iter().flat_map(|line| line.amount.columns()).chain(self.entities.column())
    }
}

/// Which entities of a family a chart has series of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entities {
    /// The machine: a family of one row.
    Machine,
    /// So many, those with the largest means.
    Top(usize),
    /// So many whole devices: partitions, which have no number of the kernel's, count with their disk.
    TopWhole(usize),
    /// So many control groups without groups below them.
    TopLeaves(usize),
    /// So many CPUs.
    TopCpus(usize),
    /// So many processes, by their command, which is in this column, and number.
    TopTasks(usize, usize),
    /// So many file systems, whose numbers are in this column, each by its shortest mount point.
    TopFileSystems(usize, usize),
    /// So many network namespaces, by their names; the observer's own has none.
    TopNamespaces(usize),
    /// The sum over all.
    Sum,
    /// So many sums, each over the entities of the same name, which is the first part of the key: a vector of softirqs on all CPUs.
    TopNames(usize),
    /// So many sums, each over an interrupt line on all CPUs, with the devices behind it, which are in this column.
    TopLines(usize, usize),
    /// So many sums, each over the processes with the same command, which is in this column.
    TopCommands(usize, usize),
}

impl Entities {
    /// The column with the command, the number or the devices that say what belongs together.
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
    /// What is added to the name of the entity.
    pub(crate) label: &'static str,
    pub(crate) amount: Amount,
}

/// How a value is computed from columns of the catalogue.
#[derive(Debug)]
pub(crate) enum Amount {
    /// A quantity.
    Of(&'static Declaration),
    /// Growth of counters per second; of those that are known.
    Rate { of: &'static [usize] },
    /// Gauges: the sum of those that are known, less others, which must be known.
    Level { plus: &'static [usize], minus: &'static [usize] },
    /// Growth of counters per growth of others, or of further ones if those are not known.
    Ratio { of: &'static [usize], per: &'static [usize], or: &'static [usize] },
    /// What is left of gauges after others are subtracted, as a share of what they are together; all must be known.
    Part { plus: &'static [usize], minus: &'static [usize] },
    /// The values that were added to a histogram.
    Values { of: usize },
}

impl Amount {
    /// Whether it is per second.
    pub(crate) fn is_rate(&self) -> bool {
        let of_rate = |quantity: &Declaration| matches!(quantity.expression, Expression::Rate(_));
        matches!(self, Self::Rate { .. }) || matches!(self, Self::Of(quantity) if of_rate(quantity))
    }

    /// The columns it needs.
    pub(crate) fn columns(&self) -> Vec<usize> {
        match self {
            Self::Of(quantity) => quantity.expression.columns().collect(),
            Self::Rate { of } => of.to_vec(),
            Self::Level { plus, minus } | Self::Part { plus, minus } => [*plus, *minus].concat(),
            Self::Ratio { of, per, or } => [*of, *per, *or].concat(),
            Self::Values { of } => vec![*of],
        }
    }
}

/// The unit of a chart for values of a column, and the factor to it.
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
            kind: whyslow_model::chart::ChartKind::$kind,
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
    ($Family:ident rate $($of:ident)+) => {
        $crate::table::Amount::Rate { of: &[ $( $crate::table::declare::at!($Family $of) ),+ ] }
    };
    ($Family:ident level $($plus:ident)+ $(- $($minus:ident)+)?) => {
        $crate::table::Amount::Level {
            plus: &[ $( $crate::table::declare::at!($Family $plus) ),+ ],
            minus: &[ $( $( $crate::table::declare::at!($Family $minus) ),+ )? ],
        }
    };
    ($Family:ident ratio $($of:ident)+ / $($per:ident)+ $(| $($or:ident)+)?) => {
        $crate::table::Amount::Ratio {
            of: &[ $( $crate::table::declare::at!($Family $of) ),+ ],
            per: &[ $( $crate::table::declare::at!($Family $per) ),+ ],
            or: &[ $( $( $crate::table::declare::at!($Family $or) ),+ )? ],
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
