//! One source of a chart: the series of its entities.

use crate::axis::{Axis, Samples};
use crate::line::Line;
use crate::step::growth;
use crate::table::{Amount, ChartSpec, Entities, LineSpec, SourceSpec, converted};
use std::collections::{BTreeSet, HashMap};
use whyslow_documents::chart::ChartSeries;
use whyslow_model::catalogue::{FamilyInfo, Metric};
use whyslow_model::key::KeyPart;
use whyslow_model::row::ColumnReading;
use whyslow_model::value::{State, Value};

/// Readings that are taken rarely, such as settings (once a minute), stay valid until the next one if it follows within this
/// time. In nanoseconds.
const VALID_NS: u64 = 75 * 1_000_000_000;
/// If the gap between two readings of an entity is more than this many times the previous gap, the level in between is unknown.
const LAPSE: u64 = 3;
/// Weight of a level at an instant compared with levels over time, in seconds.
const INSTANT: f64 = 1e-6;

/// The previous reading of an entity, if the difference from it is meaningful.
pub(crate) struct Before<'b> {
    pub(crate) sample: usize,
    pub(crate) values: &'b [Value],
    /// Nanoseconds since that reading.
    pub(crate) step: u64,
    /// Nanoseconds between that reading and the one before.
    pub(crate) previous_step: Option<u64>,
    /// True if all samples in between have the same values.
    pub(crate) is_run: bool,
}

impl Before<'_> {
    fn seconds(&self) -> f64 {
        self.step as f64 / 1e9
    }

    /// Returns true if the level has been valid since the previous reading.
    fn lasts(&self, now: usize) -> bool {
        let is_next = self.is_run || self.sample + 1 == now;
        is_next || self.step <= VALID_NS || self.previous_step.is_some_and(|before| self.step / LAPSE <= before)
    }
}

/// A column of a reading.
struct Term {
    /// Position in the catalogue.
    column: usize,
    /// Position in the reading.
    at: usize,
    metric: &'static Metric,
    /// Factor to the chart's unit.
    factor: f64,
}

/// Computation of a line from a reading.
struct Formula {
    amount: &'static Amount,
    first: Vec<Term>,
    second: Vec<Term>,
}

/// An amount and its units, either over the time since the previous reading or at this instant.
struct Quantity {
    amount: f64,
    units: f64,
    has_lasted: bool,
}

impl Formula {
    fn new(line: &'static LineSpec, chart: &ChartSpec, family: &'static FamilyInfo, columns: &[usize]) -> Self {
        let term = |column: &usize| {
            let metric = &family.metrics[*column];
            let (unit, factor) = converted(metric.unit);
            let bits = if chart.unit == "bit/s" && unit == "By" { 8.0 } else { 1.0 };
            // The selection has all columns of its charts.
            Some(Term {
                column: *column,
                at: columns.iter().position(|known| known == column)?,
                metric,
                factor: factor * bits,
            })
        };
        let terms = |columns: &[usize]| columns.iter().filter_map(term).collect();
        let (first, second) = match &line.amount {
            Amount::Of(quantity) => {
                (quantity.expression.columns().filter_map(|column| term(&column)).collect(), Vec::new())
            }
            Amount::Level { plus, minus } | Amount::Part { plus, minus } => (terms(plus), terms(minus)),
            Amount::Values { .. } => (Vec::new(), Vec::new()),
        };
        Self { amount: &line.amount, first, second }
    }

    fn compute(&self, before: Option<&Before<'_>>, reading: &ColumnReading<'_>) -> Option<Quantity> {
        match self.amount {
            Amount::Of(quantity) => {
                let before = before?;
                let grown = |column: usize| {
                    let term = self.first.iter().find(|term| term.column == column)?;
                    Some(growth(term.metric, before.values.get(term.at)?, reading.values.get(term.at)?)? * term.factor)
                };
                let step = quantity.step(before.seconds(), grown)?;
                Some(Quantity { amount: step.amount, units: step.units, has_lasted: true })
            }
            Amount::Level { .. } => {
                let level = known_sum(levels(&self.first, reading))? - whole_sum(levels(&self.second, reading))?;
                Some(over_time(level, before, reading.sample))
            }
            Amount::Part { .. } => {
                let whole = whole_sum(levels(&self.first, reading)).filter(|whole| *whole > 0.0)?;
                let part = whole - whole_sum(levels(&self.second, reading))?;
                Some(over_time(part / whole, before, reading.sample))
            }
            Amount::Values { .. } => None,
        }
    }
}

