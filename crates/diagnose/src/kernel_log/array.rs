//! Software RAID arrays in the kernel log (drivers/md).

use super::LogMessage;
use super::words::{after, is_number, number_after, says, until};
use std::collections::BTreeMap;

/// State of an array according to the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArrayLog {
    /// Members that failed.
    pub failed: Vec<String>,
    /// Whether it runs with members missing, at the end of the log.
    pub degraded: bool,
    /// Whether there was no spare to rebuild on.
    pub no_spare: bool,
    /// Whether it was rebuilt after it was degraded.
    pub rebuilt: bool,
    /// Number of working members, and of all members.
    pub members: Option<(u32, u32)>,
    /// Lines about it.
    pub lines: Vec<u64>,
}

/// Name of an array that the log does not name: 2.4 and 2.6 print a layout without it.
const UNNAMED: &str = "md";

/// Parses the arrays of a log.
pub fn parse<'a>(lines: impl Iterator<Item = LogMessage<'a>>) -> BTreeMap<String, ArrayLog> {
    let mut arrays: BTreeMap<String, ArrayLog> = BTreeMap::new();
    let mut layout = false;
    let mut last = None;
    for LogMessage { sequence, text, .. } in lines {
        layout |= text.contains("conf printout");
        last = named(text).or(last);
        let Some(event) = event(text, layout) else { continue };
        // A message about a member follows the line that names the array.
        let member = matches!(event, ArrayEvent::Skipped(_)) || text.contains("kicking");
        let name = named(text).or_else(|| last.clone().filter(|_| member)).unwrap_or_else(|| UNNAMED.to_owned());
        let array = arrays.entry(name).or_default();
        array.lines.push(sequence);
        apply(array, event);
    }
    arrays.retain(|_, array| array.degraded || array.rebuilt);
    arrays
}

enum ArrayEvent<'a> {
    Failed(&'a str),
    Degraded,
    NoSpare,
    Members(u32, u32),
    MemberOut(&'a str),
    Skipped(&'a str),
    Rebuilt,
}

fn event(text: &str, layout: bool) -> Option<ArrayEvent<'_>> {
    let name = |word: &str| after(text, word).map(|rest| until(rest, |c| [' ', ',', ')'].contains(&c)));
    if let Some(member) = name("Disk failure on ").or_else(|| name("kicking non-fresh ")) {
        return Some(ArrayEvent::Failed(member));
    }
    if let Some(member) = name("skipping faulty ") {
        return Some(ArrayEvent::Skipped(member));
    }
    if text.contains("no spare disk to reconstruct") {
        return Some(ArrayEvent::NoSpare);
    }
    if says(
        text,
        &["continuing in degraded mode", "Operation continuing on", "start dirty degraded array", "is now DEGRADED"],
    ) {
        return Some(ArrayEvent::Degraded);
    }
    if text.contains("not enough operational devices") {
        let (failed, all) = after(text, "(")?.split_once('/')?;
        let all: u32 = until(all, |c| c == ' ').parse().ok()?;
        return Some(ArrayEvent::Members(all.saturating_sub(failed.parse().ok()?), all));
    }
    if text.contains("recovery done") {
        return Some(ArrayEvent::Rebuilt);
    }
    if text.contains("active with ") && text.contains(" out of ") {
        return Some(ArrayEvent::Members(number_after(text, "active with ")?, number_after(text, " out of ")?));
    }
    if layout && text.contains("wd:") && text.contains("rd:") {
        return Some(ArrayEvent::Members(number_after(text, "wd:")?, number_after(text, "rd:")?));
    }
    if layout && text.contains("wo:1") && text.contains("o:0") {
        return Some(ArrayEvent::MemberOut(after(text, "dev:")?.split_whitespace().next()?));
    }
    None
}

fn apply(array: &mut ArrayLog, event: ArrayEvent<'_>) {
    match event {
        ArrayEvent::Failed(member) | ArrayEvent::MemberOut(member) | ArrayEvent::Skipped(member) => {
            if array.failed.iter().all(|m| m != member) {
                array.failed.push(member.to_owned());
            }
            array.degraded = true;
            array.rebuilt = false;
        }
        ArrayEvent::Degraded => array.degraded = true,
        ArrayEvent::NoSpare => {
            array.degraded = true;
            array.no_spare = true;
        }
        ArrayEvent::Members(work, all) => {
            array.members = Some((work, all));
            array.rebuilt |= array.degraded && work >= all;
            array.degraded = work < all;
        }
        ArrayEvent::Rebuilt => {
            array.rebuilt |= array.degraded;
            array.degraded = false;
        }
    }
}

/// Finds the array's name: `md3:`, `md/raid1:md0:`, `md: md0: recovery done`; a controller's `VD 00/0 is now DEGRADED`.
fn named(text: &str) -> Option<String> {
    if let Some(volume) = after(text, " VD ").filter(|_| text.contains("mega")) {
        return Some(format!("VD {}", until(volume, char::is_whitespace)));
    }
    let number = |word: &str| word.strip_prefix("md").is_some_and(is_number);
    let mut words = text.split([' ', ':', '/', ',']);
    words.find(|word| number(word)).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrays(log: &[&str]) -> BTreeMap<String, ArrayLog> {
        parse(crate::kernel_log::log(log))
    }

    #[test]
    fn a_failed_member_degrades_until_it_is_rebuilt() {
        let log = [
            "md/raid1:md0: active with 2 out of 2 mirrors",
            "md/raid1:md0: Disk failure on sdb, disabling device.",
            "md/raid1:md0: Operation continuing on 1 devices.",
            "md: recovery of RAID array md0",
            "md: md0: recovery done.",
        ];
        let degraded = &arrays(&log[..3])["md0"];
        assert!(degraded.degraded && degraded.failed == ["sdb"]);
        let rebuilt = &arrays(&log)["md0"];
        assert!(!rebuilt.degraded && rebuilt.rebuilt);
        assert!(arrays(&log[..1]).is_empty());
    }

    #[test]
    fn generations_that_name_no_array() {
        let log =
            ["RAID1 conf printout:", " --- wd:1 rd:2", " disk 0, wo:0, o:1, dev:sda1", " disk 1, wo:1, o:0, dev:sdb1"];
        let array = &arrays(&log)["md"];
        assert_eq!((array.members, array.failed.as_slice()), (Some((1, 2)), &["sdb1".to_owned()][..]));
        assert!(arrays(&["md3: no spare disk to reconstruct array! -- continuing in degraded mode"])["md3"].no_spare);
    }

    #[test]
    fn an_array_that_lacks_too_many() {
        let array = &arrays(&["raid5: not enough operational devices for md1 (2/4 failed)"])["md1"];
        assert_eq!((array.members, array.degraded), (Some((2, 4)), true));
        let kicked = &arrays(&["md: md2: x", "md: kicking non-fresh sdb1 from array!"]);
        assert_eq!(kicked["md2"].failed, ["sdb1"]);
    }
}
