//! Time lost by groups of hosts: by a property of the inventory, or by finding.

use super::{LostTo, SickHost, count};
use crate::cell::text;
use crate::table::INVENTORY_REACH_MS;
use crate::{Failure, Fleet, sql};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use whyslow_model::human;
use whyslow_show::text::Sheet;

/// Group name for hosts without the property.
const WITHOUT: &str = "(not known)";

/// Key for grouping hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupKey {
    /// By what they lost time to: a host can be in several groups.
    Finding,
    /// By a property of the inventory.
    Property {
        /// Kind of property, such as `kernel` or `label`.
        kind: String,
        /// Name of the property, such as `release` or `role`.
        name: String,
    },
}

impl GroupKey {
    /// Parses `finding`, `kernel`, `model`, a label, or `KIND/NAME`.
    ///
    /// # Errors
    /// Fails if a part is empty.
    pub fn parse(text: &str) -> Result<Self, String> {
        let property = |kind: &str, name: &str| Self::Property { kind: kind.to_owned(), name: name.to_owned() };
        match (text, text.split_once('/')) {
            ("finding", _) => Ok(Self::Finding),
            ("kernel", _) => Ok(property("kernel", "release")),
            ("model", _) => Ok(property("machine", "model")),
            (_, Some((kind, name))) if !kind.is_empty() && !name.is_empty() => Ok(property(kind, name)),
            (label, None) if !label.is_empty() => Ok(property("label", label)),
            _ => Err("not a key such as finding, kernel, role or sysctl/vm.swappiness".into()),
        }
    }

    fn in_words(&self) -> &str {
        match self {
            Self::Finding => "finding",
            Self::Property { name, .. } => name,
        }
    }
}

/// What the hosts of a group lost.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct Group {
    /// The value of the key; none of hosts of which it is not known.
    pub value: Option<String>,
    /// Hosts in it.
    pub hosts: usize,
    /// Those of them that are sick.
    pub sick: usize,
    /// Seconds that they lost.
    pub lost_s: f64,
    /// Seconds in which they were judged.
    pub judged_s: f64,
    /// What they lost the most to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finding: Option<String>,
}

/// Returns the groups, the one with the greatest share of sick hosts first.
pub(super) fn groups(fleet: &Fleet, key: &GroupKey, hosts: &[SickHost]) -> Result<Vec<Group>, Failure> {
    let properties = match key {
        GroupKey::Finding => HashMap::new(),
        GroupKey::Property { kind, name } => properties(fleet, kind, name)?,
    };
    let mut members: BTreeMap<Option<&str>, Vec<&SickHost>> = BTreeMap::new();
    for host in hosts {
        match key {
            GroupKey::Finding => {
                host.findings.iter().for_each(|lost| members.entry(Some(&lost.finding)).or_default().push(host));
            }
            GroupKey::Property { .. } => {
                members.entry(properties.get(&host.host).map(String::as_str)).or_default().push(host);
            }
        }
    }
    let mut groups: Vec<Group> = members.into_iter().map(|(value, hosts)| group(key, value, &hosts)).collect();
    let share = |group: &Group| group.sick as f64 / group.hosts.max(1) as f64;
    groups
        .sort_by(|a, b| share(b).total_cmp(&share(a)).then(b.lost_s.total_cmp(&a.lost_s)).then(a.value.cmp(&b.value)));
    Ok(groups)
}

/// Returns the latest value of a property for each host.
pub(in super::super) fn properties(fleet: &Fleet, kind: &str, name: &str) -> Result<HashMap<String, String>, Failure> {
    let rows = fleet.query(&sql::property(fleet.span().extended_back(INVENTORY_REACH_MS), kind, name))?.rows;
    let pair = |row: &Vec<_>| Some((text(&row[0])?.to_owned(), text(&row[1])?.to_owned()));
    Ok(rows.iter().filter_map(pair).collect())
}

