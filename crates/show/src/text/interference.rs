//! Groups of processes that slow others down.

use super::heading;
use crate::canvas::{Canvas, bold, dim, plain};
use crate::human;
use whyslow_documents::diagnosis::{GroupName, InterferencePair};

/// Maximum number of pairs and lines on the first screen.
const MOST_PAIRS: usize = 3;
const MOST_LINES: usize = 3;

/// Draws the worst pairs, for the first screen.
pub(super) fn worst(canvas: &mut Canvas, pairs: &[InterferencePair]) {
    let felt: Vec<String> = pairs.iter().filter(|pair| pair.is_felt()).take(MOST_PAIRS).map(sentence).collect();
    if !felt.is_empty() {
        canvas.at_most(MOST_LINES, 0, 2, &[bold("Interference: "), plain(felt.join("; ")), plain(".")]);
    }
}

/// Draws all pairs.
pub(super) fn table(canvas: &mut Canvas, pairs: &[InterferencePair]) {
    if pairs.is_empty() {
        return;
    }
    heading(canvas, "Interference");
    for pair in pairs {
        let (share, loss) = (human::share(pair.share), human::share(pair.loss));
        let how = format!(" ({share} of its waiting, {loss} of its time; {})", pair.how);
        canvas.paragraph(2, 4, &[plain(sentence(pair)), dim(how)]);
    }
}

/// Formats a pair: `web waited 1.2 s in 10 s for a CPU behind batch`.
fn sentence(pair: &InterferencePair) -> String {
    let (seconds, observed) = (human::seconds(pair.seconds), human::seconds(pair.observed.round().max(1.0)));
    let (victim, culprit) = (group(&pair.victim), group(&pair.culprit));
    format!("{victim} waited {seconds} in {observed} for {} behind {culprit}", resource(pair))
}

fn resource(pair: &InterferencePair) -> String {
    match (pair.resource.as_str(), pair.on.as_deref()) {
        ("cpu", _) => "a CPU".to_owned(),
        ("disk", Some(device)) => format!("disk {device}"),
        ("memory", Some(limit)) if limit != "/" => format!("memory of {limit}"),
        ("network", _) => "the network".to_owned(),
        (other, _) => other.to_owned(),
    }
}

/// Returns the common name of a group: the virtual machine, the container, the unit, or the path of the control group.
fn group(group: &GroupName) -> String {
    if let Some(guest) = &group.guest {
        return format!("guest {guest}");
    }
    match (&group.container, &group.unit) {
        _ if group.kind == "kernel" => "the kernel's threads".to_owned(),
        (Some(container), _) => format!("container {container}"),
        (None, Some(unit)) => unit.clone(),
        (None, None) if group.name == "/" => "processes outside of any control group".to_owned(),
        (None, None) => group.name.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_documents::diagnosis::Confidence;

    #[test]
    fn the_three_worst_pairs_are_on_the_first_screen() {
        let group = |name: &str, unit: Option<&str>| GroupName {
            kind: "cgroup".into(),
            name: name.into(),
            unit: unit.map(Into::into),
            container: None,
            guest: None,
        };
        let pair = |victim: &str, seconds: f64, resource: &str, on: Option<&str>| InterferencePair {
            victim: group(victim, None),
            culprit: group("/system.slice/batch.service", Some("batch")),
            resource: resource.into(),
            on: on.map(Into::into),
            seconds,
            observed: 10.0,
            share: 0.8,
            loss: 0.4,
            confidence: Confidence::High,
            how: "time on run queues".into(),
        };
        let pairs = [
            pair("/web", 2.0, "cpu", None),
            pair("/db", 1.5, "disk", Some("sda")),
            pair("/pod/a", 1.0, "memory", Some("/pod")),
            pair("/mail", 0.8, "network", None),
        ];
        let mut canvas = Canvas::new(100, false);
        worst(&mut canvas, &pairs);
        assert_eq!(
            canvas.finish(),
            "Interference: /web waited 2 s in 10 s for a CPU behind batch; /db waited 1.50 s in 10 s for disk sda\n  \
             behind batch; /pod/a waited 1 s in 10 s for memory of /pod behind batch.\n"
        );
        let mut canvas = Canvas::new(100, false);
        worst(&mut canvas, &[pair("/web", 0.4, "cpu", None)]);
        assert_eq!(canvas.finish(), "", "4 % of the time is not noticed");
    }
}
