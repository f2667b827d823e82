// What the heat map of a fleet shows: its hosts with the share of time that each lost, filtered, grouped and folded. No DOM.

import { idInWords } from "./words.js";

// A share of time lost belongs to the last class whose bound it reaches; the first one is whatever is more than nothing.
export const classes = [
  { from: 0, label: "<\u00a01\u00a0%" }, { from: 0.01, label: "1–5\u00a0%" }, { from: 0.05, label: "5–20\u00a0%" },
  { from: 0.2, label: "20–50\u00a0%" }, { from: 0.5, label: "≥\u00a050\u00a0%" },
];
// What a host must lose to be called sick, as `whyslow-fleet sick` has it.
const sickShare = 0.01;
const unknownGroup = "(not known)";
const names = new Intl.Collator(undefined, { numeric: true });

// The class of a share; -1 of none, and null of what is not known.
export function classOf(share) {
  if (share === null || share === undefined) return null;
  return share > 0 ? classes.findLastIndex(({ from }) => share >= from) : -1;
}

// The document of the server as the page uses it.
export function decoded(document) {
  const from = Date.parse(document.start) / 1000;
  const { step_s: step, pieces, findings } = document;
  const hosts = document.hosts.map((host) => {
    const seen = new Set(host.causes.map(([, finding]) => findings[finding]));
    if (host.finding) seen.add(host.finding);
    return {
      name: host.host, judged: host.judged_s, lost: host.lost_s, share: host.judged_s > 0 ? host.lost_s / host.judged_s : null,
      finding: host.finding ?? null, last: Date.parse(host.last) / 1000, missing: host.missing ?? null, shares: host.shares,
      causes: new Map(host.causes), seen, search: `${host.host} ${[...seen].map((id) => `${id} ${idInWords(id)}`).join(" ")}`.toLowerCase(),
    };
  });
  return { from, step, pieces, findings, hosts, to: from + step * pieces };
}

export const isSick = ({ share }) => share !== null && share >= sickShare;

// The moments at which a piece begins and ends.
export function pieceSpan({ from, step }, piece) {
  return { from: from + piece * step, to: from + (piece + 1) * step };
}

// The rows of the hosts that contain a text and have a finding, if one is named. With `groups`, the value of each host by its name,
// each group has a row of its own before those of its hosts, which are left out if it is folded.
export function rowsOf(map, { text = "", finding = null, groups = null, isFolded = () => false }) {
  const wanted = text.trim().toLowerCase();
  const groupOf = (host) => groups?.get(host.name) ?? unknownGroup;
  const matches = (host) => (finding === null || host.seen.has(finding))
    && (wanted === "" || host.search.includes(wanted) || (groups !== null && groupOf(host).toLowerCase().includes(wanted)));
  const hosts = map.hosts.filter(matches);
  if (groups === null) return { hosts, rows: hosts.map((host) => ({ host })) };
  const members = new Map();
  for (const host of hosts) members.set(groupOf(host), [...(members.get(groupOf(host)) ?? []), host]);
  const made = [...members].map(([value, of]) => group(value, of, map.pieces));
  made.sort((a, b) => b.share - a.share || names.compare(a.value, b.value));
  return { hosts, rows: made.flatMap((one) => [{ group: one }, ...(isFolded(one.value) ? [] : one.hosts.map((host) => ({ host })))]) };
}

// What the hosts of a group lost on average, over all and piece by piece.
function group(value, hosts, pieces) {
  const sum = (of) => hosts.reduce((all, host) => all + of(host), 0);
  const shares = Array.from({ length: pieces }, (_, piece) => {
    let [known, lost] = [0, 0];
    for (const { shares: of } of hosts) {
      if (of[piece] === null) continue;
      known += 1;
      lost += of[piece];
    }
    return known > 0 ? lost / known : null;
  });
  const judged = sum((host) => host.judged);
  return { value, hosts, sick: hosts.filter(isSick).length, share: judged > 0 ? sum((host) => host.lost) / judged : 0, shares };
}

// The changes that are marked at one place of the time axis, with the number of hosts of the one that most made.
export function marks(changes, { from, to }, places) {
  const byPlace = new Map();
  for (const change of changes) {
    const at = Date.parse(change.first) / 1000;
    if (!(at >= from && at <= to)) continue;
    const place = Math.min(places - 1, Math.floor(((at - from) / (to - from)) * places));
    byPlace.set(place, [...(byPlace.get(place) ?? []), { ...change, at }]);
  }
  return [...byPlace.values()].map((of) => of.sort((a, b) => b.hosts - a.hosts));
}
