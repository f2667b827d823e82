//! Table of charts: what each shows, and the catalogue columns that it is computed from.

mod cpu;
mod declare;
mod disk;
mod group;
mod memory;
mod network;
mod own;

pub use declare::ChartSpec;
pub(crate) use declare::{Amount, Entities, LineSpec, SourceSpec, converted};

/// Returns all charts, in the order of a report: those of the program, then those of quantities that users declared.
pub fn charts() -> impl Iterator<Item = &'static ChartSpec> {
    let built_in = [cpu::CHARTS, memory::CHARTS, disk::CHARTS, network::CHARTS, group::CHARTS];
    built_in.into_iter().flatten().chain(own::charts())
}

/// Returns the charts with the ids in a comma-separated list, in the order of [`charts`].
///
/// # Errors
/// Fails if a chart does not exist.
pub fn charts_named(list: &str) -> Result<Vec<&'static ChartSpec>, String> {
    let spec = |asked: &str| {
        // An id such as `ID@ENTITY` selects the charts of all entities, as for heat maps.
        let id = asked.split_once('@').map_or(asked, |(id, _)| id);
        charts().find(|chart| chart.id == id).ok_or_else(|| format!("there is no chart '{asked}'"))
    };
    let mut specs: Vec<&'static ChartSpec> = list.split(',').map(spec).collect::<Result<_, _>>()?;
    specs.sort_by_key(|spec| charts().position(|chart| chart.id == spec.id));
    specs.dedup_by_key(|spec| spec.id);
    Ok(specs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use whyslow_documents::chart::ChartKind;
    use whyslow_model::catalogue::{Metric, Unit};

    #[test]
    fn ids_are_unique_and_begin_with_their_family() {
        let mut ids = BTreeSet::new();
        let mut families: Vec<&str> = Vec::new();
        for chart in charts() {
            assert!(ids.insert(chart.id), "{} twice", chart.id);
            assert!(chart.id.split_once('.').is_some_and(|(_, name)| !name.is_empty()), "{}", chart.id);
            assert!(!chart.title.is_empty() && chart.help.ends_with('.') && !chart.sources.is_empty(), "{}", chart.id);
            if families.last() != Some(&chart.family()) {
                families.push(chart.family());
            }
        }
        assert_eq!(families, ["cpu", "pressure", "memory", "disk", "filesystem", "network", "cgroup", "process"]);
    }

    /// Returns the unit of an amount.
    fn unit(amount: &Amount, metrics: &[Metric], chart: &str) -> &'static str {
        let of = |columns: &[usize]| {
            let units: BTreeSet<&str> = columns.iter().map(|column| converted(metrics[*column].unit).0).collect();
            assert_eq!(units.len(), 1, "{chart}: columns of several units");
            units.into_iter().next().unwrap()
        };
        match amount {
            Amount::Of(quantity) => match quantity.unit {
                "bytes" => "By",
                "bytes/s" => "By/s",
                "ratio" | "count" => "1",
                other => other,
            },
            Amount::Level { plus, minus } => {
                assert!(minus.is_empty() || of(minus) == of(plus), "{chart}");
                of(plus)
            }
            Amount::Part { .. } => "1",
            Amount::Values { of: column } => converted(metrics[*column].unit).0,
        }
    }

    #[test]
    fn units_follow_from_those_of_the_catalogue() {
        for chart in charts() {
            for source in chart.sources {
                for line in source.lines {
                    let computed = unit(&line.amount, source.family.metrics, chart.id);
                    let fits = match chart.unit {
                        // Time per time: the mean number of CPUs or tasks.
                        "count" => ["1", "count"].contains(&computed),
                        "bit/s" => ["By/s", "bit/s"].contains(&computed),
                        unit => unit == computed,
                    };
                    assert!(fits, "{}: {computed} in {}", chart.id, chart.unit);
                }
            }
        }
    }

    #[test]
    fn charts_are_named_by_their_ids_in_any_order() {
        let ids = |list: &str| charts_named(list).map(|specs| specs.iter().map(|spec| spec.id).collect::<Vec<_>>());
        assert_eq!(
            ids("disk.device_time@read on sda,cpu.modes,disk.device_time@write on sda"),
            Ok(vec!["cpu.modes", "disk.device_time"])
        );
        for list in ["", "cpu.modes,", "cpu", "cpu.modes@,disk"] {
            assert!(ids(list).is_err(), "{list}");
        }
    }

    #[test]
    fn heat_maps_are_of_histograms_and_others_are_not() {
        for chart in charts() {
            let amounts = chart.sources.iter().flat_map(|source| source.lines).map(|line| &line.amount);
            for amount in amounts {
                assert_eq!(matches!(amount, Amount::Values { .. }), chart.kind == ChartKind::Heat, "{}", chart.id);
            }
        }
        assert_eq!(converted(Unit::Nanoseconds), ("s", 1e-9));
    }
}
