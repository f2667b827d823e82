//! Ranking of the most active entities that does not change at every sample.
//!
//! A series that comes and goes costs a time series database more than one that stays, and the data in between is lost.
//! So activity is averaged over minutes, and an entity is replaced only by one that is clearly more active.

use std::collections::BTreeMap;

/// Time over which activity is averaged, seconds.
const AVERAGED_OVER: f64 = 600.0;
/// Factor by which another entity must be more active to replace a member.
const CLEARLY: f64 = 2.0;

/// Activity of entities, and the selection of those that have series.
#[derive(Debug)]
pub(crate) struct Ranking<K> {
    scores: BTreeMap<K, Score>,
}

#[derive(Clone, Copy, Debug)]
struct Score {
    /// True for entities of the observer's own namespace, which come first.
    is_preferred: bool,
    activity: f64,
    is_member: bool,
}

impl<K> Default for Ranking<K> {
    fn default() -> Self {
        Self { scores: BTreeMap::new() }
    }
}

impl<K: Ord + Clone> Ranking<K> {
    /// Takes the activity of all existing entities, averaged over the last `seconds`, and selects the most active ones.
    pub(crate) fn update(&mut self, activities: impl IntoIterator<Item = (K, bool, f64)>, seconds: f64, most: usize) {
        let share = 1.0 - (-seconds / AVERAGED_OVER).exp();
        let mut before = std::mem::take(&mut self.scores);
        for (key, is_preferred, activity) in activities {
            let score = match before.remove(&key) {
                Some(score) => {
                    Score { is_preferred, activity: score.activity + share * (activity - score.activity), ..score }
                }
                None => Score { is_preferred, activity, is_member: false },
            };
            self.scores.insert(key, score);
        }
        self.choose(most);
    }

    /// Returns the members, the most active first.
    pub(crate) fn members(&self) -> Vec<K> {
        let mut members: Vec<_> = self.scores.iter().filter(|(_, score)| score.is_member).collect();
        members.sort_by(|(a, x), (b, y)| y.order(x).then(a.cmp(b)));
        members.into_iter().map(|(key, _)| key.clone()).collect()
    }

    fn choose(&mut self, most: usize) {
        let mut others: Vec<(K, Score)> = self
            .scores
            .iter()
            .filter(|(_, score)| !score.is_member)
            .map(|(key, score)| (key.clone(), *score))
            .collect();
        others.sort_by(|(a, x), (b, y)| y.order(x).then(a.cmp(b)));
        let mut members = self.scores.len() - others.len();
        for (key, score) in others {
            if members < most {
                members += 1;
            } else {
                let least = self.scores.iter().filter(|(_, score)| score.is_member).min_by(|(a, x), (b, y)| {
                    // If several are equal, the last by name.
                    x.order(y).then(b.cmp(a))
                });
                let Some((least, _)) = least.filter(|(_, least)| score.displaces(least)) else { return };
                let least = least.clone();
                self.set_member(&least, false);
            }
            self.set_member(&key, true);
        }
    }

    fn set_member(&mut self, key: &K, is_member: bool) {
        if let Some(score) = self.scores.get_mut(key) {
            score.is_member = is_member;
        }
    }
}

impl Score {
    fn order(&self, other: &Self) -> std::cmp::Ordering {
        self.is_preferred.cmp(&other.is_preferred).then(self.activity.total_cmp(&other.activity))
    }

    fn displaces(&self, member: &Self) -> bool {
        match (self.is_preferred, member.is_preferred) {
            (true, false) => true,
            (false, true) => false,
            _ => self.activity > CLEARLY * member.activity,
        }
    }
}

/// Returns up to `most` entities. Each comes with whether it is in the observer's own namespace, and with its activity.
/// Those in the own namespace come first, then the most active.
pub fn most_active<K: Ord + Clone>(activities: impl IntoIterator<Item = (K, bool, f64)>, most: usize) -> Vec<K> {
    let mut ranking = Ranking::default();
    ranking.update(activities, 0.0, most);
    ranking.members()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(
        ranking: &mut Ranking<&'static str>,
        activities: &[(&'static str, f64)],
        seconds: f64,
    ) -> Vec<&'static str> {
        ranking.update(activities.iter().map(|(key, activity)| (*key, false, *activity)), seconds, 2);
        ranking.members()
    }

    #[test]
    fn the_most_active_are_chosen() {
        let mut ranking = Ranking::default();
        assert_eq!(update(&mut ranking, &[("a", 1.0), ("b", 3.0), ("c", 2.0)], 0.0), ["b", "c"]);
    }

    #[test]
    fn one_that_is_a_little_more_active_does_not_take_the_place_of_another() {
        let mut ranking = Ranking::default();
        update(&mut ranking, &[("a", 3.0), ("b", 2.0), ("c", 1.0)], 0.0);
        // After hours the averages equal the activity.
        assert_eq!(update(&mut ranking, &[("a", 3.0), ("b", 2.0), ("c", 3.9)], 36_000.0), ["a", "b"]);
        assert_eq!(update(&mut ranking, &[("a", 3.0), ("b", 2.0), ("c", 4.1)], 36_000.0), ["c", "a"]);
    }

    #[test]
    fn a_burst_of_seconds_changes_nothing() {
        let mut ranking = Ranking::default();
        update(&mut ranking, &[("a", 3.0), ("b", 2.0), ("c", 1.0)], 0.0);
        // 1 - exp(-10 / 600) is 1.65 %: 1 + 0.0165 * 99 is 2.6.
        assert_eq!(update(&mut ranking, &[("a", 3.0), ("b", 2.0), ("c", 100.0)], 10.0), ["a", "b"]);
    }

    #[test]
    fn a_place_that_falls_vacant_is_taken() {
        let mut ranking = Ranking::default();
        update(&mut ranking, &[("a", 3.0), ("b", 2.0), ("c", 1.0)], 0.0);
        assert_eq!(update(&mut ranking, &[("b", 2.0), ("c", 1.0)], 1.0), ["b", "c"]);
    }

    #[test]
    fn those_of_the_own_namespace_come_first() {
        let mut ranking = Ranking::default();
        ranking.update([("ours", true, 1.0), ("x", false, 9.0), ("y", false, 5.0)], 0.0, 2);
        assert_eq!(ranking.members(), ["ours", "x"]);
        ranking.update([("ours", true, 1.0), ("second", true, 0.0), ("x", false, 9.0), ("y", false, 5.0)], 1.0, 2);
        assert_eq!(ranking.members(), ["ours", "second"]);
    }
}
