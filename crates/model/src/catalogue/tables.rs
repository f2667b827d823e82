//! Groups of tables. In most Snapshots, most groups are empty.

use super::EachFamily;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::ops::{Deref, DerefMut};

/// The tables of a group, as [`family_group!`](super::declare) declares it.
pub trait TableGroup: Default + PartialEq + 'static {
    /// The group without rows.
    const EMPTY: &'static Self;

    /// Passes every table to `each`, in the catalogue's order.
    fn each_family(&mut self, each: &mut impl EachFamily);
}

/// A group of tables that takes the space of a pointer until something is written to it: captures produce many
/// Snapshots with only a row or two each.
#[derive(Clone, Default)]
pub struct Tables<T>(Option<Box<T>>);

impl<T: TableGroup> Tables<T> {
    pub(super) fn each_family(&mut self, each: &mut impl EachFamily) {
        match &mut self.0 {
            Some(group) => group.each_family(each),
            None => {
                let mut group = T::default();
                group.each_family(each);
                *self = group.into();
            }
        }
    }
}

impl<T: TableGroup> Deref for Tables<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_deref().unwrap_or(T::EMPTY)
    }
}

impl<T: TableGroup> DerefMut for Tables<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.get_or_insert_default()
    }
}

impl<T: TableGroup> From<T> for Tables<T> {
    fn from(group: T) -> Self {
        Self((group != *T::EMPTY).then(|| Box::new(group)))
    }
}

impl<T: TableGroup> PartialEq for Tables<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: TableGroup + fmt::Debug> fmt::Debug for Tables<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: TableGroup + Serialize> Serialize for Tables<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(serializer)
    }
}

impl<'de, T: TableGroup + Deserialize<'de>> Deserialize<'de> for Tables<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use crate::catalogue::{Cpu, Disk, EachFamily, Family, Snapshot};

    struct Counting(usize);

    impl EachFamily for Counting {
        fn family<F: Family>(&mut self, rows: &mut Vec<F>) {
            self.0 += 1 + rows.len();
        }
    }

    struct AddTo(&'static str);

    impl EachFamily for AddTo {
        fn family<F: Family>(&mut self, rows: &mut Vec<F>) {
            if F::INFO.name == self.0 {
                rows.push(F::default());
            }
        }
    }

    #[test]
    fn a_group_takes_a_pointer_until_it_has_rows() {
        let mut s = Snapshot::default();
        assert!(size_of::<Snapshot>() < 128, "{}", size_of::<Snapshot>());
        let mut counting = Counting(0);
        s.each_family(&mut counting);
        assert!(counting.0 > 50, "all families are visited, though they are empty");
        assert!(s.block.0.is_none() && s.block.disk.is_empty());
        s.absorb(Snapshot::default());
        s.carry_over(Snapshot::default());
        assert_eq!(s.row::<Disk>(&"sda".into()), None);
        assert!(s.block.0.is_none());
        s.block.disk.push(Disk::new("sda".into()));
        assert!(s.block.0.is_some() && s.processor.0.is_none());
        s.each_family(&mut AddTo("cpu"));
        assert_eq!((s.the::<Cpu>(), s.block.disk.len()), (Some(&Cpu::default()), 1));
    }

    #[test]
    fn equal_is_what_has_the_same_rows() {
        let mut s = Snapshot::default();
        s.block.disk.push(Disk::new("sda".into()));
        assert_ne!(s, Snapshot::default());
        s.block.disk.clear();
        assert_eq!(s, Snapshot::default());
        let text = serde_json::to_string(&s).unwrap();
        assert_eq!(text, serde_json::to_string(&Snapshot::default()).unwrap());
        assert!(serde_json::from_str::<Snapshot>(&text).unwrap().block.0.is_none());
    }
}
