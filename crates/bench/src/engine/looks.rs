//! Whether to look for completions before going to sleep for them.
//!
//! To be woken takes some microseconds, and tens of them where a hypervisor has to wake the processor first; who wakes another pays for it,
//! too. A device that is given few requests at a time and is fast runs dry meanwhile: how long a request takes is then how long the
//! waking takes. Looking for a moment more costs no more than the sleep would have, where it finds something.

use std::time::Duration;

/// How often to look: some ten microseconds' worth.
const LOOKS: u32 = 64;
/// More requests than that last a device for as long as the waking takes, and are taken many at once after it.
const FEW: usize = 8;
/// What it is worth that a look found something, that a round of looks was in vain, and that this thread slept: looking goes on where it finds
/// something more than four times for each time in vain, and is tried again at every sixty-fourth sleep.
const FOUND: i32 = 16;
const IN_VAIN: i32 = -64;
const SLEPT: i32 = 1;
/// How much is remembered of it.
const MOST_CREDIT: i32 = 512;

/// What looking has been worth so far.
pub(super) struct Looks {
    few: bool,
    credit: i32,
    /// How long it took.
    pub(super) time: Duration,
}

impl Looks {
    /// Where there are so many requests at a time.
    pub(super) fn new(depth: usize) -> Self {
        Self { few: depth <= FEW, credit: 0, time: Duration::ZERO }
    }

    /// How often to look now.
    pub(super) fn due(&self) -> u32 {
        if self.few && self.credit > 0 { LOOKS } else { 0 }
    }

    /// A look found something.
    pub(super) fn found(&mut self) {
        self.add(FOUND);
    }

    /// All looks that were due were in vain.
    pub(super) fn in_vain(&mut self) {
        self.add(IN_VAIN);
    }

    /// This thread slept.
    pub(super) fn slept(&mut self) {
        self.add(SLEPT);
    }

    fn add(&mut self, worth: i32) {
        self.credit = (self.credit + worth).clamp(IN_VAIN, MOST_CREDIT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looking_is_tried_now_and_then_and_kept_up_while_it_finds_something() {
        let mut looks = Looks::new(8);
        assert_eq!(looks.due(), 0);
        looks.slept();
        assert_eq!(looks.due(), LOOKS);
        looks.in_vain();
        let mut sleeps = 0;
        while looks.due() == 0 {
            looks.slept();
            sleeps += 1;
        }
        assert_eq!(sleeps, 64);
        for _ in 0..100 {
            (0..5).for_each(|_| looks.found());
            looks.in_vain();
            assert_eq!(looks.due(), LOOKS);
        }
        for _ in 0..100 {
            (0..3).for_each(|_| looks.found());
            looks.in_vain();
        }
        assert_eq!(looks.due(), 0);
    }

    #[test]
    fn of_many_requests_there_is_nothing_to_gain() {
        let mut looks = Looks::new(32);
        looks.slept();
        assert_eq!(looks.due(), 0);
    }
}
