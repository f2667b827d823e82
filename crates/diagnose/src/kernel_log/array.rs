//! Software RAID arrays in the kernel's log (drivers/md).

use std::collections::BTreeMap;

/// What the log tells of an array.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArrayLog {
    /// Members that failed.
    pub failed: Vec<String>,
    /// Whether it runs with members missing, as far as the log goes.
    pub degraded: bool,
    /// Whether there was no spare to rebuild on.
    pub no_spare: bool,
    /// Whether it was rebuilt after it was degraded.
    pub rebuilt: bool,
    /// Members that work, and members there should be.
    pub members: Option<(u32, u32)>,
    /// The first and last line about it.
    pub lines: Vec<u64>,
}

/// The name of an array the log does not name: 2.4 and 2.6 print a layout without it.
const UNNAMED: &str = "md";

/// Reads the arrays out of a log.
pub fn parse<'a>(lines: impl Iterator<Item = (u64, &'a str)>) -> BTreeMap<String, ArrayLog> {
    let mut arrays: BTreeMap<String, ArrayLog> = BTreeMap::new();
    let mut layout = false;
    let mut last = None;
    for (sequence, text) in lines {
        layout |= text.contains("conf printout");
        last = named(text).or(last);
        let Some(event) = event(text, layout) else { continue };
        // What is said of a member follows the line that names the array.
        let member = matches!(event, Event::Skipped(_));
        let name = named(text).or_else(|| last.clone().filter(|_| member)).unwrap_or_else(|| UNNAMED.to_owned());
        let array = arrays.entry(name).or_default();
        array.lines.push(sequence);
        apply(array, event);
    }
    arrays.retain(|_, array| array.degraded || array.rebuilt);
    arrays
}

enum Event<'a> {
    Failed(&'a str),
    Degraded,
    NoSpare,
    Members(u32, u32),
    MemberOut(&'a str),
    Skipped(&'a str),
    Rebuilt,
    Assembled(u32, u32),
}

fn event(text: &str, layout: bool) -> Option<Event<'_>> {
    let number = |word: &str| text.split_once(word)?.1.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok();
    if let Some((_, rest)) = text.split_once("Disk failure on ") {
        return Some(Event::Failed(rest.split([',', ' ']).next()?));
    }
    if let Some((_, rest)) = text.split_once("skipping faulty ") {
        return Some(Event::Skipped(rest.split([' ', ')']).next()?));
    }
    if text.contains("no spare disk to reconstruct") {
        return Some(Event::NoSpare);
    }
    if text.contains("continuing in degraded mode") || text.contains("Operation continuing on") {
        return Some(Event::Degraded);
    }
    if text.contains("recovery done") {
        return Some(Event::Rebuilt);
    }
    if text.contains("active with ") && text.contains(" out of ") {
        return Some(Event::Assembled(number("active with ")?, number(" out of ")?));
    }
    if layout && text.contains("wd:") && text.contains("rd:") {
        return Some(Event::Members(number("wd:")?, number("rd:")?));
    }
    if layout && text.contains("wo:1") && text.contains("o:0") {
        return Some(Event::MemberOut(text.split_once("dev:")?.1.split_whitespace().next()?));
    }
    None
}

fn apply(array: &mut ArrayLog, event: Event<'_>) {
    match event {
        Event::Failed(member) | Event::MemberOut(member) | Event::Skipped(member) => {
            if array.failed.iter().all(|m| m != member) {
                array.failed.push(member.to_owned());
            }
            array.degraded = true;
            array.rebuilt = false;
        }
        Event::Degraded => array.degraded = true,
        Event::NoSpare => {
            array.degraded = true;
            array.no_spare = true;
        }
        Event::Members(work, all) | Event::Assembled(work, all) => {
            array.members = Some((work, all));
            array.rebuilt |= array.degraded && work >= all;
            array.degraded = work < all;
        }
        Event::Rebuilt => {
            array.rebuilt |= array.degraded;
            array.degraded = false;
        }
    }
}

/// `md3:`, `md/raid1:md0:`, `md: md0: recovery done`
fn named(text: &str) -> Option<String> {
    let number =
        |word: &str| word.strip_prefix("md").is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    let mut words = text.split([' ', ':', '/', ',']);
    words.find(|word| number(word)).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrays(log: &[&str]) -> BTreeMap<String, ArrayLog> {
        parse(log.iter().enumerate().map(|(i, text)| (i as u64, *text)))
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
}