fn levels(terms: &[Term], reading: &ColumnReading<'_>) -> impl Iterator<Item = Option<f64>> {
    terms.iter().map(|term| match reading.values.get(term.at)? {
        Value::Gauge(gauge) => Some(gauge.get()? * term.factor),
        _ => None,
    })
}

/// Returns the sum of the known values; `None` if none is known.
fn known_sum(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    values.flatten().reduce(|a, b| a + b)
}

/// Returns the sum of all values; `None` if one is unknown.
fn whole_sum(mut values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    values.try_fold(0.0, |sum, value| Some(sum + value?))
}

fn over_time(level: f64, before: Option<&Before<'_>>, now: usize) -> Quantity {
    match before.filter(|before| before.lasts(now)) {
        Some(before) => Quantity { amount: level * before.seconds(), units: before.seconds(), has_lasted: true },
        None => Quantity { amount: level * INSTANT, units: INSTANT, has_lasted: false },
    }
}

/// An entity, or several of the same name, with its lines.
struct Drawn {
    name: String,
    /// First part of the key: the path of a control group.
    path: String,
    /// True if the kernel has a number for it. Partitions have none.
    has_identity: bool,
    /// File system on a mount point, if it is known and was the same at each reading.
    file_system: Option<State>,
    lines: Vec<Line>,
}

/// Series of a chart, from one family.
pub(crate) struct Plot {
    pub(crate) chart: &'static ChartSpec,
    source: &'static SourceSpec,
    formulas: Vec<Formula>,
    /// Columns with the command of a process or the devices of an interrupt line, and with the kernel's numbers of entities.
    word: Option<usize>,
    identities: Vec<usize>,
    /// Column with the number of the file system on a mount point.
    file_system: Option<usize>,
    drawn: Vec<Drawn>,
    /// Index in `drawn` by name, for sums over several entities.
    by_name: HashMap<String, usize>,
    /// Index in `drawn` for each entity.
    places: Vec<Option<usize>>,
    /// Observed seconds of each interval, for sums.
    observed: Vec<f64>,
    /// For each entity, the last of these intervals and the seconds of it in which the entity was observed.
    current: Vec<(usize, f64)>,
}

/// Series, and the number of entities left out.
pub(crate) struct DrawnSeries {
    pub(crate) series: Vec<ChartSeries>,
    pub(crate) left_out: usize,
}

impl Plot {
    /// Creates a plot of a source of a chart, for readings of these columns.
    pub(crate) fn new(chart: &'static ChartSpec, source: &'static SourceSpec, columns: &[usize]) -> Self {
        let position = |column| columns.iter().position(|known| *known == column);
        let (word, file_system) = match source.entities {
            Entities::TopFileSystems(_, column) => (None, position(column)),
            others => (others.column().and_then(position), None),
        };
        let is_identity = |column: &&usize| source.family.metrics[**column].identifies;
        let identities = columns.iter().filter(is_identity);
        let identities = identities.filter_map(|column| columns.iter().position(|known| known == column)).collect();
        Self {
            chart,
            source,
            formulas: source.lines.iter().map(|line| Formula::new(line, chart, source.family, columns)).collect(),
            word,
            file_system,
            identities,
            drawn: Vec::new(),
            by_name: HashMap::new(),
            places: Vec::new(),
            observed: Vec::new(),
            current: Vec::new(),
        }
    }

    /// Returns the position of its source among those of the chart.
    pub(crate) fn position(&self) -> usize {
        self.chart.sources.iter().position(|source| std::ptr::eq(source, self.source)).unwrap_or(0)
    }

