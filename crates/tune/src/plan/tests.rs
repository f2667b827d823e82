use super::*;
use crate::machine::tests::tree;
use crate::request::{RequestedValue, parse_change};

fn steps(machine: &Machine, requests: &[ChangeRequest]) -> Vec<(String, PlanStep)> {
    Plan::new(machine, "", requests)
        .document()
        .lines
        .into_iter()
        .map(|line| (format!("{}={}", line.target, line.wanted), line.step))
        .collect()
}

fn wants(target: &str, wanted: RequestedValue) -> ChangeRequest {
    ChangeRequest { target: target.parse().unwrap(), wanted, reason: String::new() }
}

#[test]
fn changes_are_read() {
    assert_eq!(parse_change("a.b@c=d=e").unwrap().wanted, RequestedValue::Exactly("d=e".into()));
    assert!(parse_change("vm.swappiness").unwrap_err().to_string().contains("NAME=VALUE"));
}

#[test]
fn a_pattern_stands_for_every_thing() {
    let disk = |name: &str| format!("sys/block/{name}/queue/scheduler");
    let (_folder, machine) =
        tree(&[(&disk("sda"), "[none] bfq\n"), (&disk("sdb"), "none [bfq]\n"), (&disk("vda"), "[none]\n")]);
    let steps = steps(&machine, &[parse_change("disk.scheduler@sd*=bfq").unwrap()]);
    assert_eq!(
        steps,
        [
            ("disk.scheduler@sda=bfq".into(), PlanStep::Change { from: "none".into() }),
            ("disk.scheduler@sdb=bfq".into(), PlanStep::Already),
        ]
    );
}

#[test]
fn a_list_stands_for_several_processes() {
    let (_folder, machine) = tree(&[]);
    let named = steps(&machine, &[parse_change("process.nice@7,12=10").unwrap()]).into_iter().map(|(named, _)| named);
    assert_eq!(named.collect::<Vec<_>>(), ["process.nice@7=10", "process.nice@12=10"]);
}

#[test]
fn a_requested_value_may_be_a_bound_or_a_choice() {
    let (_folder, machine) =
        tree(&[("proc/sys/net/core/somaxconn", "4096\n"), ("sys/block/sda/queue/scheduler", "[none] kyber\n")]);
    let value = || "2048".to_owned();
    let name = "net.core.somaxconn";
    assert!(matches!(steps(&machine, &[wants(name, RequestedValue::AtLeast(value()))])[0].1, PlanStep::Keep { .. }));
    assert!(matches!(steps(&machine, &[wants(name, RequestedValue::AtMost(value()))])[0].1, PlanStep::Change { .. }));
    let schedulers = RequestedValue::FirstOf(vec!["bfq".into(), "kyber".into(), "none".into()]);
    assert_eq!(steps(&machine, &[wants("disk.scheduler@sda", schedulers)])[0].0, "disk.scheduler@sda=kyber");
    let none = RequestedValue::FirstOf(vec!["cfq".into()]);
    assert!(matches!(
        &steps(&machine, &[wants("disk.scheduler@sda", none)])[0].1,
        PlanStep::Cannot(Unavailable::Failed(_))
    ));
}

#[test]
fn what_others_depend_on_comes_first_and_the_last_request_counts() {
    let (_folder, machine) =
        tree(&[("sys/block/sda/queue/scheduler", "[none] bfq\n"), ("sys/block/sda/queue/nr_requests", "64\n")]);
    let requests = ["disk.nr_requests@sda=256", "disk.scheduler@sda=none", "disk.scheduler@sda=bfq"]
        .map(|w| parse_change(w).unwrap());
    let names: Vec<String> = steps(&machine, &requests).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["disk.scheduler@sda=bfq", "disk.nr_requests@sda=256"]);
}

#[test]
fn the_other_half_of_a_pair_is_named() {
    let (_folder, machine) = tree(&[("proc/sys/vm/dirty_bytes", "8192\n"), ("proc/sys/vm/dirty_ratio", "0\n")]);
    let step = &steps(&machine, &[parse_change("vm.dirty_bytes=0").unwrap()])[0].1;
    assert!(
        matches!(step, PlanStep::Cannot(Unavailable::Failed(why)) if why.contains("set vm.dirty_ratio instead")),
        "{step:?}"
    );
}
