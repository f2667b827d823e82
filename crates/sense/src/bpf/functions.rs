//! kfuncs: kernel functions without a fixed number (Documentation/bpf/kfuncs.rst), which aya does not support.

use aya::Btf;
use aya_obj::btf::BtfKind;
use std::borrow::Cow;

/// In the order of their placeholders in crates/sense/bpf/kernel.h (`KERNEL_FUNCTION`).
const NAMES: [&str; 6] = [
    "bpf_iter_num_new",
    "bpf_iter_num_next",
    "bpf_iter_num_destroy",
    "bpf_task_from_pid",
    "bpf_task_release",
    "bpf_rdonly_cast",
];
/// The placeholder of the first.
const FIRST: u32 = 0x4b46_0000;

/// An instruction that calls a helper, or with [`BY_NAME`] a kfunc
/// (include/uapi/linux/bpf.h: BPF_JMP | BPF_CALL, BPF_PSEUDO_KFUNC_CALL).
const fn call(source: u8, number: u32) -> [u8; 8] {
    let [a, b, c, d] = number.to_ne_bytes();
    [0x85, source << 4, 0, 0, a, b, c, d]
}
const HELPER: u8 = 0;
const BY_NAME: u8 = 2;

/// The object with the running kernel's numbers in its calls; unchanged if it calls no kfunc, or if the kernel lacks one: then the
/// program that calls it does not load.
pub(super) fn resolved<'o>(object: &'o [u8], types: &Btf) -> Cow<'o, [u8]> {
    let calls = calls(object);
    if calls.is_empty() {
        return object.into();
    }
    let numbers: Option<Vec<u32>> =
        NAMES.iter().map(|name| types.id_by_type_name_kind(name, BtfKind::Func).ok()).collect();
    numbers.map_or(object.into(), |numbers| with_numbers(object, &calls, &numbers).into())
}

/// Where an object calls a kfunc, and the index of its name.
fn calls(object: &[u8]) -> Vec<(usize, usize)> {
    let name = |bytes: &[u8]| (0..NAMES.len()).find(|name| bytes == call(HELPER, FIRST + *name as u32));
    object.windows(8).enumerate().filter_map(|(at, bytes)| Some((at, name(bytes)?))).collect()
}

fn with_numbers(object: &[u8], calls: &[(usize, usize)], numbers: &[u32]) -> Vec<u8> {
    let mut object = object.to_vec();
    for &(at, name) in calls {
        object[at..at + 8].copy_from_slice(&call(BY_NAME, numbers[name]));
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_calls_of_kfuncs_are_changed() {
        let object =
            [&[1, 2, 3][..], &call(HELPER, 6), &call(HELPER, FIRST), &call(HELPER, FIRST + 1), &[0x85]].concat();
        let changed = with_numbers(&object, &calls(&object), &[77, 88]);
        let wanted = [&[1, 2, 3][..], &call(HELPER, 6), &call(BY_NAME, 77), &call(BY_NAME, 88), &[0x85]].concat();
        assert_eq!(changed, wanted);
    }
}