    /// Adds a reading of an entity, given by index and name. The readings of each entity must be in order of time.
    pub(crate) fn add(
        &mut self,
        (samples, axis): (&Samples, &Axis),
        (entity, name): (usize, &str),
        before: Option<&Before<'_>>,
        reading: &ColumnReading<'_>,
    ) {
        let place = self.place(entity, name, before, reading);
        if self.is_sum()
            && let Some(before) = before
        {
            self.observe(entity, axis.parts(samples, before.sample, reading.sample), before.seconds());
        }
        let drawn = &mut self.drawn[place];
        if let Some(at) = self.file_system
            && state(reading, at) != drawn.file_system.as_ref()
        {
            drawn.file_system = None;
        }
        for (formula, line) in self.formulas.iter().zip(&mut drawn.lines) {
            let Some(quantity) = formula.compute(before, reading) else { continue };
            match before.filter(|_| quantity.has_lasted) {
                Some(before) => {
                    for (interval, share) in axis.parts(samples, before.sample, reading.sample) {
                        line.add(interval, quantity.amount * share, quantity.units * share);
                    }
                }
                None => line.add(axis.interval(reading.sample), quantity.amount, quantity.units),
            }
        }
    }

    /// Returns true if its lines are sums over entities.
    pub(crate) fn is_sum(&self) -> bool {
        matches!(
            self.source.entities,
            Entities::Sum | Entities::TopNames(_) | Entities::TopLines(..) | Entities::TopCommands(..)
        )
    }

    /// Returns true if its lines need one interval per sample until they are complete, because minimum and maximum are those of a
    /// sum.
    pub(crate) fn is_fine(&self) -> bool {
        self.source.entities == Entities::Sum
    }

    /// Updates the observed time of each interval, for sums. It is the longest time for which any entity was observed.
    fn observe(&mut self, entity: usize, parts: impl Iterator<Item = (usize, f64)>, seconds: f64) {
        if entity >= self.current.len() {
            self.current.resize(entity + 1, (usize::MAX, 0.0));
        }
        let (current, observed) = &mut self.current[entity];
        for (interval, share) in parts {
            if *current != interval {
                (*current, *observed) = (interval, 0.0);
            }
            *observed += seconds * share;
            if interval >= self.observed.len() {
                self.observed.resize(interval + 1, 0.0);
            }
            self.observed[interval] = self.observed[interval].max(*observed);
        }
    }

    /// Returns the index in `drawn` of an entity. Adds it if it is new.
    fn place(&mut self, entity: usize, name: &str, before: Option<&Before<'_>>, reading: &ColumnReading<'_>) -> usize {
        if entity >= self.places.len() {
            self.places.resize(entity + 1, None);
        }
        // A process that executes another program has another name from then on.
        let differs = |at: usize| before.is_some_and(|before| before.values.get(at) != reading.values.get(at));
        let is_renamed = self.word.is_some_and(differs);
        if let Some(place) = self.places[entity].filter(|_| !is_renamed) {
            return place;
        }
        let name = self.name(name, reading);
        let known = if self.is_sum() { self.by_name.get(&name).copied() } else { self.places[entity] };
        let place = match known {
            Some(place) => {
                self.drawn[place].name = name;
                place
            }
            None => {
                if self.is_sum() {
                    self.by_name.insert(name.clone(), self.drawn.len());
                }
                self.drawn.push(self.draw(name, reading));
                self.drawn.len() - 1
            }
        };
        self.places[entity] = Some(place);
        place
    }

    fn draw(&self, name: String, reading: &ColumnReading<'_>) -> Drawn {
        Drawn {
            name,
            path: first_part(reading.key),
            has_identity: self.identities.iter().any(|at| state(reading, *at).is_some()),
            file_system: self.file_system.and_then(|at| state(reading, at)).cloned(),
            lines: self.formulas.iter().map(|_| Line::default()).collect(),
        }
    }

    fn name(&self, name: &str, reading: &ColumnReading<'_>) -> String {
        let word = self.word.and_then(|at| state(reading, at)?.get());
        match self.source.entities {
            Entities::Machine | Entities::Sum => String::new(),
            Entities::TopCpus(_) => format!("cpu{name}"),
            Entities::TopNames(_) | Entities::TopNamespaces(_) => first_part(reading.key),
            Entities::TopLines(..) => interrupt_line(&first_part(reading.key), word),
            Entities::TopCommands(..) => word.unwrap_or(name).to_owned(),
            Entities::TopTasks(..) => word.map_or_else(|| name.to_owned(), |command| format!("{command} ({name})")),
            Entities::Top(_) | Entities::TopWhole(_) | Entities::TopLeaves(_) | Entities::TopFileSystems(..) => {
                name.to_owned()
            }
        }
    }

