// A profile, as `whyslow profile --json` prints it: 100 samples, 60 of them in `compress`, 25 in the kernel.

const frame = (name, module, space = "user", inlined = false) => ({ function: name, module, space, inlined });

export function profile(rename = (name) => name) {
  const frames = [
    frame("main", "/usr/bin/backup"), frame("compress", "/usr/lib/libz.so.1"), frame("read_block", "/usr/bin/backup"), frame("vfs_read", null, "kernel"),
    frame(null, "/usr/lib/libc.so.6"), frame("hash", "/usr/bin/backup", "user", true),
  ].map((one) => ({ ...one, function: one.function && rename(one.function) }));
  const stack = (name, path, weight) => ({ process: { pid: 812, name: rename(name) }, frames: path, weight });
  return {
    schema: "whyslow.profile/1", kind: "on_cpu", process: null, finding: null, seconds: 10, hz: 99, cpus: 4,
    totals: { idle: 300, lost: 0, programs: 100, without_user_stack: 0, unplaced: 0, cut_short: 5 }, frames,
    stacks: [stack("backup.sh", [0, 1], 40), stack("backup.sh", [0, 2, 3], 25), stack("backup.sh", [0, 1, 5], 20), stack("postgres", [4], 15)],
    blind_spots: [{ what: "callers", why: "5 % of the stacks are cut short", remedy: "" }],
  };
}
