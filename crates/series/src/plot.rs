//! One source of a chart: the series of its entities.

use crate::axis::{Axis, Samples};
use crate::line::Line;
use crate::step::growth;
use crate::table::{Amount, ChartSpec, Entities, LineSpec, SourceSpec, converted};
use std::collections::{BTreeSet, HashMap};
use whyslow_model::catalogue::{FamilyInfo, Metric};
use whyslow_model::chart::ChartSeries;
use whyslow_model::key::KeyPart;
use whyslow_model::row::ColumnReading;
use whyslow_model::value::{State, Value};

/// Readings that are taken rarely, such as settings, are valid until the next one if that is within this time, nanoseconds; they
/// are taken once a minute.
const VALID_NS: u64 = 75 * 1_000_000_000;
/// Readings of an entity that are this many times as far apart as the previous ones do not show its level in between.
const LAPSE: u64 = 3;
/// The weight of a level at an instant beside levels over times, in seconds.
const INSTANT: f64 = 1e-6;

/// The previous reading of an entity, if the difference from it means something.
pub(crate) struct Before<'b> {
    pub(crate) sample: usize,
    pub(crate) values: &'b [Value],
    /// Nanoseconds since then.
    pub(crate) step: u64,
    /// Nanoseconds from the reading before that one.
    pub(crate) previous_step: Option<u64>,
    /// Whether the values are those of all samples in between.
    pub(crate) is_run: bool,
}

impl Before<'_> {
    fn seconds(&self) -> f64 {
        self.step as f64 / 1e9
    }

    /// Whether a level was in force since then.
    fn lasts(&self, now: usize) -> bool {
        let is_next = self.is_run || self.sample + 1 == now;
        is_next || self.step <= VALID_NS || self.previous_step.is_some_and(|before| self.step / LAPSE <= before)
    }
}

/// A column of a reading.
struct Term {
    /// Its position in the catalogue.
    column: usize,
    /// Its position in the reading.
    at: usize,
    metric: &'static Metric,
    /// The factor to the unit of the chart.
    factor: f64,
}

/// How a line is computed from a reading.
struct Formula {
    amount: &'static Amount,
    first: Vec<Term>,
    second: Vec<Term>,
    /// In place of the second ones, where those are not known.
    alternative: Vec<Term>,
}

