//! A few columns over a long time, as numbers.

use super::{Place, Recording, Span, Stretch, windows::slices};
use crate::error::StoreError;
use crate::segment::{hour_files, scan_columns};
use std::collections::BTreeMap;
use whyslow_model::catalogue::{EachFamily, Family};
use whyslow_model::course::{Course, Sought};
use whyslow_model::key::{Key, Part};
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::Value;

/// What is looked for in one family.
pub type Lookout<'l> = (&'l str, &'l [Sought]);

impl Recording {
    /// Shows what is looked for over a stretch, as far as it lies in the span: which of the lookouts, and rows of it; more than
    /// once where there are many. Rows outside the span may be among them.
    ///
    /// # Errors
    /// Where a file cannot be read.
    pub fn scan(
        &self,
        stretch: &Stretch,
        span: &Span,
        lookouts: &[Lookout<'_>],
        each: &mut dyn FnMut(usize, &Course),
    ) -> Result<(), StoreError> {
        let Place::Closed(hour, segment) = &stretch.place else {
            return self.scan_samples(stretch, span, lookouts, each);
        };
        for (first, of_family) in by_family(lookouts) {
            let (family, _) = of_family[0];
            let sought: Vec<&[Sought]> = of_family.iter().map(|(_, sought)| *sought).collect();
            for file in hour_files(&self.folder, family, hour) {
                let Some(file) = self.damage.pass_over(file)? else { continue };
                if let Some(segment) = file.segments.iter().find(|s| s.start == segment.start) {
                    let scanned =
                        scan_columns(&file, segment, span, &sought, &mut |at, course| each(first + at, course));
                    self.damage.pass_over(scanned)?;
                }
            }
        }
        Ok(())
    }

    /// The same of a tail, which is told by time.
    fn scan_samples(
        &self,
        stretch: &Stretch,
        span: &Span,
        lookouts: &[Lookout<'_>],
        each: &mut dyn FnMut(usize, &Course),
    ) -> Result<(), StoreError> {
        let wanted = |name: &str| lookouts.iter().any(|(family, _)| *family == name);
        for slice in slices(&stretch.span, span) {
            let samples = self.read(stretch, &slice, &wanted)?;
            for (number, lookout) in lookouts.iter().enumerate() {
                each(number, &course(&samples, *lookout));
            }
        }
        Ok(())
    }
}

/// Lookouts that follow one another and are of one family, with the place of the first.
fn by_family<'l, 'f>(lookouts: &'l [Lookout<'f>]) -> impl Iterator<Item = (usize, &'l [Lookout<'f>])> {
    let mut first = 0;
    lookouts.chunk_by(|a, b| a.0 == b.0).map(move |of_family| {
        first += of_family.len();
        (first - of_family.len(), of_family)
    })
}

/// Rows by entity: when, and what was looked for.
type Turned = BTreeMap<Vec<Part>, Vec<(i64, Vec<f64>)>>;

fn course(samples: &[Snapshot], (family, sought): Lookout<'_>) -> Course {
    let mut turned = Turned::new();
    for sample in samples {
        let mut turn = Turn { at: sample.wall_ns, family, sought, turned: &mut turned };
        sample.clone().each_family(&mut turn);
    }
    let mut course = Course { at: Vec::new(), columns: vec![Vec::new(); sought.len()] };
    for (at, values) in turned.into_values().flatten() {
        course.at.push(at);
        course.columns.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
    }
    course
}

struct Turn<'t> {
    at: i64,
    family: &'t str,
    sought: &'t [Sought],
    turned: &'t mut Turned,
}

impl EachFamily for Turn<'_> {
    fn family<F: Family>(&mut self, rows: &mut Vec<F>) {
        if F::INFO.name != self.family {
            return;
        }
        for row in rows {
            let mut key = Vec::new();
            row.key().take_apart(&mut key);
            let values = self.sought.iter().map(|sought| number(row, *sought)).collect();
            self.turned.entry(key).or_default().push((self.at, values));
        }
    }
}

fn number<F: Family>(row: &F, sought: Sought) -> f64 {
    let (Sought::Number(name) | Sought::Is(name, _)) = sought;
    let column = F::INFO.metrics.iter().position(|metric| metric.name == name);
    let number = match (column.and_then(|column| row.value(column)), sought) {
        (Some(Value::Counter(counter)), Sought::Number(_)) => counter.get().map(|count| count as f64),
        (Some(Value::Gauge(gauge)), Sought::Number(_)) => gauge.get(),
        (Some(Value::State(state)), Sought::Is(_, word)) => state.get().map(|is| f64::from(u8::from(is == word))),
        _ => None,
    };
    number.unwrap_or(f64::NAN)
}
