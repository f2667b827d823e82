//! Alignment of partitions to the blocks of their disk.

use super::bytes;
use whyslow_model::catalogue::Queue;

/// Start of a partition relative to the disk's block and I/O sizes.
pub(super) struct Alignment {
    /// Bytes past a boundary of the physical block, and the block's size.
    block: Option<(f64, f64)>,
    /// Bytes past a multiple of the optimal I/O size, and that size, if the disk reports a plausible one.
    optimal: Option<(f64, f64)>,
}

impl Alignment {
    pub(super) fn from_queue(start: f64, disk: &Queue) -> Self {
        // The disk's own first sector can lie within a physical block (alignment_offset).
        let past =
            |size: f64| (start + size - disk.alignment_offset.get().unwrap_or(0.0).rem_euclid(size)).rem_euclid(size);
        let physical = disk.physical_block.get().filter(|size| *size > 0.0);
        // Some disks and bridges report a size that is not a multiple of their block.
        let optimal = disk.optimal_io.get().zip(physical).filter(|(size, block)| *size > 0.0 && size % block == 0.0);
        Self { block: physical.map(|size| (past(size), size)), optimal: optimal.map(|(size, _)| (past(size), size)) }
    }

    pub(super) fn words(&self) -> Option<String> {
        let (past, size) = self.block?;
        let at_block = match past {
            0.0 => format!("aligned to blocks of {}", bytes(size)),
            _ => format!("{} past a block of {}", bytes(past), bytes(size)),
        };
        Some(match self.optimal {
            Some((0.0, size)) => format!("{at_block} and to the optimal I/O size of {}", bytes(size)),
            Some((past, size)) => format!("{at_block}, {} past the optimal I/O size of {}", bytes(past), bytes(size)),
            None => at_block,
        })
    }

    pub(super) fn problem(&self) -> Option<String> {
        let (past, size) = self.block.filter(|(past, _)| *past > 0.0)?;
        let (past, size) = (bytes(past), bytes(size));
        Some(format!(
            "It begins {past} past a physical block of {size}: aligned writes of the file system touch two blocks."
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_optimal_size_that_is_no_multiple_of_the_block_is_left_out() {
        let disk = Queue { physical_block: 4096.0.into(), optimal_io: 33_553_920.0.into(), ..Queue::new("sda".into()) };
        assert_eq!(Alignment::from_queue(1_048_576.0, &disk).words().as_deref(), Some("aligned to blocks of 4 KiB"));
    }
}
