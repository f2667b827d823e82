//! Storage and network stacks as trees.

use super::{TextStyle, blind_spots};
use crate::canvas::{Canvas, Ink, NO_BREAK, Piece, bold, dim, plain};
use crate::stack::words::{self, full_name, names};
use std::collections::BTreeSet;
use whyslow_documents::io_stack::{InterruptLine, IoPath, IoStack, NodeLimit, StackKind, StackNode};

/// Formats the stacks as trees with every limit, the smallest marked.
pub fn stack(stack: &IoStack, style: &TextStyle) -> String {
    let mut canvas = style.canvas();
    let mut drawing = TreeDrawing { stack, all: style.all, drawn: BTreeSet::new(), marked: false };
    for (kind, title) in
        [(StackKind::Storage, "Storage"), (StackKind::Network, "Network"), (StackKind::Guests, "Virtual machines")]
    {
        drawing.part(&mut canvas, kind, title);
    }
    if drawing.marked {
        canvas.blank();
        canvas.paragraph(0, 2, &[dim("* the smallest limit of its kind on the way down")]);
    }
    if style.all {
        blind_spots(&mut canvas, &stack.blind_spots);
    } else {
        let unseen: Vec<&str> = stack.blind_spots.iter().map(|spot| spot.what.as_str()).collect();
        if !unseen.is_empty() {
            canvas.paragraph(0, 2, &[dim(format!("Not seen (-v shows why): {}", unseen.join("; ")))]);
        }
    }
    canvas.finish()
}

struct TreeDrawing<'s> {
    stack: &'s IoStack,
    all: bool,
    drawn: BTreeSet<&'s str>,
    marked: bool,
}

impl<'s> TreeDrawing<'s> {
    /// Draws all trees of one kind of stack.
    fn part(&mut self, canvas: &mut Canvas, kind: StackKind, title: &str) {
        let stack = self.stack;
        let tops = stack.paths.iter().filter_map(|path| Some((path, stack.node(&path.top)?)));
        let (shown, hidden): (Vec<_>, Vec<_>) =
            tops.filter(|(_, top)| top.stack == kind).partition(|(_, top)| self.all || !top.minor);
        if shown.is_empty() && hidden.is_empty() {
            return;
        }
        if canvas.lines() > 0 {
            canvas.blank();
        }
        canvas.paragraph(0, 2, &[bold(title)]);
        for &(path, top) in &shown {
            if self.all || path.like.is_none() {
                self.tree(canvas, path, top);
            }
            let alike: Vec<&str> = stack.alike(&path.top).filter(|_| !self.all).map(full_name).collect();
            if !alike.is_empty() {
                let text = format!("{} more like {}: {}", alike.len(), full_name(top), names(&alike));
                canvas.paragraph(0, 2, &[dim(text)]);
            }
        }
        if !hidden.is_empty() {
            let hidden: Vec<&str> = hidden.iter().map(|(_, top)| full_name(top)).collect();
            canvas.paragraph(0, 2, &[dim(format!("Left out (-v shows them): {}", names(&hidden)))]);
        }
    }

    fn tree(&mut self, canvas: &mut Canvas, path: &IoPath, top: &'s StackNode) {
        let before = self.drawn.clone();
        self.node(canvas, top, &path.top, None, "", "");
        // Limits of a node that was drawn for another top are marked only there.
        let elsewhere = path.smallest.iter().filter(|limit| before.contains(limit.node.as_str()));
        let smallest: Vec<&str> = elsewhere.map(|limit| limit.words.as_str()).collect();
        if !smallest.is_empty() {
            canvas.paragraph(3, 5, &[dim("smallest: "), plain(smallest.join("; "))]);
        }
    }

