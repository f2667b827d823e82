//! User and system time as /proc shows them (`cputime_adjust` of kernel/sched/cputime.c).
//!
//! The tick samples whether a task runs in user or kernel mode; the scheduler measures how long it ran. /proc shows the measured
//! time, split in the sampled proportion, and never less than before.

use super::record::CpuTime;

/// Returns user and system time in nanoseconds. `user` and `system` are the values last returned.
pub(super) fn adjusted(cpu: &CpuTime, user: Option<u64>, system: Option<u64>) -> (u64, u64) {
    let shown_user = cpu.shown_user.max(user.unwrap_or(0));
    let shown_system = cpu.shown_system.max(system.unwrap_or(0));
    if shown_user.saturating_add(shown_system) >= cpu.runtime {
        return (shown_user, shown_system);
    }
    let system = split(cpu).max(shown_system);
    let user = cpu.runtime.saturating_sub(system);
    if user < shown_user {
        return (shown_user, cpu.runtime.saturating_sub(shown_user));
    }
    (user, system)
}

/// Returns the system time, as a share of the measured time.
fn split(cpu: &CpuTime) -> u64 {
    let sampled = u128::from(cpu.user) + u128::from(cpu.system);
    match (cpu.user, cpu.system) {
        (_, 0) => 0,
        (0, _) => cpu.runtime,
        // At most `runtime`, as the system's share is at most 1.
        _ => (u128::from(cpu.system) * u128::from(cpu.runtime) / sampled) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SAMPLED: CpuTime = CpuTime { user: 30, system: 10, runtime: 80, shown_user: 0, shown_system: 0 };

    #[test]
    fn measured_time_is_split_as_sampled() {
        assert_eq!(adjusted(&SAMPLED, None, None), (60, 20));
        assert_eq!(adjusted(&CpuTime { system: 0, ..SAMPLED }, None, None), (80, 0));
        assert_eq!(adjusted(&CpuTime { user: 0, ..SAMPLED }, None, None), (0, 80));
    }

    #[test]
    fn the_times_do_not_shrink() {
        assert_eq!(adjusted(&CpuTime { shown_system: 35, ..SAMPLED }, None, None), (45, 35));
        assert_eq!(adjusted(&SAMPLED, Some(70), None), (70, 10));
        assert_eq!(adjusted(&SAMPLED, Some(70), Some(30)), (70, 30));
    }

    proptest! {
        #[test]
        fn no_time_is_lost(user: u64, system: u64, runtime: u64, shown_user: u64, shown_system: u64) {
            let cpu = CpuTime { user, system, runtime, shown_user, shown_system };
            let (u, s) = adjusted(&cpu, None, None);
            prop_assert!(u >= shown_user || u + s == runtime);
            prop_assert!(u.saturating_add(s) >= runtime);
        }
    }
}
