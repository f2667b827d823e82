//! Builds charts from readings.

use crate::axis::{Axis, Samples};
use crate::heat::HeatPlot;
use crate::plot::{Before, DrawnSeries, Plot};
use crate::step::is_same_entity;
use crate::table::{ChartSpec, SourceSpec};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use whyslow_documents::chart::{Chart, ChartKind};
use whyslow_model::catalogue::{EachFamily, Family, FamilyInfo};
use whyslow_model::key::{Key, KeyPart};
use whyslow_model::row::{ColumnReading, ColumnSelection, SampleTime};
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::Value;

/// Maximum number of columns of a heat map.
const MOST_COLUMNS: usize = 240;

/// Names of series, by chart id.
pub type SeriesNames = BTreeMap<String, BTreeSet<String>>;

/// Samples of charts, and the intervals of their time axes.
pub struct ChartAxes {
    samples: Samples,
    axis: Axis,
    /// One interval per sample, for sums whose minimum and maximum matter.
    fine: Axis,
    /// Intervals of heat maps, which are coarser.
    heat: Axis,
}

impl ChartAxes {
    /// Creates the axes over these samples, with about `most` intervals at most. A capture has readings at irregular times, so
    /// that missing ones cannot be detected.
    pub fn new(samples: Vec<SampleTime>, most: usize, is_capture: bool) -> Self {
        let samples = Samples::new(samples, !is_capture);
        let axis = Axis::new(&samples, most);
        let heat = Axis::new(&samples, most.min(MOST_COLUMNS));
        Self { axis, heat, fine: Axis::of_each(&samples), samples }
    }
}

/// Computes charts from readings.
pub struct ChartBuilder {
    axes: Arc<ChartAxes>,
    specs: Vec<&'static ChartSpec>,
    families: Vec<FamilyReadings>,
    kept: SeriesNames,
}

/// The columns to read of a family, and the charts computed from them.
struct FamilyReadings {
    info: &'static FamilyInfo,
    selection: ColumnSelection,
    by_key: HashMap<Vec<KeyPart>, usize>,
    entities: Vec<Entity>,
    /// The entity of the previous reading. Checked first, because recordings are sorted by entity.
    current: usize,
    plots: Vec<Plot>,
    heat_plots: Vec<HeatPlot>,
}

/// An entity and its previous reading.
struct Entity {
    key: Vec<KeyPart>,
    name: String,
    /// The sample of that reading; `None` before the first.
    sample: Option<usize>,
    values: Vec<Value>,
    /// Nanoseconds between the two previous readings.
    step: Option<u64>,
}

impl ChartBuilder {
    /// Creates a builder for these charts.
    pub fn new(specs: Vec<&'static ChartSpec>, axes: Arc<ChartAxes>) -> Self {
        let mut builder = Self { axes, specs, families: Vec::new(), kept: SeriesNames::new() };
        for spec in builder.specs.clone() {
            for source in spec.sources {
                builder.select(spec, source);
            }
        }
        builder.plot();
        builder
    }

    /// Also draws these series where they are known, however small or idle their entities are. Charts that already have them can
    /// then be continued.
    pub fn also_drawing(self, kept: SeriesNames) -> Self {
        Self { kept, ..self }
    }

    /// Returns the columns to read. [`add`](Self::add) refers to them by their position.
    pub fn selections(&self) -> Vec<ColumnSelection> {
        self.families.iter().map(|family| family.selection.clone()).collect()
    }

    /// Adds the columns of a source to those to read of its family.
    fn select(&mut self, spec: &ChartSpec, source: &'static SourceSpec) {
        let is_heat = spec.kind == ChartKind::Heat;
        let name = source.family.name;
        let known = self.families.iter().position(|family| family.info.name == name && family.is_heat() == is_heat);
        let at = known.unwrap_or_else(|| {
            let samples = is_heat.then(|| self.axes.heat.samples_for_counts(&self.axes.samples));
            self.families.push(FamilyReadings::new(source.family, samples));
            self.families.len() - 1
        });
        self.families[at].select(source);
    }

    /// Creates the plots, once all columns to read are known.
    fn plot(&mut self) {
        for &spec in &self.specs {
            for source in spec.sources {
                let is_heat = spec.kind == ChartKind::Heat;
                let of = |family: &&mut FamilyReadings| {
                    family.info.name == source.family.name && family.is_heat() == is_heat
                };
                let Some(family) = self.families.iter_mut().find(of) else { continue };
                let columns = &family.selection.metrics;
                if is_heat {
                    family.heat_plots.push(HeatPlot::new(spec, source, columns));
                } else {
                    family.plots.push(Plot::new(spec, source, columns));
                }
            }
        }
    }

    /// Adds a reading of a selection. Readings of different entities may come in any order; those of one entity must be in order
    /// of time.
    pub fn add(&mut self, selection: usize, reading: ColumnReading<'_>) {
        let until = reading.until.min(self.axes.samples.len().saturating_sub(1));
        self.add_step(selection, reading, false);
        // The number of samples in a run of equal values does not matter, but the gaps between them do.
        let is_heat = self.families.get(selection).is_some_and(FamilyReadings::is_heat);
        let mut from = reading.sample;
        while from < until {
            let last = if is_heat { from } else { self.axes.samples.last_without_gap(from, until) };
            let to = last.max(from + 1);
            self.add_step(selection, ColumnReading { sample: to, ..reading }, to == last);
            from = to;
        }
    }

