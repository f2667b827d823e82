//! Draws a box for each node, in columns from the entry of requests to the hardware, with lines between them.

use super::boxes::{Line, lines, shortened, tooltip};
use crate::escape::xml;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Arguments, Write};
use whyslow_documents::io_stack::{IoStack, StackGroup, StackKind, StackNode};

/// Lengths are in pixels.
const MARGIN: f64 = 16.0;
/// Width of a box, and the space for lines between columns.
const WIDTH: f64 = 232.0;
const BETWEEN: f64 = 60.0;
const PADDING: f64 = 8.0;
/// Distance between boxes in a column, and between groups.
const GAP: f64 = 10.0;
const APART: f64 = 22.0;
const LINE: f64 = 15.0;
const TITLE: f64 = 34.0;
/// The width of a character of the 11 px font, with a margin, as fonts differ.
const LETTER: f64 = 6.2;
/// Columns of text in a box.
const COLUMNS: usize = ((WIDTH - 2.0 * PADDING) / LETTER) as usize;
/// Columns of the role of a node, between boxes.
const ROLE: usize = 9;

const STYLE: &str = include_str!("stack.css");

/// Draws the stacks with every limit, the smallest marked. `all` includes everything that an overview omits.
pub fn svg(stack: &IoStack, all: bool) -> String {
    let groups = if all { stack.groups(true) } else { stack.diagram.clone() };
    let mut drawing = Drawing { stack, all, out: String::new(), top: MARGIN, marked: false };
    let columns = groups.iter().map(|group| group.columns.len()).max().unwrap_or(1).max(2);
    for (kind, title) in
        [(StackKind::Storage, "Storage"), (StackKind::Network, "Network"), (StackKind::Guests, "Virtual machines")]
    {
        drawing.part(groups.iter().filter(|group| group.stack == kind), title);
    }
    drawing.notes();
    let Drawing { out, top, .. } = drawing;
    let (width, height) = (x(columns) - BETWEEN + MARGIN, top + MARGIN);
    let title = match &stack.host {
        Some(host) => format!("Storage and network of {host}"),
        None => "Storage and network".to_owned(),
    };
    let title = xml(&title);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         role=\"img\" aria-label=\"{title}\" font-family=\"DejaVu Sans, Verdana, Helvetica, Arial, sans-serif\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n<rect class=\"paper\" width=\"{width}\" height=\"{height}\"/>\n\
         {out}</svg>\n"
    )
}

/// Returns the left edge of a column.
fn x(column: usize) -> f64 {
    MARGIN + column as f64 * (WIDTH + BETWEEN)
}

/// A node with its text and position.
struct NodeBox<'s> {
    node: &'s StackNode,
    lines: Vec<Line>,
    left: f64,
    top: f64,
}

impl NodeBox<'_> {
    fn height(&self) -> f64 {
        self.lines.len() as f64 * LINE + 2.0 * PADDING - 3.0
    }

    fn middle(&self) -> f64 {
        self.top + self.height() / 2.0
    }
}

struct Drawing<'s> {
    stack: &'s IoStack,
    all: bool,
    out: String,
    /// Top of the next element.
    top: f64,
    /// Whether a limit is marked as the smallest.
    marked: bool,
}

impl<'s> Drawing<'s> {
    fn add(&mut self, what: Arguments<'_>) {
        self.out.write_fmt(what).expect("a String takes all");
    }

    fn text(&mut self, (x, y): (f64, f64), class: &str, text: &str) {
        let text = xml(text);
        self.add(format_args!("<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{text}</text>\n"));
    }

