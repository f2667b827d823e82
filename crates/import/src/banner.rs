//! Banner of sysstat's tools: `Linux 2.6.18-92.el5 (host) 01/14/2010 _x86_64_ (4 CPU)`.

use crate::clock::date;
use crate::tool_run::ToolRun;
use jiff::civil::Date;
use whyslow_model::catalogue::MachineInfo;
use whyslow_model::key::MachineKey;

/// Banner of sysstat's tools: the machine, and the date on which the output begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Banner {
    date: Option<Date>,
    release: String,
    host: String,
    cpus: Option<f64>,
}

impl Banner {
    /// Reads a banner; returns `None` for any other line.
    pub fn read(line: &str) -> Option<Self> {
        let rest = line.trim_start().strip_prefix("Linux ")?;
        // `uname -a` prints the host name first, and more words before a parenthesis.
        let (release, rest) =
            rest.split_once(" (").filter(|(release, _)| !release.trim().contains(char::is_whitespace))?;
        let (host, rest) = rest.split_once(')').filter(|(host, _)| !host.contains(' '))?;
        let cpus = rest.rsplit_once('(').and_then(|(_, count)| count.strip_suffix(" CPU)")?.parse().ok());
        let date = rest.split_whitespace().find_map(date);
        Some(Self { date, release: release.trim().to_owned(), host: host.to_owned(), cpus })
    }

    pub fn date(&self) -> Option<Date> {
        self.date
    }

    /// Returns the name of the machine.
    pub fn host(&self) -> &str {
        &self.host
    }

    pub fn record(&self, run: &mut ToolRun, line: u32) {
        let machine = run.row::<MachineInfo>(0.0, line, MachineKey);
        machine.name = self.host.as_str().into();
        machine.release = self.release.as_str().into();
        machine.processors = self.cpus.into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn banners_of_all_versions_are_read() {
        let old = Banner::read("Linux 2.6.5-7.97-default (atlorca2)    05/09/05").unwrap();
        assert_eq!((old.host.as_str(), old.date, old.cpus), ("atlorca2", Some(Date::constant(2005, 5, 9)), None));
        let new = Banner::read("Linux 5.10.62 (large1) 09/04/2021 _x86_64_ (48 CPU)").unwrap();
        assert_eq!((new.release.as_str(), new.cpus), ("5.10.62", Some(48.0)));
        assert_eq!(Banner::read("Linux version 5.10.62 booted"), None);
        let of_uname = "Linux gw1 4.19.0-26-amd64 #1 SMP Debian 4.19.304-1 (2024-01-09) x86_64 GNU/Linux";
        assert_eq!(Banner::read(of_uname), None);
    }
}
