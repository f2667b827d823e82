//! Functions in values: those of tuned, implemented from its documentation and source, and a few of our own that compute a value
//! from the machine.

use super::compute;
use super::cpus;
use crate::machine::Machine;
use regex::RegexBuilder;
use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Stdio};
use whyslow_model::cpu_list;

/// The functions and their context.
pub(super) struct Functions<'a> {
    pub(super) machine: &'a Machine,
    /// Whether they may run commands.
    pub(super) may_run: bool,
}

impl Functions<'_> {
    /// Calls a function. Returns `None` if there is none of that name, its arguments are invalid, or it has no result: the call
    /// then stays in the text unchanged.
    pub(super) fn call(&self, name: &str, arguments: &[String]) -> Result<Option<String>, String> {
        let machine = self.machine;
        let of: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let list = || cpus::unpack(&of.join(","));
        let online = || cpus::in_state(machine, "online");
        Ok(match (name, of.as_slice()) {
            ("assertion", [words, a, b]) if a != b => {
                return Err(format!("'{words}' does not hold: '{a}' is not '{b}'"));
            }
            ("assertion_non_equal", [words, a, b]) if a == b => {
                return Err(format!("'{words}' does not hold: both are '{a}'"));
            }
            ("exec", [program, rest @ ..]) => return self.run(program, rest).map(Some),
            ("calc_isolated_cores", rest) => isolated(machine, rest.first().copied()),
            ("check_net_queue_count", [count]) if is_number(count) => Some((*count).to_owned()),
            ("check_net_queue_count", [_]) => Some(online().len().to_string()),
            ("cpuinfo_check", [_, _, ..]) => {
                Some(first_match(&machine.root().maybe("proc/cpuinfo").unwrap_or_default(), &of))
            }
            ("cpulist2devs", [_, ..]) => {
                Some(list().iter().map(|cpu| format!("cpu{cpu}")).collect::<Vec<_>>().join(","))
            }
            ("cpulist2hex", [_, ..]) => Some(cpu_list::mask(&list())),
            ("cpulist2hex_invert", [_, ..]) => Some(cpu_list::mask(&without(online(), &list()))),
            ("cpulist_invert", [_, ..]) => Some(cpus::list(&without(online(), &list()))),
            ("cpulist_online", [_, ..]) => Some(cpus::list(&list().intersection(&online()).copied().collect())),
            ("cpulist_present", [_, ..]) => {
                Some(cpus::list(&list().intersection(&cpus::in_state(machine, "present")).copied().collect()))
            }
            ("cpulist_pack", [_, ..]) => Some(cpu_list::format(&list())),
            ("cpulist_unpack", [_, ..]) => Some(cpus::list(&list())),
            ("hex2cpulist", [mask]) => Some(cpus::list(&cpus::of_mask(mask).into_iter().collect())),
            ("package2cpus", [_, ..]) => Some(cpus::list(&of_packages(machine, &list()))),
            ("kb2s", [number]) => number.trim().parse::<i64>().ok().map(|kb| kb.saturating_mul(2).to_string()),
            ("s2kb", [number]) => number.trim().parse::<i64>().ok().map(|sectors| (sectors / 2).to_string()),
            ("log", [_, ..]) => Some(of.concat()),
            ("regex_search_ternary", [text, pattern, yes, no]) => {
                matches(pattern, text).map(|found| (if found { yes } else { no }).to_string())
            }
            ("strip", [_, ..]) => Some(of.concat().trim().to_owned()),
            ("virt_check", [guest, host]) => Some((if compute::is_guest(machine) { guest } else { host }).to_string()),
            (own, of) => compute::call(machine, own, of),
        })
    }

    /// Runs a command and returns its output, if commands are permitted.
    fn run(&self, program: &str, arguments: &[&str]) -> Result<String, String> {
        if !self.may_run {
            let words = [&[program], arguments].concat().join(" ");
            return Err(format!("it would run the command '{words}'; --allow-commands permits that"));
        }
        let out = Command::new(program).args(arguments).stdin(Stdio::null()).output();
        let out = out.map_err(|e| format!("the command '{program}' did not run: {e}"))?;
        Ok(String::from_utf8_lossy(&out.stdout).into_owned())
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

fn without(all: BTreeSet<u32>, left_out: &BTreeSet<u32>) -> BTreeSet<u32> {
    all.difference(left_out).copied().collect()
}

/// Whether a pattern matches the text; `None` if the pattern is invalid.
pub(super) fn matches(pattern: &str, text: &str) -> Option<bool> {
    let regex = RegexBuilder::new(pattern).multi_line(true).size_limit(1 << 20).build().ok()?;
    Some(regex.is_match(text))
}

/// Evaluates `PATTERN, ANSWER, PATTERN, ANSWER, … [, ELSE]`: returns the answer of the first pattern that matches.
fn first_match(text: &str, of: &[&str]) -> String {
    let found = of.chunks_exact(2).find(|pair| matches(pair[0], text) == Some(true)).map(|pair| pair[1]);
    let otherwise = if of.len() % 2 == 1 { of[of.len() - 1] } else { "" };
    found.unwrap_or(otherwise).to_owned()
}

/// Lists all CPUs except the first ones of each package.
fn isolated(machine: &Machine, reserved: Option<&str>) -> Option<String> {
    let reserved: usize = reserved.map_or(Some(1), |text| text.parse().ok())?;
    let isolated = packages(machine).into_values().flat_map(|cpus| cpus.into_iter().skip(reserved)).collect();
    Some(cpus::list(&isolated))
}

fn packages(machine: &Machine) -> BTreeMap<u64, BTreeSet<u32>> {
    let mut packages: BTreeMap<u64, BTreeSet<u32>> = BTreeMap::new();
    for cpu in cpus::in_state(machine, "present") {
        let path = format!("sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id");
        if let Some(package) = machine.root().number(&path) {
            packages.entry(package).or_default().insert(cpu);
        }
    }
    packages
}

fn of_packages(machine: &Machine, wanted: &BTreeSet<u32>) -> BTreeSet<u32> {
    let of =
        packages(machine).into_iter().filter(|(package, _)| u32::try_from(*package).is_ok_and(|p| wanted.contains(&p)));
    of.flat_map(|(_, cpus)| cpus).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_pattern_that_is_found_answers() {
        let text = "model : 7\nflags : sse avx\n";
        assert_eq!(first_match(text, &["^flags.*avx512", "a", r"^flags.*\bavx\b", "b", "c"]), "b");
        assert_eq!(first_match(text, &["avx512", "a", "c"]), "c");
        assert_eq!(first_match(text, &["avx512", "a"]), "");
        assert_eq!(matches("(", text), None);
    }
}