    /// Draws a node and everything below it, except parts that were drawn before.
    fn node(
        &mut self,
        canvas: &mut Canvas,
        node: &'s StackNode,
        top: &str,
        role: Option<&str>,
        first: &str,
        rest: &str,
    ) {
        let is_new = self.drawn.insert(&node.id);
        let below: Vec<_> = node.below.iter().filter(|_| is_new).collect();
        let bar = if below.is_empty() { "   " } else { "│  " };
        let mut body = canvas.beside(rest.chars().count());
        let mut header = body.beside(bar.chars().count());
        let mut line = vec![bold(&node.name)];
        if let Some(netns) = &node.netns {
            line.push(dim(format!(" in {netns}")));
        }
        if let Some(role) = role {
            line.push(dim(format!(" ({role})")));
        }
        if is_new {
            line.push(plain("  "));
            let facts: Vec<String> = words::facts(node, self.all).into_iter().map(|(_, text)| text).collect();
            line.push(plain(facts.join(", ")));
            header.paragraph(0, 2, &line);
            body.append_beside("", bar, header);
            let mut details = body.beside(bar.chars().count());
            self.limits(&mut details, node, top);
            self.interrupts(&mut details, &node.interrupts);
            for problem in &node.problems {
                details.paragraph(0, 2, &[Piece::new(Ink::Yellow, format!("! {problem}"))]);
            }
            body.append_beside(bar, bar, details);
        } else {
            line.push(dim("  see above"));
            header.paragraph(0, 2, &line);
            body.append_beside("", bar, header);
        }
        canvas.append_beside(first, rest, body);
        for (number, edge) in below.iter().enumerate() {
            let Some(lower) = self.stack.node(&edge.id) else { continue };
            let (branch, bar) = if number + 1 == below.len() { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            let (first, rest) = (format!("{rest}{branch}"), format!("{rest}{bar}"));
            self.node(canvas, lower, top, edge.role.as_deref(), &first, &rest);
        }
    }

    /// Draws a line for each kind of limit.
    fn limits(&mut self, canvas: &mut Canvas, node: &StackNode, top: &str) {
        for limits in node.limits.chunk_by(|a, b| a.kind == b.kind) {
            let mut line = vec![dim(format!("{} ", limits[0].kind.words()))];
            for (number, limit) in limits.iter().enumerate() {
                if number > 0 {
                    line.push(plain(", "));
                }
                line.extend(self.limit(limit, top));
            }
            canvas.paragraph(0, 2, &line);
        }
    }

    fn limit(&mut self, limit: &NodeLimit, top: &str) -> Vec<Piece> {
        let value = in_one_piece(limit.kind.quantity(limit.value));
        let is_smallest = limit.smallest_for.iter().any(|path| path == top);
        self.marked |= is_smallest;
        let value = if is_smallest { Piece::new(Ink::Yellow, format!("{value}*")) } else { plain(value) };
        vec![value, dim(words::origin(limit, self.all))]
    }

    fn interrupts(&self, canvas: &mut Canvas, lines: &[InterruptLine]) {
        if let Some(text) = words::interrupts(lines, self.all, in_one_piece) {
            canvas.paragraph(0, 2, &[dim("interrupts "), plain(text)]);
        }
    }
}

fn in_one_piece(text: String) -> String {
    text.replace(' ', &NO_BREAK.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_model::catalogue::{FileSystemDevice, Irq, IrqLine, Layer, Link, MachineInfo, Mount, Partition, Queue};
    use whyslow_model::key::{LinkKey, MachineKey, NetKey, PerCpu};
    use whyslow_model::snapshot::Snapshot;
    use whyslow_model::window::Window;

    fn drawn(width: usize, all: bool, fill: impl FnOnce(&mut Snapshot)) -> String {
        let mut s = Snapshot { boot_ns: 1, ..Snapshot::default() };
        s.kernel.machine.push(MachineInfo { page_size: 4096.0.into(), ..MachineInfo::new(MachineKey) });
        fill(&mut s);
        s.sort();
        let document = IoStack::from_window(&Window::new(vec![s]));
        stack(&document, &TextStyle { width, colour: false, all, utc: true })
    }

    fn link_key(upper: &str, lower: &str) -> LinkKey {
        LinkKey { upper: upper.into(), lower: lower.into() }
    }

    fn mount(point: &str, device: &str) -> Mount {
        Mount { device: device.into(), kind: "ext4".into(), options: "rw,relatime".into(), ..Mount::new(point.into()) }
    }

    fn small_machine(s: &mut Snapshot) {
        s.block.mount.extend([mount("/", "vda1"), mount("/boot", "vda2")]);
        s.block
            .file_system_device
            .push(FileSystemDevice { role: "journal".into(), ..FileSystemDevice::new(link_key("vda1", "vda1")) });
        for (partition, start, size) in [("vda1", 1_u64 << 30, 255_u64 << 30), ("vda2", 1 << 20, 1023 << 20)] {
            s.block.queue.push(Queue { size: size.into(), ..Queue::new(partition.into()) });
            s.block.partition.push(Partition { start: start.into(), ..Partition::new(partition.into()) });
            s.block.layer.push(Layer { kind: "partition".into(), ..Layer::new(link_key(partition, "vda")) });
        }
        s.block.queue.push(Queue {
            size: (256_u64 << 30).into(),
            max_request: f64::from(4 << 20).into(),
            max_segments: 254.0.into(),
            nr_requests: 256.0.into(),
            hardware_queues: 1.0.into(),
            scheduler: "mq-deadline".into(),
            write_cache: "write back".into(),
            physical_block: 4096.0.into(),
            transport: "virtio".into(),
            adapter: "virtio1".into(),
            driver: "virtio_blk".into(),
            bus: "0000:00:02.0".into(),
            ..Queue::new("vda".into())
        });
        for (line, cpus) in [("35", "0"), ("36", "1")] {
            let (bus, cpus) = ("0000:00:02.0".into(), cpus.into());
            s.processor.irq_line.push(IrqLine { bus, cpus, ..IrqLine::new(line.into()) });
        }
        let line = PerCpu { name: "36".into(), cpu: 1 };
        s.processor.irq.push(Irq { device: "virtio1-req.0".into(), ..Irq::new(line) });
        let key = |name: &str| NetKey { ns: "".into(), name: name.into() };
        s.net.link.push(Link { kind: "loopback".into(), mtu: 65_536.0.into(), ..Link::new(key("lo")) });
        s.net.link.push(Link {
            driver: "virtio_net".into(),
            mtu: 1500.0.into(),
            ring_rx: 256.0.into(),
            ring_rx_max: 1024.0.into(),
            addresses: "10.0.0.2/24".into(),
            channels: 2.0.into(),
            offloads: "tcp-segmentation-offload".into(),
            ..Link::new(key("eth0"))
        });
    }

    #[test]
    fn a_small_machine_is_short() {
        let expected = "\
Storage
/  ext4, journal internal, options rw,relatime
└─ vda1  start 1 GiB, aligned to blocks of 4 KiB, 255 GiB
   └─ vda  virtio, 256 GiB, scheduler mq-deadline, cache write back, physical
      │    block 4 KiB
      │  request size 4 MiB, 1016 KiB* (254 segments, if each is one page)
      │  requests in flight 256
      └─ virtio1  virtio_blk
            interrupts 36 virtio1-req.0 on CPU 1
/boot  ext4, options rw,relatime
└─ vda2  start 1 MiB, aligned to blocks of 4 KiB, 1023 MiB
   └─ vda  see above
   smallest: request size 1016 KiB at vda (254 segments, if each is one page);
     requests in flight 256 at vda

Network
eth0  network card, virtio_net, addresses 10.0.0.2/24, receive queues 2
   packet size 1500 B
   receive ring 256 (at most 1024)
Left out (-v shows them): lo

* the smallest limit of its kind on the way down
";
        assert_eq!(drawn(80, false, small_machine), expected);
    }

    #[test]
    fn the_long_view_has_the_details_and_the_settings() {
        let text = drawn(200, true, small_machine);
        for part in
            ["4 MiB (max_sectors_kb)", "offloads tcp-segmentation-offload", "bus address 0000:00:02.0", "\nlo  "]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn no_name_moves_the_cursor_or_breaks_a_line() {
        let hostile = "/mnt/a\nb\x1b[2J\u{202e}c";
        let text = drawn(80, true, |s| {
            s.block.mount.push(Mount { device: hostile.into(), ..mount(hostile, "x") });
            s.net.link.push(Link {
                kind: "\x1b[31m".into(),
                ..Link::new(NetKey { ns: hostile.into(), name: "e\x1bth".into() })
            });
        });
        assert!(!text.contains(['\x1b', '\u{202e}']), "{text:?}");
        assert!(text.contains(r"/mnt/a\nb\x1b[2J\u{202e}c"), "{text}");
    }

    #[test]
    fn no_line_is_wider_than_the_screen() {
        for width in [60, 80, 120] {
            let text = drawn(width, true, small_machine);
            let widest = text.lines().map(|line| line.chars().count()).max();
            assert!(widest <= Some(width), "{text}");
        }
    }
}