    /// Adds the reading of one sample. With `is_run`, it is the last sample of a run whose first sample was the previous reading.
    fn add_step(&mut self, selection: usize, reading: ColumnReading<'_>, is_run: bool) {
        let ChartAxes { samples, axis, fine, heat } = &*self.axes;
        if reading.sample >= samples.len() {
            return;
        }
        let Some(family) = self.families.get_mut(selection) else { return };
        let at = family.entity(reading.key);
        let entity = &mut family.entities[at];
        let step = entity.sample.and_then(|sample| samples.step(sample, reading.sample));
        let metrics = family.selection.metrics.iter().map(|column| &family.info.metrics[*column]);
        let is_same = step.is_some() && is_same_entity(metrics, &entity.values, reading.values);
        let before = entity.sample.zip(step).filter(|_| is_same).map(|(sample, step)| Before {
            sample,
            values: &entity.values,
            step,
            previous_step: entity.step,
            is_run,
        });
        for plot in &mut family.plots {
            let axis = if plot.is_fine() { fine } else { axis };
            plot.add((samples, axis), (at, &entity.name), before.as_ref(), &reading);
        }
        for plot in &mut family.heat_plots {
            plot.add(heat, (at, &entity.name), before.as_ref(), &reading);
        }
        let newest = if is_run { samples.step(reading.sample - 1, reading.sample) } else { step };
        entity.step = newest.filter(|_| is_same);
        entity.sample = Some(reading.sample);
        if !is_run {
            entity.values.clear();
            entity.values.extend_from_slice(reading.values);
        }
    }

    /// Returns the charts that have data, in the order of their specifications.
    pub fn finish(self) -> Vec<Chart> {
        let Self { axes, specs, families, kept } = self;
        let ChartAxes { samples, axis, heat: heat_axis, .. } = &*axes;
        let none = BTreeSet::new();
        let times = axis.seconds();
        let (mut plots, mut heat_plots) = (Vec::new(), Vec::new());
        for family in families {
            plots.extend(family.plots);
            heat_plots.extend(family.heat_plots);
        }
        let mut charts = Vec::new();
        for spec in specs {
            // The first source that has data wins.
            let own = |plot: &mut Plot| plot.chart.id == spec.id;
            let mut sources: Vec<Plot> = plots.extract_if(.., own).collect();
            sources.sort_by_key(Plot::position);
            let kept = kept.get(spec.id).unwrap_or(&none);
            if let Some(drawn) = sources.into_iter().find_map(|plot| plot.finish(samples, axis, kept)) {
                let DrawnSeries { series, left_out } = drawn;
                charts.push(Chart { times: times.clone(), left_out, series, ..spec.outline() });
            }
            let own = |plot: &mut HeatPlot| plot.chart.id == spec.id;
            let heat: Vec<HeatPlot> = heat_plots.extract_if(.., own).collect();
            charts.extend(heat.into_iter().flat_map(|plot| plot.finish(samples, heat_axis)));
        }
        charts
    }
}

impl FamilyReadings {
    fn new(info: &'static FamilyInfo, samples: Option<Vec<bool>>) -> Self {
        Self {
            info,
            selection: ColumnSelection { family: info.name, metrics: Vec::new(), samples },
            by_key: HashMap::new(),
            entities: Vec::new(),
            current: usize::MAX,
            plots: Vec::new(),
            heat_plots: Vec::new(),
        }
    }

    fn is_heat(&self) -> bool {
        self.selection.samples.is_some()
    }

    fn select(&mut self, source: &SourceSpec) {
        let identities = (0..self.info.metrics.len()).filter(|column| self.info.metrics[*column].identifies);
        let wanted = source.columns().chain(identities).chain(self.selection.metrics.iter().copied());
        self.selection.metrics = wanted.collect::<BTreeSet<usize>>().into_iter().collect();
    }

    /// Returns the index of an entity. Adds the entity if it is new.
    fn entity(&mut self, key: &[KeyPart]) -> usize {
        if self.entities.get(self.current).is_some_and(|entity| entity.key == key) {
            return self.current;
        }
        self.current = self.by_key.get(key).copied().unwrap_or_else(|| {
            let name = entity_name(self.info, key);
            self.by_key.insert(key.to_vec(), self.entities.len());
            self.entities.push(Entity { key: key.to_vec(), name, sample: None, values: Vec::new(), step: None });
            self.entities.len() - 1
        });
        self.current
    }
}

/// Formats the name of an entity as its key prints it.
fn entity_name(info: &FamilyInfo, key: &[KeyPart]) -> String {
    struct Namer<'a> {
        family: &'a str,
        key: &'a [KeyPart],
        name: String,
    }
    impl EachFamily for Namer<'_> {
        fn family<F: Family>(&mut self, _: &mut Vec<F>) {
            if F::INFO.name == self.family
                && let Some(key) = F::Key::put_together(&mut self.key.iter().cloned())
            {
                self.name = key.to_string();
            }
        }
    }
    let mut namer = Namer { family: info.name, key, name: String::new() };
    Snapshot::default().each_family(&mut namer);
    namer.name
}

#[cfg(test)]
mod tests;
