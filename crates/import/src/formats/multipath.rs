//! multipath(8) -ll: paths to each device, by priority group (libmultipath/print.c).

use crate::prelude::*;
use whyslow_model::catalogue::{MappedDevice, Path, Queue};
use whyslow_model::key::LinkKey;
use whyslow_model::value::Name;

pub const FORMAT: Format = Format {
    name: "multipath",
    versions: "multipath-tools 0.4 to 0.9: -l, -ll",
    shows: "the paths to each device, which of them carry load, which failed",
    lacks: "rates by path",
    programs: &[partly_read("multipath")],
    files: &["multipath"],
    starts: |lines| {
        lines.next_is(|line| device(line).is_some()) && lines.peek(1).is_some_and(|line| line.contains("size="))
    },
    read,
    ..Format::NEW
};

/// Returns the name and the kernel's name in `mpatha (3600...) dm-2 IBM,2145` or `3600... dm-2 IBM,2145`.
fn device(line: &str) -> Option<(&str, &str)> {
    let is_mapped = |word: &&str| word.strip_prefix("dm-").is_some_and(|n| n.parse::<u32>().is_ok());
    let mut words = line.split_whitespace();
    // `create: ` and `reload: ` precede it while devices are set up.
    let name = words.by_ref().find(|word| !word.ends_with(':')).filter(|name| !name.starts_with('('))?;
    Some((name, words.take(2).find(is_mapped)?))
}

/// Returns true if the group is in use: `|-+- policy='service-time 0' prio=50 status=active`, `\_ round-robin 0
/// [prio=50][active]`.
fn group(line: &str) -> Option<bool> {
    if let Some((_, status)) = line.split_once("status=") {
        let known = [("active", true), ("enabled", false), ("disabled", false), ("undef", false)];
        return known.into_iter().find(|(name, _)| *name == status.trim()).map(|(_, in_use)| in_use);
    }
    (line.contains("[prio=") || line.contains(" 0 [")).then(|| line.contains("[active]"))
}

/// Returns the address, device and states in `| `- 3:0:0:1 sdb 8:16 active ready running` or `\_ 0:0:0:1 sda 8:0
/// [active][ready]`.
fn path(line: &str) -> Option<(&str, &str, Vec<&str>)> {
    let text = line.trim_start_matches(['|', '`', '-', '\\', '_', ' ']);
    let (address, rest) = text.split_once(' ')?;
    let mut words = rest.split(['[', ']', ' ']).filter(|word| !word.is_empty());
    let (name, number) = (words.next()?, words.next()?);
    let known = (address.matches(':').count() == 3 || address == "#:#:#:#") && number.contains(':');
    let states: Vec<&str> = words.collect();
    let is_whole = states.len() >= 2 && states.len() <= 4 && ["active", "failed", "undef"].contains(&states[0]);
    (known && is_whole).then_some((address, name, states))
}

/// Returns true for the last path of its group, so that the next one belongs to another group.
fn is_last_of_group(line: &str) -> bool {
    line.contains("`- ")
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    while let Some(title) = lines.take_past_blanks_if(|line| device(line).is_some()) {
        let (name, mapped) = device(&title.text).unwrap_or_default();
        run.row::<MappedDevice>(0.0, title.number, mapped.into()).name = name.into();
        let mut in_use = None;
        let mut sizes = 0;
        while let Some(text) = lines.peek(0) {
            if let Some((address, lower, states)) = path(text) {
                // The line of its group or of its device was lost.
                let group = in_use.filter(|_| sizes < 2);
                in_use = in_use.filter(|_| !is_last_of_group(text));
                let Some(group) = group else {
                    lines.leave_out("a path below its group")?;
                    continue;
                };
                let state = state_of(&states, group);
                let adapter = address.split(':').next().map(|host| format!("host{host}"));
                let key = LinkKey { upper: name.into(), lower: lower.into() };
                let lower = Name::from(lower);
                let address = Some(address).filter(|address| address.starts_with(|c: char| c.is_ascii_digit()));
                let address = address.map(str::to_owned);
                let number = lines.number();
                let row = run.row::<Path>(0.0, number, key);
                row.state = state.into();
                row.adapter = adapter.unwrap_or_default().as_str().into();
                run.row::<Queue>(0.0, number, lower).address = address.as_deref().into();
            } else if let Some(active) = group(text) {
                in_use = Some(active);
            } else if text.contains("size=") {
                sizes += 1;
            } else {
                break;
            }
            lines.skip(1);
        }
    }
    Ok(())
}

/// Returns the state of a path. A group that is not in use is on standby until the one in use has failed.
fn state_of(states: &[&str], in_use: bool) -> &'static str {
    if states.iter().any(|state| ["failed", "faulty", "shaky", "offline"].contains(state)) {
        "failed"
    } else if in_use && !states.contains(&"ghost") {
        "active"
    } else {
        "standby"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, window_of};

    fn states(text: &str) -> Vec<String> {
        let window = window_of(text);
        let paths = window.newest::<Path>();
        let states = paths.values().map(|row| format!("{}: {}", row.path, row.state.get().unwrap_or("none")));
        states.collect()
    }

    #[test]
    fn failed_and_waiting_paths_of_two_devices() {
        let text = fixture("layouts/multipath-ll.txt");
        let mapped = window_of(&text);
        let mapped = mapped.newest::<MappedDevice>();
        let names: Vec<_> = mapped.values().map(|row| (row.device.to_string(), row.name.get())).collect();
        assert_eq!(names, [("dm-2".to_owned(), Some("mpatha")), ("dm-3".to_owned(), Some("mpathb"))]);
        let expected = [
            "mpatha on sdb: active",
            "mpatha on sdc: standby",
            "mpatha on sdd: failed",
            "mpatha on sde: failed",
            "mpathb on sdf: active",
            "mpathb on sdg: active",
        ];
        assert_eq!(states(&text), expected);
    }

    #[test]
    fn the_layout_of_version_0_4() {
        let text = "mpath0 (3600508b4000971ca0000f00000110000) dm-0 HP,HSV210\n\
            [size=100G][features=1 queue_if_no_path][hwhandler=0][rw]\n\
            \\_ round-robin 0 [prio=50][active]\n \\_ 0:0:0:1 sda 8:0  [active][ready]\n\
            \\_ round-robin 0 [prio=10][enabled]\n \\_ 1:0:0:1 sdb 8:16 [failed][faulty]\n";
        assert_eq!(states(text), ["mpath0 on sda: active", "mpath0 on sdb: failed"]);
    }
}