    /// Returns the series over the intervals of the axis; `None` if there are no values. Series named in `kept` are drawn
    /// whatever their rank.
    pub(crate) fn finish(mut self, samples: &Samples, axis: &Axis, kept: &BTreeSet<String>) -> Option<DrawnSeries> {
        if self.is_sum() {
            self.complete_sums(samples, axis);
        }
        self.leave_out_parts();
        let drawn = std::mem::take(&mut self.drawn);
        let known: Vec<Drawn> = drawn.into_iter().filter(|drawn| drawn.lines.iter().any(Line::is_known)).collect();
        let is_kept =
            |drawn: &Drawn| self.source.lines.iter().any(|line| kept.contains(&self.series_name(drawn, line)));
        let is_idle = |drawn: &Drawn| !is_kept(drawn) && drawn.lines.iter().all(Line::is_zero);
        let is_all_idle = known.iter().all(is_idle);
        if known.is_empty() || (is_all_idle && self.chart.is_of_events) {
            return None;
        }
        let count = known.len();
        let mut shown: Vec<Drawn> = known.into_iter().filter(|drawn| is_all_idle || !is_idle(drawn)).collect();
        // Entities with the same sum are ordered by name.
        let rank = |drawn: &Drawn| drawn.lines.iter().map(|line| self.weight(line)).sum::<f64>();
        shown.sort_by(|a, b| rank(b).total_cmp(&rank(a)).then_with(|| a.name.cmp(&b.name)));
        let most = self.most();
        let mut places = 0..most;
        shown.retain(|drawn| places.next().is_some() || is_kept(drawn));
        let left_out = count - shown.len();
        if matches!(self.source.entities, Entities::TopCpus(_)) {
            shown.sort_by_key(|drawn| (drawn.name.len(), drawn.name.clone()));
        }
        let has_range = !axis.is_exact && (!self.is_sum() || self.is_fine());
        let series = shown.iter().flat_map(|drawn| {
            let lines = self.source.lines.iter().zip(&drawn.lines).filter(|(_, line)| line.is_known());
            let named = lines.map(|(spec, line)| (self.series_name(drawn, spec), line));
            let shown = named.filter(|(name, line)| !self.chart.is_of_events || !line.is_zero() || kept.contains(name));
            shown.map(|(name, line)| line.series(name, drawn.name.clone(), axis.len(), has_range))
        });
        Some(DrawnSeries { series: series.collect(), left_out })
    }

    /// Returns the label of a line of an entity.
    fn series_name(&self, drawn: &Drawn, line: &LineSpec) -> String {
        let parts = [&*drawn.name, line.label].into_iter().filter(|part| !part.is_empty());
        let name = parts.collect::<Vec<_>>().join(" ");
        if name.is_empty() { self.chart.title.to_owned() } else { name }
    }

    /// Returns the weight that decides which entities are drawn. For rates and ratios it is the total amount, which selects the
    /// busiest. For shares it is the mean, which selects the fullest.
    fn weight(&self, line: &Line) -> f64 {
        let is_part = self.source.lines.iter().any(|line| matches!(line.amount, Amount::Part { .. }));
        if !is_part {
            return line.amount();
        }
        let (amount, units) = line.amounts().fold((0.0, 0.0), |(a, u), (_, amount, units)| (a + amount, u + units));
        if units > 0.0 { amount / units } else { 0.0 }
    }

    fn most(&self) -> usize {
        match self.source.entities {
            Entities::Machine | Entities::Sum => 1,
            Entities::Top(most)
            | Entities::TopWhole(most)
            | Entities::TopLeaves(most)
            | Entities::TopCpus(most)
            | Entities::TopNames(most)
            | Entities::TopNamespaces(most)
            | Entities::TopTasks(most, _)
            | Entities::TopFileSystems(most, _)
            | Entities::TopLines(most, _)
            | Entities::TopCommands(most, _) => most,
        }
    }

