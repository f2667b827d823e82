//! /sys/block/md*/md: software RAID (Documentation/admin-guide/md.rst).

use super::device;
use crate::ttl_cache::Seldom;
use crate::{Miss, Root, Source};
use whyslow_model::catalogue::Array;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::{Gauge, State};

const KIB: u64 = 1024;

/// The source of family `array`.
#[derive(Default)]
pub(super) struct Arrays {
    names: Seldom<Vec<String>>,
}

impl Source for Arrays {
    fn name(&self) -> &'static str {
        "sys/block/md"
    }

    fn tells(&self) -> &'static str {
        "software RAID arrays and their rebuilds"
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), Miss> {
        let names = || device::disks(root).into_iter().filter(|name| name.starts_with("md")).collect();
        out.block.array.extend(self.names.get(names).iter().filter_map(|name| array(root, name)));
        Ok(())
    }
}

/// `None` where the device is no array.
fn array(root: &Root, name: &str) -> Option<Array> {
    let file = |file: &str| root.kept_word(&format!("sys/block/{name}/md/{file}")).filter(|w| !w.is_empty());
    let state = file("array_state")?;
    let number = |text: Option<String>| text.as_deref().and_then(first_number);
    let gauge = |value: Option<u64>| value.map_or(Gauge::ABSENT, Gauge::from);
    Some(Array {
        level: words(file("level")),
        state: state.into(),
        degraded: gauge(number(file("degraded"))),
        members: gauge(number(file("raid_disks"))),
        action: words(file("sync_action")),
        sync_done: file("sync_completed").as_deref().and_then(ratio).map_or(Gauge::ABSENT, Gauge::from),
        sync_speed: gauge(number(file("sync_speed")).map(|kib| kib.saturating_mul(KIB))),
        ..Array::new(name.into())
    })
}

fn words(text: Option<String>) -> State {
    text.map_or_else(State::default, State::from)
}

/// The first of the numbers in a file: `4 (3)` while an array changes shape from 3 members to 4. `None` for `none`.
fn first_number(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().next()?.parse().ok()
}

/// `sectors done / sectors in all`; `None` where nothing goes on (`none`) or it waits its turn (`delayed`).
fn ratio(text: &str) -> Option<f64> {
    let (done, all) = text.split_once('/')?;
    let (done, all): (u64, u64) = (done.trim().parse().ok()?, all.trim().parse().ok()?);
    (all > 0).then(|| done as f64 / all as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::fixture::Tree;
    use proptest::prelude::*;

    #[test]
    fn an_array_that_rebuilds() {
        let tree = Tree::of(&[
            ("sys/block/md0/md/level", "raid5\n"),
            ("sys/block/md0/md/array_state", "active\n"),
            ("sys/block/md0/md/degraded", "1\n"),
            ("sys/block/md0/md/raid_disks", "4 (3)\n"),
            ("sys/block/md0/md/sync_action", "recover\n"),
            ("sys/block/md0/md/sync_completed", "250 / 1000\n"),
            ("sys/block/md0/md/sync_speed", "2048\n"),
            ("sys/block/md1/md/array_state", "clean\n"),
            ("sys/block/md1/md/sync_completed", "none\n"),
            ("sys/block/md1/md/sync_speed", "none\n"),
            ("sys/block/sda/size", "1\n"),
        ]);
        let mut s = Snapshot::default();
        Arrays::default().read(&tree.root(), &mut s).unwrap();
        let [rebuilding, clean] = &s.block.array[..] else { panic!("{:?}", s.block.array) };
        assert_eq!((rebuilding.level.get(), rebuilding.action.get()), (Some("raid5"), Some("recover")));
        assert_eq!((rebuilding.degraded.get(), rebuilding.members.get()), (Some(1.0), Some(4.0)));
        assert_eq!((rebuilding.sync_done.get(), rebuilding.sync_speed.get()), (Some(0.25), Some(2_097_152.0)));
        assert_eq!((clean.state.get(), clean.sync_done.get(), clean.sync_speed.get()), (Some("clean"), None, None));
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "[0-9/ ]{0,30}|.*") {
            let _ = ratio(&text);
            let _ = first_number(&text);
        }
    }
}
