//! kfuncs: kernel functions without a stable number (Documentation/bpf/kfuncs.rst), which aya does not support.

use aya::Btf;
use aya_obj::btf::BtfKind;
use std::borrow::Cow;
use std::cell::OnceCell;

/// Names in the order of their placeholders in crates/sense/bpf/kernel.h (`KERNEL_FUNCTION`).
const NAMES: [&str; 6] =
    ["bpf_iter_num_new", "bpf_iter_num_next", "bpf_iter_num_destroy", "bpf_task_from_pid", "bpf_task_release", CAST];
/// kfunc that returns its first argument as a pointer that the verifier does not trust. A kernel without it trusts none.
const CAST: &str = "bpf_rdonly_cast";
/// Placeholder of the first name.
const FIRST: u32 = 0x4b46_0000;

/// Encodes an instruction that calls a helper, or with [`BY_NAME`] a kfunc (include/uapi/linux/bpf.h: BPF_JMP | BPF_CALL,
/// BPF_PSEUDO_KFUNC_CALL).
const fn call(source: u8, number: u32) -> [u8; 8] {
    let [a, b, c, d] = number.to_ne_bytes();
    [0x85, source << 4, 0, 0, a, b, c, d]
}
const HELPER: u8 = 0;
const BY_NAME: u8 = 2;
/// Instruction that makes the first argument the result: r0 = r1 (BPF_ALU64 | BPF_MOV | BPF_X).
const FIRST_ARGUMENT: [u8; 8] = [0xbf, 1 << 4, 0, 0, 0, 0, 0, 0];

/// The numbers of kfuncs in the running kernel; `None` if the kernel lacks one. Each is looked up once, among all of the kernel's
/// types.
#[derive(Default)]
pub(super) struct Functions([OnceCell<Option<u32>>; NAMES.len()]);

impl Functions {
    /// Returns the object with these numbers in its calls. A program that calls a kfunc that the kernel lacks does not load.
    pub(super) fn resolve<'o>(&self, object: &'o [u8], types: &Btf) -> Cow<'o, [u8]> {
        with_numbers(object, |name| {
            *self.0[name].get_or_init(|| types.id_by_type_name_kind(NAMES[name], BtfKind::Func).ok())
        })
    }
}

/// Returns the offsets at which an object calls a kfunc, with the index of its name.
fn calls(object: &[u8]) -> Vec<(usize, usize)> {
    let name = |bytes: &[u8]| (0..NAMES.len()).find(|name| bytes == call(HELPER, FIRST + *name as u32));
    object.windows(8).enumerate().filter_map(|(at, bytes)| Some((at, name(bytes)?))).collect()
}

/// Replaces the placeholders. `number` maps the index of a name to its number.
fn with_numbers(object: &[u8], number: impl Fn(usize) -> Option<u32>) -> Cow<'_, [u8]> {
    let mut resolved = Cow::from(object);
    for (at, name) in calls(object) {
        let instruction = match number(name) {
            Some(number) => call(BY_NAME, number),
            None if NAMES[name] == CAST => FIRST_ARGUMENT,
            None => continue,
        };
        resolved.to_mut()[at..at + 8].copy_from_slice(&instruction);
    }
    resolved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_calls_of_kfuncs_are_changed() {
        let object =
            [&[1, 2, 3][..], &call(HELPER, 6), &call(HELPER, FIRST), &call(HELPER, FIRST + 1), &[0x85]].concat();
        let wanted = [&[1, 2, 3][..], &call(HELPER, 6), &call(BY_NAME, 77), &call(BY_NAME, 78), &[0x85]].concat();
        assert_eq!(*with_numbers(&object, |name| Some(77 + name as u32)), *wanted);
    }

    #[test]
    fn without_the_cast_the_pointer_stays_as_it_is_and_other_calls_are_left_for_the_verifier_to_refuse() {
        let placeholder = |name| call(HELPER, FIRST + NAMES.iter().position(|n| *n == name).unwrap() as u32);
        let object = [placeholder(CAST), placeholder("bpf_task_release")].concat();
        // r0 = r1
        let wanted = [[0xbf, 0x10, 0, 0, 0, 0, 0, 0], placeholder("bpf_task_release")].concat();
        assert_eq!(*with_numbers(&object, |_| None), *wanted);
    }
}