fn group(key: &GroupKey, value: Option<&str>, hosts: &[&SickHost]) -> Group {
    let is_of_group = |lost: &&LostTo| *key != GroupKey::Finding || Some(lost.finding.as_str()) == value;
    let lost: Vec<&LostTo> = hosts.iter().flat_map(|host| &host.findings).filter(is_of_group).collect();
    let mut by_finding: BTreeMap<&str, f64> = BTreeMap::new();
    for lost in &lost {
        *by_finding.entry(&lost.finding).or_default() += lost.lost_s;
    }
    let most = by_finding.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(finding, _)| finding.to_owned());
    Group {
        value: value.map(str::to_owned),
        hosts: hosts.len(),
        sick: hosts.iter().filter(|host| host.is_sick()).count(),
        lost_s: match key {
            GroupKey::Finding => lost.iter().map(|lost| lost.lost_s).sum(),
            GroupKey::Property { .. } => hosts.iter().map(|host| host.lost_s).sum(),
        },
        judged_s: hosts.iter().map(|host| host.judged_s).sum(),
        finding: most.filter(|_| *key != GroupKey::Finding),
    }
}

pub(super) fn draw(sheet: &mut Sheet, key: &GroupKey, groups: &[Group]) {
    const MOST: usize = 6;
    sheet.blank();
    let rows = groups.iter().take(MOST).map(|group| {
        let share = if group.judged_s > 0.0 { human::percent(group.lost_s / group.judged_s) } else { String::new() };
        [
            group.value.clone().unwrap_or_else(|| WITHOUT.to_owned()),
            group.finding.clone().unwrap_or_default(),
            group.hosts.to_string(),
            group.sick.to_string(),
            human::quantity(group.lost_s, "s"),
            share,
        ]
    });
    sheet.table([key.in_words(), "most lost to", "hosts", "sick", "lost", "share"], 2, rows);
    if groups.len() > MOST {
        sheet.remark(&format!("{} more with --json.", count(groups.len() - MOST, "group")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str, lost: &[(&str, f64)]) -> SickHost {
        let findings = lost.iter().map(|&(finding, lost_s)| LostTo {
            finding: finding.to_owned(),
            lost_s,
            worst: 1.0,
            since: None,
        });
        let lost_s: f64 = lost.iter().map(|(_, lost)| lost).sum();
        let share = Some(lost_s / 1000.0);
        SickHost {
            host: name.into(),
            judged_s: 1000.0,
            lost_s,
            share,
            last_ms: 0,
            trend: None,
            findings: findings.collect(),
        }
    }

    #[test]
    fn keys_are_read() {
        let property = |kind: &str, name: &str| Ok(GroupKey::Property { kind: kind.into(), name: name.into() });
        assert_eq!(GroupKey::parse("finding"), Ok(GroupKey::Finding));
        assert_eq!(GroupKey::parse("kernel"), property("kernel", "release"));
        assert_eq!(GroupKey::parse("rack"), property("label", "rack"));
        assert_eq!(GroupKey::parse("sysctl/vm.swappiness"), property("sysctl", "vm.swappiness"));
        assert!(GroupKey::parse("").is_err() && GroupKey::parse("sysctl/").is_err());
    }

    #[test]
    fn a_group_is_the_sum_of_its_hosts() {
        let (a, b) = (host("a", &[("disk", 50.0), ("cpu", 4.0)]), host("b", &[("cpu", 6.0)]));
        let role = GroupKey::parse("role").unwrap();
        let all = group(&role, Some("db"), &[&a, &b]);
        assert_eq!((all.hosts, all.sick, all.lost_s, all.judged_s), (2, 1, 60.0, 2000.0), "0.6 % is not sick");
        assert_eq!(all.finding.as_deref(), Some("disk"));
        let cpu = group(&GroupKey::Finding, Some("cpu"), &[&a, &b]);
        assert_eq!((cpu.hosts, cpu.lost_s, cpu.finding), (2, 10.0, None));
    }
}