    fn part<'g>(&mut self, groups: impl Iterator<Item = &'g StackGroup>, title: &str) {
        for (number, group) in groups.enumerate() {
            if number == 0 {
                self.text((MARGIN, self.top + 14.0), "title", title);
                self.top += TITLE;
            }
            self.group(group);
        }
    }

    fn group(&mut self, group: &StackGroup) {
        let columns: Vec<Vec<NodeBox<'s>>> =
            group.columns.iter().enumerate().map(|(number, ids)| self.column(number, ids)).collect();
        let height = |column: &[NodeBox<'_>]| {
            column.iter().map(NodeBox::height).sum::<f64>() + column.len().saturating_sub(1) as f64 * GAP
        };
        let tallest = columns.iter().map(|column| height(column)).fold(0.0, f64::max);
        let mut boxes = BTreeMap::new();
        for column in columns {
            // Spreads shorter columns over the height of the tallest.
            let share = (tallest - height(&column)) / column.len().max(1) as f64;
            let mut top = self.top + share / 2.0;
            for mut node_box in column {
                node_box.top = top;
                top += node_box.height() + GAP + share;
                boxes.insert(node_box.node.id.as_str(), node_box);
            }
        }
        // Below the boxes, if a line passes a column.
        let mut roles = BTreeSet::new();
        for upper in boxes.values() {
            for below in &upper.node.below {
                let Some(lower) = boxes.get(below.id.as_str()) else { continue };
                self.edge(upper, lower);
                if let Some(role) = below.role.as_deref().filter(|role| roles.insert((&lower.node.id, *role))) {
                    self.role(role, lower);
                }
            }
        }
        boxes.values().for_each(|node_box| self.node(node_box));
        self.top += tallest + APART;
    }

    fn column(&self, number: usize, ids: &[String]) -> Vec<NodeBox<'s>> {
        let (stack, all) = (self.stack, self.all);
        let nodes = ids.iter().filter_map(|id| stack.node(id));
        nodes.map(|node| NodeBox { node, lines: lines(stack, node, COLUMNS, all), left: x(number), top: 0.0 }).collect()
    }

    fn edge(&mut self, upper: &NodeBox<'_>, lower: &NodeBox<'_>) {
        let (left, right) = (upper.left + WIDTH, lower.left);
        let (from, to) = (upper.middle(), lower.middle());
        let (out, back) = (left + BETWEEN / 2.0, right - BETWEEN / 2.0);
        self.add(format_args!(
            "<path class=\"line\" d=\"M{left} {from:.1}C{out} {from:.1} {back} {to:.1} {right} {to:.1}\"/>\n"
        ));
    }

    fn role(&mut self, role: &str, lower: &NodeBox<'_>) {
        let (x, y) = (lower.left - 4.0, lower.middle() - 4.0);
        let role = xml(&shortened(role, ROLE));
        self.add(format_args!("<text class=\"muted\" x=\"{x}\" y=\"{y:.1}\" text-anchor=\"end\">{role}</text>\n"));
    }

    fn node(&mut self, node_box: &NodeBox<'_>) {
        let NodeBox { node, lines, left, top } = node_box;
        let tooltip: Vec<String> = tooltip(node).iter().map(|line| xml(line)).collect();
        let (tooltip, height) = (tooltip.join("\n"), node_box.height());
        self.add(format_args!(
            "<g><title>{tooltip}</title><rect class=\"node\" x=\"{left}\" y=\"{top:.1}\" width=\"{WIDTH}\" height=\"{height}\" \
             rx=\"5\"/>\n"
        ));
        for (number, line) in lines.iter().enumerate() {
            let (x, y) = (left + PADDING, top + PADDING + 8.0 + number as f64 * LINE);
            self.add(format_args!("<text x=\"{x}\" y=\"{y:.1}\" xml:space=\"preserve\">"));
            for (class, text) in line {
                self.marked |= *class == "least";
                let text = xml(text);
                self.add(format_args!("<tspan class=\"{class}\">{text}</tspan>"));
            }
            self.add(format_args!("</text>\n"));
        }
        self.add(format_args!("</g>\n"));
    }

    fn notes(&mut self) {
        let unseen: Vec<&str> = self.stack.blind_spots.iter().map(|spot| spot.what.as_str()).collect();
        let notes = [
            self.marked.then(|| "* the smallest limit of its kind on the way down".to_owned()),
            (!unseen.is_empty()).then(|| format!("Not seen: {}", unseen.join("; "))),
        ];
        for note in notes.into_iter().flatten() {
            self.text((MARGIN, self.top + 6.0), "muted", &note);
            self.top += LINE;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_model::catalogue::{Layer, Link, MachineInfo, Mount, Partition, Queue};
    use whyslow_model::key::{LinkKey, MachineKey, NetKey};
    use whyslow_model::snapshot::Snapshot;
    use whyslow_model::window::Window;

    fn stack(fill: impl FnOnce(&mut Snapshot)) -> IoStack {
        let mut s = Snapshot { boot_ns: 1, ..Snapshot::default() };
        s.kernel.machine.push(MachineInfo { page_size: 4096.0.into(), ..MachineInfo::new(MachineKey) });
        fill(&mut s);
        s.sort();
        IoStack::from_window(&Window::new(vec![s]))
    }

    fn layer(upper: &str, lower: &str, kind: &str) -> Layer {
        Layer { kind: kind.into(), ..Layer::new(LinkKey { upper: upper.into(), lower: lower.into() }) }
    }

    fn disk(s: &mut Snapshot, name: &str, max_request: f64) {
        s.block.queue.push(Queue {
            size: (256_u64 << 30).into(),
            max_request: max_request.into(),
            max_segments: 128.0.into(),
            ..Queue::new(name.into())
        });
    }

    /// Adds `/` and `/boot` on two partitions of `vda`.
    fn two_partitions(s: &mut Snapshot) {
        disk(s, "vda", 1_048_576.0);
        for (point, partition) in [("/", "vda1"), ("/boot", "vda2")] {
            s.block.mount.push(Mount { device: partition.into(), kind: "ext4".into(), ..Mount::new(point.into()) });
            s.block.queue.push(Queue { size: 1e9.into(), ..Queue::new(partition.into()) });
            s.block.partition.push(Partition { start: 1_048_576_u64.into(), ..Partition::new(partition.into()) });
            s.block.layer.push(layer(partition, "vda", "partition"));
        }
    }

    #[test]
    fn boxes_are_in_columns_and_lines_lead_to_what_they_lie_on() {
        let drawn = svg(&stack(two_partitions), false);
        assert_eq!(drawn.matches("<rect class=\"node\"").count(), 5, "{drawn}");
        // Columns are 292 apart, from 16.
        for (left, count) in [(16, 2), (308, 2), (600, 1)] {
            assert_eq!(drawn.matches(&format!("<rect class=\"node\" x=\"{left}\"")).count(), count, "{drawn}");
        }
        assert_eq!(drawn.matches("<path class=\"line\" d=\"M248 ").count(), 2, "{drawn}");
        assert_eq!(drawn.matches(" 600 ").count(), 2, "both partitions lead to the disk: {drawn}");
        // 128 segments of a page each.
        assert!(drawn.contains("<tspan class=\"least\"> 512 KiB*</tspan>"), "{drawn}");
        assert!(drawn.contains("* the smallest limit of its kind"), "{drawn}");
        assert!(crate::chart::png(&drawn).is_ok());
    }

    #[test]
    fn an_array_of_many_disks_is_as_high_as_its_disks() {
        let drawn = svg(
            &stack(|s| {
                s.block.mount.push(Mount { device: "md0".into(), kind: "xfs".into(), ..Mount::new("/srv".into()) });
                s.block.queue.push(Queue { size: 1e12.into(), ..Queue::new("md0".into()) });
                for number in 0..36 {
                    let name = format!("sd{number:02}");
                    disk(s, &name, 1e6);
                    s.block.layer.push(layer("md0", &name, "md"));
                }
            }),
            false,
        );
        assert_eq!(drawn.matches("<path class=\"line\"").count(), 37);
        let top = |name: &str| {
            let before = drawn.split(&format!(">{name}</tspan>")).next().unwrap();
            let y = before.rsplit_once("\" y=\"").unwrap().1;
            y.split_once('"').unwrap().0.parse::<f64>().unwrap()
        };
        assert!(top("sd00") < top("md0") && top("md0") < top("sd35"), "{drawn}");
        assert!(((top("sd00") + top("sd35")) / 2.0 - top("md0")).abs() < 20.0, "the array is in the middle");
    }

    #[test]
    fn containers_that_are_alike_are_drawn_once() {
        let full = stack(|s| {
            for number in 0..30 {
                let key = NetKey { ns: format!("c{number}").as_str().into(), name: "eth0".into() };
                s.net.link.push(Link { kind: "veth".into(), mtu: 1500.0.into(), ..Link::new(key) });
            }
        });
        let drawn = svg(&full, false);
        assert_eq!(drawn.matches("<rect class=\"node\"").count(), 1, "{drawn}");
        assert!(drawn.contains("29 more like it: "), "{drawn}");
        assert_eq!(svg(&full, true).matches("<rect class=\"node\"").count(), 30);
    }

    #[test]
    fn names_are_escaped_and_an_empty_stack_is_a_picture() {
        let hostile = "/mnt/</text><script>\u{1b}[2J\u{202e}\n&";
        let drawn = svg(
            &stack(|s| {
                s.block.mount.push(Mount { device: hostile.into(), kind: "ext4".into(), ..Mount::new(hostile.into()) });
            }),
            true,
        );
        assert!(!drawn.contains("<script") && !drawn.contains(['\u{1b}', '\u{202e}']), "{drawn}");
        assert!(drawn.contains("&lt;/text&gt;") && crate::chart::png(&drawn).is_ok(), "{drawn}");
        assert!(crate::chart::png(&svg(&IoStack::default(), false)).is_ok());
    }
}
