//! State of a sampled thread that does not run: blocked, or only idle.

use crate::value::State;

/// Functions in which tasks sleep uninterruptibly although they only wait for a process that they created: a vfork
/// parent.
const HARMLESS_SLEEPS: [&str; 3] = ["kernel_clone", "wait_for_vfork_done", "_do_fork"];
/// System calls in which a thread waits for asynchronous I/O: it sleeps interruptibly, but waits for storage just like
/// a thread in uninterruptible sleep.
const ASYNC_WAITS: [&str; 2] = ["io_getevents", "io_uring_enter"];

/// State of a sampled thread that does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sleep {
    /// In uninterruptible sleep.
    Uninterruptible,
    /// Waiting for asynchronous I/O.
    AsyncIo,
    /// Waiting for anything else.
    Other,
}

impl Sleep {
    /// Classifies the state and the wait channel of a row of family `process` or `thread`. `None` if the thread is not
    /// asleep.
    pub fn from_state(state: &State, wait_channel: &State) -> Option<Self> {
        let is_in = |places: &[&str]| wait_channel.get().is_some_and(|place| places.contains(&place));
        match state.get()? {
            "D" if !is_in(&HARMLESS_SLEEPS) => Some(Self::Uninterruptible),
            "S" if is_in(&ASYNC_WAITS) => Some(Self::AsyncIo),
            "D" | "S" | "I" => Some(Self::Other),
            _ => None,
        }
    }

    /// Returns whether the thread is blocked.
    pub fn is_blocked(self) -> bool {
        self != Self::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vfork_parent_is_not_blocked_and_a_waiter_for_asynchronous_io_is() {
        let blocked = |state: &str, place: &str| Sleep::from_state(&state.into(), &place.into()).map(Sleep::is_blocked);
        assert_eq!(blocked("D", "folio_wait_bit_common"), Some(true));
        assert_eq!(blocked("D", "kernel_clone"), Some(false));
        assert_eq!(blocked("S", "io_uring_enter"), Some(true));
        assert_eq!(blocked("S", "ep_poll"), Some(false));
        assert_eq!(blocked("R", ""), None);
    }
}