/// An amount and its units, and whether they are of the time since the previous reading or of this moment.
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
            Amount::Rate { of } => (terms(of), Vec::new()),
            Amount::Level { plus, minus } | Amount::Part { plus, minus } => (terms(plus), terms(minus)),
            Amount::Ratio { of, per, .. } => (terms(of), terms(per)),
            Amount::Values { .. } => (Vec::new(), Vec::new()),
        };
        let alternative = if let Amount::Ratio { or, .. } = &line.amount { terms(or) } else { Vec::new() };
        Self { amount: &line.amount, first, second, alternative }
    }

    fn compute(&self, before: Option<&Before<'_>>, reading: &ColumnReading<'_>) -> Option<Quantity> {
        let grown = |terms: &[Term]| growth_of(terms, before?.values, reading.values);
        match self.amount {
            Amount::Of(quantity) => {
                let before = before?;
                let grown = |column: usize| {
                    let term = self.first.iter().find(|term| term.column == column)?;
                    growth_of(std::slice::from_ref(term), before.values, reading.values)
                };
                let step = quantity.step(before.seconds(), grown)?;
                Some(Quantity { amount: step.amount, units: step.units, has_lasted: true })
            }
            Amount::Rate { .. } => {
                let units = before?.seconds();
                Some(Quantity { amount: grown(&self.first)?, units, has_lasted: true })
            }
            Amount::Ratio { .. } => {
                let units = grown(&self.second).or_else(|| grown(&self.alternative))?;
                Some(Quantity { amount: grown(&self.first)?, units, has_lasted: true })
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

/// The growth of those counters that are known; `None` if none is, or one was reset.
fn growth_of(terms: &[Term], before: &[Value], now: &[Value]) -> Option<f64> {
    let is_known = |value: &Value| matches!(value, Value::Counter(counter) if counter.get().is_some());
    let mut sum = None;
    for term in terms {
        let (before, now) = (before.get(term.at)?, now.get(term.at)?);
        if is_known(before) && is_known(now) {
            sum = Some(sum.unwrap_or(0.0) + growth(term.metric, before, now)? * term.factor);
        }
    }
    sum
}

fn levels(terms: &[Term], reading: &ColumnReading<'_>) -> impl Iterator<Item = Option<f64>> {
    terms.iter().map(|term| match reading.values.get(term.at)? {
        Value::Gauge(gauge) => Some(gauge.get()? * term.factor),
        _ => None,
    })
}

/// The sum of those that are known; `None` if none is.
fn known_sum(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    values.flatten().reduce(|a, b| a + b)
}

/// The sum of all; `None` if one is not known.
fn whole_sum(mut values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    values.try_fold(0.0, |sum, value| Some(sum + value?))
}

fn over_time(level: f64, before: Option<&Before<'_>>, now: usize) -> Quantity {
    match before.filter(|before| before.lasts(now)) {
        Some(before) => Quantity { amount: level * before.seconds(), units: before.seconds(), has_lasted: true },
        None => Quantity { amount: level * INSTANT, units: INSTANT, has_lasted: false },
    }
}

/// An entity, or several of the same name, with their lines.
struct Drawn {
    name: String,
    /// The first part of the key: the path of a control group.
    path: String,
    /// Whether the kernel has a number for it; partitions have none.
    has_identity: bool,
    /// The file system on a mount point, if it is known and was the same at each reading.
    file_system: Option<State>,
    lines: Vec<Line>,
}

/// The series of a chart, from one family.
pub(crate) struct Plot {
    pub(crate) chart: &'static ChartSpec,
    source: &'static SourceSpec,
    formulas: Vec<Formula>,
    /// The column with the command of a process or the devices behind an interrupt line, and those with the kernel's numbers.
    word: Option<usize>,
    identities: Vec<usize>,
    /// The column with the number of the file system on a mount point.
    file_system: Option<usize>,
    drawn: Vec<Drawn>,
    /// By name, for sums over several entities.
    by_name: HashMap<String, usize>,
    /// For each entity what it is drawn as.
    places: Vec<Option<usize>>,
    /// Of sums, the seconds of each interval that were observed.
    observed: Vec<f64>,
    /// For each entity the last of these intervals, and the seconds of it that were observed of the entity.
    current: Vec<(usize, f64)>,
}

/// The series, and how many entities are left out.
pub(crate) struct DrawnSeries {
    pub(crate) series: Vec<ChartSeries>,
    pub(crate) left_out: usize,
}

impl Plot {
    /// Of a source of a chart, with readings of these columns.
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

    /// The position of its source among those of the chart.
    pub(crate) fn position(&self) -> usize {
        self.chart.sources.iter().position(|source| std::ptr::eq(source, self.source)).unwrap_or(0)
    }

    /// Adds a reading of an entity, by its number and name, each entity's in order of time.
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

    /// Whether its lines are sums over entities.
    pub(crate) fn is_sum(&self) -> bool {
        matches!(
            self.source.entities,
            Entities::Sum | Entities::TopNames(_) | Entities::TopLines(..) | Entities::TopCommands(..)
        )
    }

    /// Whether its lines need an interval for each sample until they are complete: their minimum and maximum are those of a sum.
    pub(crate) fn is_fine(&self) -> bool {
        self.source.entities == Entities::Sum
    }

    /// Of sums, the time that was observed in each interval is the longest time that an entity was.
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

    /// What an entity is drawn as.
    fn place(&mut self, entity: usize, name: &str, before: Option<&Before<'_>>, reading: &ColumnReading<'_>) -> usize {
        if entity >= self.places.len() {
            self.places.resize(entity + 1, None);
        }
        // A process that runs another program has another name from then on.
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

    /// The series over the intervals of the axis; `None` without values. What is among `kept`, which are names of series, is drawn whatever
    /// its rank.
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
        // Of entities with the same sum, in the order of their names.
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

    /// The label of a line of an entity.
    fn series_name(&self, drawn: &Drawn, line: &LineSpec) -> String {
        let parts = [&*drawn.name, line.label].into_iter().filter(|part| !part.is_empty());
        let name = parts.collect::<Vec<_>>().join(" ");
        if name.is_empty() { self.chart.title.to_owned() } else { name }
    }

    /// What decides who is drawn: amounts over the whole time for rates and ratios, which makes that the busiest ones; for shares
    /// the mean, which makes that the fullest ones.
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

    /// A sum's rate is per second that was observed, not per second of each entity; its intervals become those of the axis.
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
                    // Where the name was not seen, though others were, nothing of it happened.
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

    /// Leaves out partitions if there are whole devices, control groups that have groups below them, and further mount points of a
    /// file system.
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
    /// Whether the other is the same file system, and has no values at other times.
    fn shows(&self, other: &Self) -> bool {
        let is_same = self.file_system.is_some() && self.file_system == other.file_system;
        is_same && self.lines.iter().zip(&other.lines).all(|(own, other)| own.covers(other))
    }
}

/// A word of a reading; `None` if it is not known.
fn state<'r>(reading: &'r ColumnReading<'_>, at: usize) -> Option<&'r State> {
    match reading.values.get(at)? {
        Value::State(state) => Some(state).filter(|state| state.get().is_some()),
        _ => None,
    }
}

/// The groups above a control group.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    let above = path.match_indices('/').map(|(at, _)| if at == 0 { "/" } else { &path[..at] });
    above.filter(move |above| *above != path)
}

/// `IRQ 36 (virtio1-req.0)`, `LOC (Local timer interrupts)`.
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
