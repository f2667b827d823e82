// Stacks of storage and network, as `whyslow stack --json` prints them.

const fact = (name, value, unit) => (unit === undefined ? { name, value } : { name, value, unit });
const size = (gib) => fact("size", gib * 1024 ** 3, "bytes");
const limit = (kind, setting, value, unit, more = {}) => ({ kind, setting, value, unit, ...more });

const node = (id, stack, kind, name, facts, below, more = {}) => ({
  id, stack, kind, name, facts, ...(below.length > 0 ? { below: below.map((one) => (typeof one === "string" ? { id: one } : one)) } : {}), ...more,
});
const storage = (...parts) => node(parts[0], "storage", ...parts.slice(1));
const network = (...parts) => node(parts[0], "network", ...parts.slice(1));

// A server whose disk `vda` is saturated: most of it by a virtual machine's image.
export function stack() {
  const tops = ["mount:/", "mount:/boot", "mount:/var/lib/libvirt"];
  const nodes = [
    storage("mount:/", "file_system", "/", [fact("type", "ext4"), size(40), fact("journal", "internal"), fact("options", "rw,relatime")], ["block:vda1"]),
    storage("mount:/boot", "file_system", "/boot", [fact("type", "ext4"), size(1)], ["block:vda2"]),
    storage("mount:/var/lib/libvirt", "file_system", "/var/lib/libvirt", [fact("type", "xfs"), size(200)], ["block:dm-0"], { mount_points: ["/srv/images"] }),
    storage("block:dm-0", "mapped_device", "dm-0", [fact("mapped name", "vg-images"), fact("made by", "LVM"), fact("target", "linear")], ["block:vda3"],
      { load: { read: 61e6, write: 12e6, latency: 0.18 } }),
    storage("block:vda1", "partition", "vda1", [fact("start", 1048576, "bytes"), fact("alignment", "aligned to blocks of 4 KiB"), size(40)], ["block:vda"], { load: { read: 2e6, write: 5e6, latency: 0.16 } }),
    storage("block:vda2", "partition", "vda2", [size(1)], ["block:vda"], { load: { read: 0, write: 0 }, problems: ["It begins 3.50 KiB past a block of 4 KiB: each write of a block touches two."] }),
    storage("block:vda3", "partition", "vda3", [size(215)], ["block:vda"], { load: { read: 61e6, write: 12e6, latency: 0.18 } }),
    storage("block:vda", "disk", "vda", [fact("transport", "virtio"), fact("medium", "rotating"), size(256), fact("scheduler", "mq-deadline"), fact("cache", "write back")], ["adapter:virtio1"], {
      limits: [
        limit("request_size", "max_sectors_kb", 4194304, "bytes"),
        limit("request_size", "max_segments", 1040384, "bytes", { how: "254 segments, if each is one page", smallest_for: tops }),
        limit("requests_in_flight", "nr_requests", 256, "count"),
      ],
      load: { busy: 0.998, waiting: 0.62, read: 63e6, write: 17e6, latency: 0.184, queue: 31.2, ceiling: 84e6 },
    }),
    storage("adapter:virtio1", "adapter", "virtio1", [fact("driver", "virtio_blk")], [], { interrupts: [{ line: "36", name: "virtio1-req.0", cpus: "1" }] }),
    network("interface:eth0@web", "interface", "eth0", [fact("type", "veth"), fact("addresses", "10.9.0.2/24")], ["interface:br0"], { netns: "web", limits: [limit("packet_size", "mtu", 1500, "bytes")] }),
    ...["api", "db", "mail"].map((ns) => network(`interface:eth0@${ns}`, "interface", "eth0", [fact("type", "veth")], ["interface:br0"], { netns: ns })),
    network("interface:br0", "interface", "br0", [fact("type", "bridge")], [{ id: "interface:eth0", role: "port" }], { limits: [limit("packet_size", "mtu", 1500, "bytes")] }),
    network("interface:eth0", "interface", "eth0", [fact("driver", "virtio_net")], [], {
      limits: [limit("packet_size", "mtu", 1300, "bytes", { smallest_for: ["interface:eth0@web"] }), limit("receive_ring", "rx ring", 256, "count", { how: "at most 1024" })],
      load: { read: 11e6, write: 2e6 },
    }),
  ];
  const path = (top, more) => ({ top, smallest: [], ...more });
  return {
    schema: "whyslow.stack/1", host: "db1", nodes,
    paths: [...tops.map((top) => path(top)), path("interface:eth0@web"), ...["api", "db", "mail"].map((ns) => path(`interface:eth0@${ns}`, { like: "interface:eth0@web" }))],
    diagram: [
      { stack: "storage", columns: [["mount:/var/lib/libvirt"], ["mount:/", "mount:/boot", "block:dm-0"], ["block:vda1", "block:vda2", "block:vda3"], ["block:vda"], ["adapter:virtio1"]] },
      { stack: "network", columns: [["interface:eth0@web"], ["interface:br0"], ["interface:eth0"]] },
    ],
    blind_spots: [{ what: "stripes and chunks of the device mapper", why: "/dev/mapper/control cannot be used", remedy: "run as root" }],
  };
}

// 36 disks below one array, one of them slower than the others.
export function wide() {
  const disks = Array.from({ length: 36 }, (_, i) => `sd${String.fromCharCode(97 + (i % 26))}${i < 26 ? "" : i - 26}`);
  const load = (i) => (i === 17 ? { busy: 0.97, waiting: 0.3, read: 9e6, write: 1e6, latency: 0.06, queue: 9 } : { busy: 0.2, waiting: 0, read: 9e6, write: 1e6, latency: 0.004, queue: 0.4 });
  return {
    schema: "whyslow.stack/1", host: "store1",
    nodes: [
      storage("mount:/srv", "file_system", "/srv", [fact("type", "xfs"), size(560000)], ["block:md0"]),
      storage("block:md0", "array", "md0", [fact("level", "raid6"), fact("chunk", 524288, "bytes")], disks.map((name) => `block:${name}`)),
      ...disks.map((name, i) => storage(`block:${name}`, "disk", name, [fact("model", "ST18000NM000J"), size(16764)], ["adapter:host0"], { load: load(i), limits: [limit("requests_in_flight", "queue_depth", 32, "count")] })),
      storage("adapter:host0", "adapter", "host0", [fact("driver", "mpt3sas")], []),
    ],
    paths: [{ top: "mount:/srv", smallest: [] }],
    diagram: [{ stack: "storage", columns: [["mount:/srv"], ["block:md0"], disks.map((name) => `block:${name}`), ["adapter:host0"]] }],
  };
}

// The same names everywhere.
export function named(name) {
  const whole = stack();
  const rename = (id) => `${name} ${id}`;
  return {
    ...whole, host: name,
    nodes: whole.nodes.map((one) => ({ ...one, id: rename(one.id), name, netns: one.netns && name, facts: one.facts.map((known) => (known.unit ? known : { ...known, value: name })),
      problems: [name], below: (one.below ?? []).map((below) => ({ ...below, id: rename(below.id), role: name })) })),
    paths: whole.paths.map((path) => ({ ...path, top: rename(path.top), ...(path.like ? { like: rename(path.like) } : {}) })),
    diagram: whole.diagram.map((group) => ({ ...group, columns: group.columns.map((ids) => ids.map(rename)) })),
  };
}
