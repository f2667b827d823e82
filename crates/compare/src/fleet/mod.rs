//! Conclusions from many hosts together: what the sick ones share ([`Cohort`]), whether a change helped
//! ([`judge_rollout`]), which twins differ ([`outliers`]), and what will run out ([`forecast`]). Pure computation, no
//! I/O.

mod feature;
mod forecast;
mod host_set;
mod rollout;
mod twins;
mod why;

pub use feature::Feature;
pub use forecast::{Forecast, Outlook, forecast};
pub use rollout::{GroupResult, Lost, Rollout, RolloutEffect, RolloutHost, RolloutWindows, judge_rollout};
pub use twins::{Outlier, TwinSeries, Twins, outliers};
pub use why::{Candidate, Cohort, Interval, Strength, Why, WhyVerdict};
