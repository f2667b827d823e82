//! Sets of hosts, with one bit per host.

/// A set of hosts, identified by their numbers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct HostSet(Vec<u64>);

impl HostSet {
    pub(crate) fn empty(hosts: usize) -> Self {
        Self(vec![0; hosts.div_ceil(64)])
    }

    pub(crate) fn full(hosts: usize) -> Self {
        let mut set = Self::empty(hosts);
        (0..hosts).for_each(|host| set.insert(host));
        set
    }

    pub(crate) fn insert(&mut self, host: usize) {
        self.0[host / 64] |= 1 << (host % 64);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    pub(crate) fn and(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(a, b)| a & b).collect())
    }

    pub(crate) fn without(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(a, b)| a & !b).collect())
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| *a |= b);
    }

    /// Returns the number of hosts in both sets, without creating their intersection.
    pub(crate) fn common(&self, other: &Self) -> usize {
        self.0.iter().zip(&other.0).map(|(a, b)| (a & b).count_ones() as usize).sum()
    }
}
