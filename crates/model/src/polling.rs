//! Threads that use a whole CPU because they poll network cards or disks.

/// Prefixes of their names: Open vSwitch (lib/dpif-netdev.c), DPDK (lib/eal/linux/eal.c), VPP, SPDK.
const NAMES: [&str; 5] = ["pmd-c", "lcore-worker-", "lcore-slave-", "vpp_wk_", "reactor_"];

/// Returns whether a thread of this name polls: `pmd-c02/id:9`, `lcore-worker-3`.
pub fn is_polling_thread(name: &str) -> bool {
    let is_number = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    NAMES.iter().any(|thread| name.strip_prefix(thread).is_some_and(|rest| rest.split("/id:").all(is_number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_other_words_are_of_other_threads() {
        assert!(["pmd-c02/id:9", "lcore-worker-3", "reactor_0"].into_iter().all(is_polling_thread));
        assert!(["pmd-cook", "lcore-x", "reactor_main"].into_iter().all(|name| !is_polling_thread(name)));
    }
}