    /// Completes sums: their rate is per observed second, not per second of each entity. Maps their intervals to those of the
    /// axis.
    fn complete_sums(&mut self, samples: &Samples, axis: &Axis) {
        let observed = std::mem::take(&mut self.observed);
        let is_fine = self.is_fine();
        let interval = |at: usize| if is_fine && at < samples.len() { axis.interval(at) } else { at };
        for drawn in &mut self.drawn {
            for (formula, line) in self.formulas.iter().zip(&mut drawn.lines) {
                let mut complete = Line::default();
                if formula.amount.is_rate() {
                    if !line.is_known() {
                        continue;
                    }
                    // Where others were observed but not this name, it did nothing.
                    let mut amounts = vec![0.0; observed.len()];
                    for (at, amount, _) in line.amounts() {
                        amounts[at] = amount;
                    }
                    for (at, (amount, seconds)) in amounts.into_iter().zip(&observed).enumerate() {
                        complete.add(interval(at), amount, *seconds);
                    }
                } else {
                    line.amounts().for_each(|(at, amount, units)| complete.add(interval(at), amount, units));
                }
                *line = complete;
            }
        }
    }

    /// Leaves out partitions if there are whole devices, control groups that have groups below them, and further mount points of
    /// a file system.
    fn leave_out_parts(&mut self) {
        match self.source.entities {
            Entities::TopWhole(_) if self.drawn.iter().any(|drawn| drawn.has_identity) => {
                self.drawn.retain(|drawn| drawn.has_identity);
            }
            Entities::TopLeaves(_) => {
                let paths: Vec<String> = self.drawn.iter().map(|drawn| drawn.path.clone()).collect();
                let above: BTreeSet<&str> = paths.iter().flat_map(|path| ancestors(path)).collect();
                self.drawn.retain(|drawn| !above.contains(&*drawn.path));
            }
            Entities::TopFileSystems(..) => {
                self.drawn.sort_by(|a, b| (a.name.len(), &a.name).cmp(&(b.name.len(), &b.name)));
                for drawn in std::mem::take(&mut self.drawn) {
                    if !self.drawn.iter().any(|shorter| shorter.shows(&drawn)) {
                        self.drawn.push(drawn);
                    }
                }
            }
            _ => {}
        }
    }
}

impl Drawn {
    /// Returns true if this already shows the other: the same file system, with values wherever the other has them.
    fn shows(&self, other: &Self) -> bool {
        let is_same = self.file_system.is_some() && self.file_system == other.file_system;
        is_same && self.lines.iter().zip(&other.lines).all(|(own, other)| own.covers(other))
    }
}

/// Returns a word of a reading; `None` if it is unknown.
fn state<'r>(reading: &'r ColumnReading<'_>, at: usize) -> Option<&'r State> {
    match reading.values.get(at)? {
        Value::State(state) => Some(state).filter(|state| state.get().is_some()),
        _ => None,
    }
}

/// Returns the ancestors of a control group.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    let above = path.match_indices('/').map(|(at, _)| if at == 0 { "/" } else { &path[..at] });
    above.filter(move |above| *above != path)
}

/// Formats an interrupt line: `IRQ 36 (virtio1-req.0)`, `LOC (Local timer interrupts)`.
fn interrupt_line(line: &str, devices: Option<&str>) -> String {
    let number = if line.bytes().all(|byte| byte.is_ascii_digit()) { "IRQ " } else { "" };
    let devices = devices.map_or_else(String::new, |devices| format!(" ({devices})"));
    format!("{number}{line}{devices}")
}

fn first_part(key: &[KeyPart]) -> String {
    match key.first() {
        Some(KeyPart::Text(name)) => name.to_string(),
        Some(KeyPart::Number(number)) => number.to_string(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupt_lines_have_the_names_of_their_devices() {
        assert_eq!(interrupt_line("36", Some("virtio1-req.0")), "IRQ 36 (virtio1-req.0)");
        assert_eq!(interrupt_line("0", None), "IRQ 0", "sar prints no device");
        assert_eq!(interrupt_line("LOC", Some("Local timer interrupts")), "LOC (Local timer interrupts)");
    }

    #[test]
    fn groups_above_a_group_are_those_of_its_path() {
        assert_eq!(ancestors("/a/b/c").collect::<Vec<_>>(), ["/", "/a", "/a/b"]);
        assert_eq!(ancestors("/a").collect::<Vec<_>>(), ["/"]);
        assert_eq!(ancestors("/").collect::<Vec<_>>(), [""; 0]);
        assert_eq!(ancestors("").collect::<Vec<_>>(), [""; 0]);
    }
}
