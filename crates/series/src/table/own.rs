//! Charts of quantities that users declared.

use super::{Amount, ChartSpec, Entities, LineSpec, SourceSpec};
use std::sync::{Mutex, PoisonError};
use whyslow_documents::chart::ChartKind;
use whyslow_quantities::Declaration;
use whyslow_quantities::own::{self, Own};

/// Maximum number of entities in a chart.
const MOST: usize = 6;

/// The charts that were made, each with its quantity. They are never freed: quantities are declared when files of rules are read.
static MADE: Mutex<Vec<(&'static Declaration, &'static ChartSpec)>> = Mutex::new(Vec::new());

/// Returns the chart of each quantity that has one.
pub(super) fn charts() -> Vec<&'static ChartSpec> {
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut chart = |own: Own| {
        let title = own.chart?;
        let known = made.iter().find(|(declaration, _)| std::ptr::eq(*declaration, own.declaration));
        let chart =
            known.map(|(_, chart)| *chart).or_else(|| Some(&*Box::leak(Box::new(spec(own.declaration, title)?))))?;
        if known.is_none() {
            made.push((own.declaration, chart));
        }
        Some(chart)
    };
    own::declared().into_iter().filter_map(&mut chart).collect()
}

/// Returns the chart of a quantity; `None` if its unit has no axis.
fn spec(declaration: &'static Declaration, title: &'static str) -> Option<ChartSpec> {
    let family = declaration.family;
    let (group, entities) = match family.name {
        "disk" => ("disk", Entities::TopWhole(MOST)),
        "cpu" => ("cpu", Entities::TopCpus(MOST)),
        "group" => ("cgroup", Entities::TopLeaves(MOST)),
        "interface" => ("network", Entities::Top(MOST)),
        "nfs" => ("filesystem", Entities::Top(MOST)),
        "process" => {
            let command = family.metrics.iter().position(|metric| metric.name == "command")?;
            ("process", Entities::TopCommands(MOST, command))
        }
        "meminfo" | "vmstat" => ("memory", Entities::Machine),
        "pressure" => ("pressure", Entities::Machine),
        _ => ("cpu", Entities::Machine),
    };
    let unit = match declaration.unit {
        "bytes" => "By",
        "bytes/s" => "By/s",
        "ratio" => "1",
        "s" | "1/s" | "count" | "bit/s" => declaration.unit,
        _ => return None,
    };
    let line = LineSpec { label: "", amount: Amount::Of(declaration) };
    let source = SourceSpec { family, entities, lines: vec![line].leak() };
    Some(ChartSpec {
        id: format!("{group}.{}", declaration.name.replace('.', "_")).leak(),
        title,
        unit,
        help: format!("{}: {}.", declaration.meaning, declaration.formula).leak(),
        kind: ChartKind::Lines,
        is_of_events: false,
        signals: vec![declaration.name].leak(),
        sources: vec![source].leak(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::charts_named;
    use whyslow_quantities::own::{OwnQuantity, declare, parse, withdraw};

    #[test]
    fn a_users_quantity_has_a_chart_beside_those_of_its_kind() {
        let of = |name, chart| OwnQuantity {
            name,
            family: "disk",
            unit: "s",
            meaning: "time of a read",
            of: "read_time",
            per: Some("reads"),
            chart,
            ..OwnQuantity::default()
        };
        let new = [of("chart.read_cost", Some("Cost of a read")), of("chart.not_drawn", None)];
        let new = new.map(|own| parse(&own).unwrap());
        declare(&new);
        let found = charts_named("disk.chart_read_cost").unwrap();
        assert_eq!((found[0].title, found[0].unit, found[0].family()), ("Cost of a read", "s", "disk"));
        assert!(std::ptr::eq(found[0], charts_named("disk.chart_read_cost").unwrap()[0]), "made once");
        assert!(charts_named("disk.chart_not_drawn").is_err());
        withdraw(&new);
        assert!(charts_named("disk.chart_read_cost").is_err());
    }
}
