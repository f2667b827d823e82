//! Computation of a quantity from counters.

/// A counter in a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    /// Column of the counter.
    pub column: usize,
    /// True if the sum leaves this counter out when it is unknown. A kernel before 4.18 does not count discards, and a tool that
    /// does not separate interrupts from system time counts them there.
    pub is_optional: bool,
}

/// Counters of one family that are added: the first group that is known in a step. A group is known if at least one of its
/// counters is, and all but the optional ones are.
pub type Sum = &'static [&'static [Term]];

/// Amounts, and the units that they are divided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Dividend.
    pub of: Sum,
    /// Divisor.
    pub per: Sum,
}

/// Computation of a quantity: an amount per unit. Both add up over steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expression {
    /// Growth per second.
    Rate(Sum),
    /// Growth per growth, summed over several pairs: the time of reads per read and the time of writes per write make the time
    /// per request. The alternative counts in a step in which a pair has only one known part that is not zero, or no pair is
    /// known.
    Quotient {
        /// The pairs.
        pairs: &'static [Pair],
        /// The alternative.
        or: Option<Pair>,
    },
}

/// Contribution of a step to a quantity.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepAmount {
    /// The amount.
    pub amount: f64,
    /// The number of units that the amount is for.
    pub units: f64,
}

impl StepAmount {
    /// Adds another step.
    pub fn plus(self, other: Self) -> Self {
        Self { amount: self.amount + other.amount, units: self.units + other.units }
    }

    /// Returns the amount per unit; `None` if there are no units.
    pub fn value(self) -> Option<f64> {
        (self.units != 0.0).then(|| self.amount / self.units)
    }
}

impl Expression {
    /// Returns what a step of `seconds` seconds adds; `None` if it is unknown. `grown` returns the growth of the counter in a
    /// column.
    pub fn step(&self, seconds: f64, grown: impl Fn(usize) -> Option<f64>) -> Option<StepAmount> {
        match self {
            Self::Rate(of) => Some(StepAmount { amount: sum(of, &grown)?, units: seconds }),
            Self::Quotient { pairs, or } => {
                let parts = pairs.iter().map(|pair| (sum(pair.of, &grown), sum(pair.per, &grown)));
                let is_whole = parts.clone().all(|part| match part {
                    (Some(_), Some(_)) | (None, None) => true,
                    (Some(known), None) | (None, Some(known)) => known == 0.0,
                });
                let whole = |(of, per): (Option<f64>, Option<f64>)| Some(StepAmount { amount: of?, units: per? });
                let all = parts.filter_map(whole).reduce(StepAmount::plus);
                all.filter(|_| is_whole).or_else(|| {
                    let or = or.as_ref()?;
                    whole((sum(or.of, &grown), sum(or.per, &grown)))
                })
            }
        }
    }

    /// Returns the columns that it is computed from.
    pub fn columns(&self) -> impl Iterator<Item = usize> {
        let (rate, pairs, or): (Sum, &[Pair], _) = match self {
            Self::Rate(of) => (of, &[], None),
            Self::Quotient { pairs, or } => (&[], pairs, or.as_ref()),
        };
        let of_pairs = pairs.iter().chain(or).flat_map(|pair| pair.of.iter().chain(pair.per));
        rate.iter().chain(of_pairs).flat_map(|terms| terms.iter().map(|term| term.column))
    }
}

/// Returns the growth of the first group that is known.
fn sum(of: Sum, grown: &impl Fn(usize) -> Option<f64>) -> Option<f64> {
    let group = |terms: &&'static [Term]| {
        terms.iter().try_fold(None, |sum: Option<f64>, term| match grown(term.column) {
            Some(grown) => Some(Some(sum.unwrap_or(0.0) + grown)),
            None if term.is_optional => Some(sum),
            None => None,
        })
    };
    of.iter().find_map(|terms| group(terms)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn term(column: usize) -> Term {
        Term { column, is_optional: false }
    }

    const fn any(column: usize) -> Term {
        Term { column, is_optional: true }
    }

    const PER_REQUEST: Expression = Expression::Quotient {
        pairs: &[Pair { of: &[&[term(0)]], per: &[&[term(1)]] }, Pair { of: &[&[term(2)]], per: &[&[term(3)]] }],
        or: Some(Pair { of: &[&[term(0), term(2)], &[term(4)]], per: &[&[term(1), term(3)], &[term(5)]] }),
    };

    fn step(of: Expression, grown: [Option<f64>; 6]) -> Option<(f64, f64)> {
        of.step(2.0, |at| grown[at]).map(|step| (step.amount, step.units))
    }

    #[test]
    fn a_sum_needs_all_but_its_optional_counters() {
        const RATE: Expression = Expression::Rate(&[&[any(0), any(1)], &[term(5)]]);
        assert_eq!(step(RATE, [Some(6.0), Some(4.0), None, None, None, Some(99.0)]), Some((10.0, 2.0)));
        assert_eq!(step(RATE, [None, Some(4.0), None, None, None, Some(99.0)]), Some((4.0, 2.0)));
        assert_eq!(step(RATE, [None, None, None, None, None, Some(99.0)]), Some((99.0, 2.0)));
        assert_eq!(step(RATE, [None; 6]), None);
        const WHOLE: Expression = Expression::Rate(&[&[term(0), any(1)]]);
        assert_eq!(step(WHOLE, [Some(6.0), None, None, None, None, None]), Some((6.0, 2.0)));
        assert_eq!(step(WHOLE, [None, Some(4.0), None, None, None, None]), None);
    }

    #[test]
    fn amounts_and_units_are_known_together() {
        let both = [Some(5.0), Some(10.0), Some(90.0), Some(30.0), None, None];
        assert_eq!(step(PER_REQUEST, both), Some((95.0, 40.0)));
        let reads = [Some(5.0), Some(10.0), None, None, None, None];
        assert_eq!(step(PER_REQUEST, reads), Some((5.0, 10.0)), "writes were not counted at all");
        let without_writes = [Some(5.0), Some(10.0), None, Some(0.0), None, None];
        assert_eq!(step(PER_REQUEST, without_writes), Some((5.0, 10.0)), "nothing was written");
        let one_number = [Some(5.0), None, Some(90.0), None, None, Some(40.0)];
        assert_eq!(step(PER_REQUEST, one_number), Some((95.0, 40.0)), "requests were counted together");
        let unpaired = [Some(5.0), Some(10.0), Some(90.0), None, None, None];
        assert_eq!(step(PER_REQUEST, unpaired), None, "the time of writes that nobody counted");
    }

    #[test]
    fn nothing_per_nothing_is_not_known() {
        let value = |amount, units| StepAmount { amount, units }.value();
        assert_eq!((value(0.0, 0.0), value(0.0, 4.0), value(8.0, 4.0)), (None, Some(0.0), Some(2.0)));
    }
}
