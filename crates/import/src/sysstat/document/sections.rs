//! The sections of a report, and how their names become those of the text.

use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// How the names of a section become those of the text.
#[derive(Clone, Copy)]
enum Style {
    /// As they are.
    Plain,
    /// `usr` is `%usr`.
    Share,
    /// `rxpck` is `rxpck/s`, but for those that are no rates.
    Rate,
    /// `memfree` is `kbmemfree`.
    Kib,
}

/// A section of a report: where it stands, what heads it in the text, and the label of its rows.
pub struct Section {
    path: &'static [&'static str],
    /// What heads it in the text.
    pub header: &'static [&'static str],
    /// The name of its rows' label.
    pub label: Option<&'static str>,
    style: Style,
}

const fn section(
    path: &'static [&'static str],
    header: &'static [&'static str],
    label: Option<&'static str>,
    style: Style,
) -> Section {
    Section { path, header, label, style }
}

/// Those of which something is taken.
pub const SECTIONS: &[Section] = &[
    section(&["cpu-load"], &["CPU", "%idle"], Some("cpu"), Style::Share),
    section(&["cpu-load-all"], &["CPU", "%idle"], Some("cpu"), Style::Share),
    section(&["process-and-context-switch"], &["cswch/s"], None, Style::Rate),
    section(&["interrupts"], &["INTR", "intr/s"], Some("intr"), Style::Plain),
    section(&["swap-pages"], &["pswpin/s"], None, Style::Rate),
    section(&["paging"], &["pgpgin/s"], None, Style::Rate),
    section(&["memory"], &["kbmemfree"], None, Style::Kib),
    section(&["queue"], &["runq-sz"], None, Style::Plain),
    section(&["kernel"], &["file-nr"], None, Style::Plain),
    section(&["disk"], &["DEV", "tps"], Some("disk-device"), Style::Rate),
    section(&["network", "net-dev"], &["IFACE", "rxpck/s"], Some("iface"), Style::Rate),
    section(&["network", "net-edev"], &["IFACE", "rxerr/s"], Some("iface"), Style::Rate),
    section(&["network", "net-sock"], &["tcpsck"], None, Style::Plain),
    section(&["network", "net-ip"], &["irec/s"], None, Style::Rate),
    section(&["network", "net-eip"], &["idisc/s"], None, Style::Rate),
    section(&["network", "net-tcp"], &["active/s"], None, Style::Rate),
    section(&["network", "net-etcp"], &["atmptf/s"], None, Style::Rate),
    section(&["network", "net-udp"], &["idgmerr/s"], None, Style::Rate),
    section(&["network", "softnet"], &["CPU", "dropd/s"], Some("cpu"), Style::Rate),
    section(&["power-management", "cpu-frequency"], &["CPU", "MHz"], Some("number"), Style::Plain),
    section(&["psi", "psi-cpu"], &["%scpu"], None, Style::Plain),
    section(&["psi", "psi-io"], &["%sio"], None, Style::Plain),
    section(&["psi", "psi-mem"], &["%smem"], None, Style::Plain),
];
/// Of a section of rates, what are none.
const NO_RATES: [&str; 6] = ["tps", "areq-sz", "avgrq-sz", "avgqu-sz", "aqu-sz", "await"];
/// Names that are another word in the text.
const RENAMED: [(&str, &str, &str); 7] = [
    ("interrupts", "value", "intr/s"),
    ("cpu-frequency", "frequency", "MHz"),
    ("psi-cpu", "some_avg", "%scpu"),
    ("psi-io", "some_avg", "%sio"),
    ("psi-io", "full_avg", "%fio"),
    ("psi-mem", "some_avg", "%smem"),
    ("psi-mem", "full_avg", "%fmem"),
];

impl Section {
    /// Its rows in a report.
    pub fn rows<'v>(&self, report: &'v BTreeMap<String, Value>) -> Vec<&'v Map<String, Value>> {
        let [first, rest @ ..] = self.path else { return Vec::new() };
        rows_of(rest.iter().try_fold(report.get(*first), |value, name| Some(value?.get(name))).flatten())
    }

    /// The name that stands in the text for one of this section.
    pub fn column(&self, name: &str) -> String {
        let own = self.path.last().copied().unwrap_or_default();
        if let Some((.., column)) = RENAMED.iter().find(|(of, from, _)| *of == own && *from == name) {
            return (*column).to_owned();
        }
        if let Some(share) = name.strip_suffix("-percent") {
            return format!("%{share}");
        }
        match self.style {
            Style::Share => format!("%{name}"),
            Style::Kib => format!("kb{name}"),
            Style::Rate if !NO_RATES.contains(&name) => format!("{name}/s"),
            Style::Rate | Style::Plain => name.to_owned(),
        }
    }
}

/// The rows of a section, which is one or a list.
pub fn rows_of(section: Option<&Value>) -> Vec<&Map<String, Value>> {
    match section {
        Some(Value::Object(row)) => vec![row],
        Some(Value::Array(rows)) => rows.iter().filter_map(Value::as_object).collect(),
        _ => Vec::new(),
    }
}
