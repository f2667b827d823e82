//! Whether to look for completions before going to sleep for them.
//!
//! To be woken takes some microseconds, and tens of them where a hypervisor has to wake the processor first; who wakes another pays for it,
//! too. A device that is given few requests at a time and is fast runs dry meanwhile: how long a request takes is then how long the
//! waking takes.

use std::time::Duration;

/// How long to look. A disk that takes forty microseconds would do a third more, one request at a time, were it looked for so long,
/// for half as much processor time again.
pub(super) const LONGEST: Duration = Duration::from_micros(20);
/// More requests than that last a device for as long as the waking takes, and are taken many at once after it.
const FEW: usize = 8;
/// What it is worth that something was found, and that nothing was: looking goes on where it finds something more than four times
/// for each time in vain.
const FOUND: i32 = 16;
const IN_VAIN: i32 = -64;
/// How much is remembered of it.
const MOST_CREDIT: i32 = 512;
/// Four times in vain and looking ends: once says little, for who looks keeps a processor that the device's work may have been
/// waiting for.
const TRY_OUT: i32 = 256;
/// After so many sleeps it is tried out again.
const REST: u32 = 2048;

/// What looking has been worth so far.
pub(super) struct Looks {
    few: bool,
    credit: i32,
    /// Sleeps until it is tried out again.
    rest: u32,
    /// How long it took.
    pub(super) time: Duration,
}

impl Looks {
    /// Where there are so many requests at a time.
    pub(super) fn new(depth: usize) -> Self {
        Self { few: depth <= FEW, credit: 0, rest: 0, time: Duration::ZERO }
    }

    /// Whether to look now.
    pub(super) fn are_due(&self) -> bool {
        self.few && self.credit > 0
    }

    /// So long it was looked, and something was found or not.
    pub(super) fn looked(&mut self, time: Duration, found: bool) {
        self.time += time;
        self.credit = (self.credit + if found { FOUND } else { IN_VAIN }).clamp(0, MOST_CREDIT);
        if self.credit == 0 {
            self.rest = REST;
        }
    }

    /// This thread let the kernel wait for a completion, and slept where none was there at once.
    pub(super) fn slept(&mut self) {
        match self.rest.checked_sub(1) {
            Some(rest) => self.rest = rest,
            None if self.credit == 0 => self.credit = TRY_OUT,
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looking_is_tried_now_and_then_and_kept_up_while_it_finds_something() {
        let mut looks = Looks::new(8);
        let look = |looks: &mut Looks, found| looks.looked(Duration::from_micros(1), found);
        let try_out = |looks: &mut Looks| {
            for _ in 0..4 {
                assert!(looks.are_due());
                look(looks, false);
            }
            assert!(!looks.are_due());
        };
        assert!(!looks.are_due());
        looks.slept();
        try_out(&mut looks);
        (0..2048).for_each(|_| looks.slept());
        assert!(!looks.are_due());
        looks.slept();
        try_out(&mut looks);
        (0..2049).for_each(|_| looks.slept());
        for _ in 0..100 {
            (0..5).for_each(|_| look(&mut looks, true));
            look(&mut looks, false);
            assert!(looks.are_due());
        }
        for _ in 0..100 {
            (0..3).for_each(|_| look(&mut looks, true));
            look(&mut looks, false);
        }
        assert!(!looks.are_due());
        assert_eq!(looks.time, Duration::from_micros(1008));
    }

    #[test]
    fn of_many_requests_there_is_nothing_to_gain() {
        let mut looks = Looks::new(32);
        looks.slept();
        assert!(!looks.are_due());
    }
}
