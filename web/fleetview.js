// The fleet at a time: the heat map with its tools, what is beside it, and the same as a table.

import { causes } from "./causes.js";
import { decoded, isSick, pieceSpan, rowsOf } from "./cells.js";
import { announce, button, element, fill } from "./dom.js";
import { quantity, share } from "./format.js";
import { HeatMap, legend, lossInWords } from "./heatmap.js";
import { hostsInWords, markerKey, markers } from "./markers.js";
import { overview, when } from "./overview.js";
import { rollout } from "./rollouts.js";
import { changeInWords, idInWords } from "./words.js";

// Rows of the table; the filter finds others.
const mostInTable = 200;

export class FleetView {
  #asked = 0;

  // `go` and `link` lead to what an address says, and `ask` asks the server about the time that is shown.
  constructor(clock, { go, link, ask }) {
    Object.assign(this, { clock, go, link, ask, where: {}, groups: null, changes: null, sick: null, folded: new Set(), text: "", shown: [] });
    this.heat = new HeatMap(clock, {
      cursor: (cell) => this.#readout(cell), fold: (value) => this.#fold(value), isFolded: (value) => this.folded.has(value),
      open: (host) => this.go({ host: host.name }),
      zoom: ({ from, to }) => this.go({ ...this.kept, since: null, from, to }),
    });
    this.heading = element("h2", { id: "fleet-heading" });
    this.state = element("p", { className: "note", attributes: { role: "status" } });
    this.period = null;
    this.times = element("div");
    this.search = element("input", { type: "search", placeholder: "Filter hosts and findings", attributes: { "aria-label": "Filter hosts and findings" },
      on: { input: () => this.#filter(this.search.value) } });
    this.by = element("select", { on: { change: () => this.go({ ...this.kept, by: this.by.value || null }) } });
    this.foldAll = button("Fold all", {}, () => this.#foldAll());
    this.readout = element("p", { className: "heat-readout" });
    this.key = element("div");
    this.legend = element("div");
    this.side = element("aside", { className: "fleet-side", attributes: { "aria-label": "Findings and changes" } });
    this.table = element("div");
    this.tableFold = element("details", { className: "data", on: { toggle: () => this.#tabulate() } }, element("summary", {}, "Hosts as a table"), this.table);
    this.element = element("section", { id: "fleet", attributes: { "aria-labelledby": "fleet-heading" } },
      element("div", { className: "fleet-head" }, this.heading, this.state),
      element("div", { className: "controls" }, this.times, element("label", { className: "by" }, element("span", {}, "Group by"), this.by),
        this.foldAll, this.search),
      element("div", { className: "fleet-columns" },
        element("div", { className: "fleet-map" }, this.readout, this.heat.element, element("div", { className: "heat-feet" }, this.legend, this.key), this.tableFold),
        this.side));
  }

  leave() {
    this.#asked += 1;
  }

  recolor() {
    this.heat.recolor();
    if (this.map) fill(this.legend, legend());
  }

  // Whether the reader is doing something that new values would disturb.
  get isBusy() {
    return this.heat.drag !== null || this.heat.mark !== null;
  }

  // What an address keeps where only a part of it changes.
  get kept() {
    const { by, finding, change } = this.where;
    return { by, finding, change };
  }

  // Shows a document of the server, as the address says.
  show(document, where, times) {
    if (this.where.by !== where.by) {
      this.folded.clear();
      this.groups = null;
    }
    this.where = where;
    fill(this.times, times);
    if (this.document !== document) this.#adopt(document);
    fill(this.legend, legend());
    this.#list();
  }

  renew(document) {
    this.#adopt(document);
    this.#list();
  }

  #adopt(document) {
    this.document = document;
    this.map = decoded(document);
    this.sick = this.changes = null;
    this.#choices([]);
  }

  // What is asked beside the map: groups first, since the rows depend on them.
  async explain(signal) {
    const asked = ++this.#asked;
    const isLeft = () => asked !== this.#asked || signal.aborted;
    const { by, finding, change } = this.where;
    if (finding === undefined && change === undefined) this.#overview();
    else fill(this.side, this.#back(), element("p", { className: "note" }, "Comparing hosts…"));
    const sick = this.ask("sick", { by });
    const changes = this.changes ?? this.ask("change").then((answer) => answer.changes);
    if (by !== undefined) {
      const { values } = await this.ask("property", { by });
      if (isLeft()) return;
      this.groups = new Map(Object.entries(values));
      if (this.folded.size === 0 && this.map.hosts.length > 200) this.#foldEvery();
      this.#list();
    }
    this.sick = await sick;
    if (isLeft()) return;
    this.#head();
    if (finding === undefined && change === undefined) this.#overview();
    this.changes = await changes;
    if (isLeft()) return;
    this.#marks();
    if (change !== undefined) await this.#change(change, isLeft);
    else if (finding !== undefined) await this.#why(finding, isLeft);
    else this.#overview();
    if (isLeft()) return;
    this.#choices((await this.ask("keys")).keys);
  }

  // How many are sick, in the heading.
  #head() {
    const { observed, sick, not_reporting: gone, silent } = this.sick;
    fill(this.heading, observed === 0 ? "No host has shipped anything of this time." : `${sick.toLocaleString("en")} of ${hostsInWords(observed)} sick`);
    const more = [gone.length > 0 ? `${gone.length} not reporting` : null, silent.length > 0 ? `${silent.length} silent` : null].filter(Boolean);
    const { finding } = this.where;
    const part = finding ? `Shown: hosts with ${idInWords(finding)}. ` : "";
    fill(this.state, `${part}Sick: lost at least 1\u00a0% of the time. ${more.length > 0 ? `Also ${more.join(", ")}. ` : ""}${
      this.clock.span(Date.parse(this.document.from) / 1000, Date.parse(this.document.to) / 1000)}`);
  }

  #choices(keys) {
    const by = this.where.by ?? "";
    const all = ["", ...new Set([...(by ? [by] : []), ...keys])];
    if (keys.length === 0 && this.by.options.length > 1) {
      this.by.value = by;
      if (this.by.value === by) return;
    }
    fill(this.by, all.map((key) => element("option", { value: key, selected: key === by }, key || "nothing")));
  }

  // The rows, as the filter and the groups have them.
  #list() {
    const { finding = null, by } = this.where;
    const isFolded = (value) => this.folded.has(value);
    const { hosts, rows } = rowsOf(this.map, { text: this.text, finding, groups: by === undefined ? null : this.groups, isFolded });
    this.shown = hosts;
    this.foldAll.hidden = by === undefined;
    fill(this.foldAll, this.folded.size > 0 ? "Unfold all" : "Fold all");
    this.heat.show(this.map, rows, { finding });
    this.#tabulate();
    if (!this.sick) this.#headOfMap();
  }

  // The same as far as the map alone says it.
  #headOfMap() {
    const observed = this.map.hosts.filter(({ missing }) => missing !== "not_reporting");
    fill(this.heading, `${observed.filter(isSick).length.toLocaleString("en")} of ${hostsInWords(observed.length)} sick`);
  }

  #filter(text) {
    this.text = text;
    this.#list();
    announce(`${hostsInWords(this.shown.length)} shown.`);
  }

  #fold(value) {
    if (!this.folded.delete(value)) this.folded.add(value);
    announce(`${value} ${this.folded.has(value) ? "folded" : "unfolded"}.`);
    this.#list();
  }

  #foldAll() {
    if (this.folded.size > 0) this.folded.clear();
    else this.#foldEvery();
    this.#list();
  }

  #foldEvery() {
    const { rows } = rowsOf(this.map, { groups: this.groups, isFolded: () => true });
    for (const { group } of rows) this.folded.add(group.value);
  }

  #readout(cell) {
    if (cell === null || !this.map) {
      fill(this.readout, "Point at a cell, or move there with the arrow keys. Drag over a time to show it.");
      return;
    }
    const { row, piece } = cell;
    const { from, to } = pieceSpan(this.map, piece);
    const name = row.group ? element("strong", {}, `${row.group.value} (${hostsInWords(row.group.hosts.length)})`)
      : this.link({ host: row.host.name }, { className: "host" }, row.host.name);
    const missing = row.host?.missing ? ` · ${row.host.missing === "silent" ? "silent" : "not reporting"} since ${this.clock.brief(row.host.last)}` : "";
    fill(this.readout, name, ` ${this.clock.brief(from)}–${this.clock.formats.minute.format(to * 1000)} · ${lossInWords(this.map, row, piece)}${missing}`);
  }

  #marks() {
    fill(this.heat.marks, markers(this.changes, this.map, this.clock, (changes) => this.#chosen(changes)));
    fill(this.key, markerKey(this.changes, this.map));
    const chosen = this.changes.find(({ id }) => id === this.where.change);
    const times = chosen ? [chosen.first, chosen.last].map((text) => Date.parse(text) / 1000) : null;
    this.heat.emphasize(times ? { from: times[0], to: times[1] } : null);
  }

  // What was changed at a mark: the change itself, if it is one.
  #chosen(changes) {
    if (changes.length === 1) {
      this.go({ ...this.kept, finding: null, change: changes[0].id });
      return;
    }
    const items = changes.map((change) => element("li", {}, this.link({ change: change.id }, {}, changeInWords(change.id)),
      element("p", { className: "note" }, `${hostsInWords(change.hosts)} · ${when(change, this.clock)}`)));
    fill(this.side, this.#back(), element("h3", { tabIndex: -1 }, "Changed at that time"), element("ul", { className: "plain entries" }, items));
    this.side.querySelector("h3").focus();
  }

  #back() {
    return this.link({}, { className: "back" }, "← Overview");
  }

  #overview() {
    if (!this.sick) {
      fill(this.side, element("p", { className: "note" }, "Looking…"));
      return;
    }
    const { sick, changes, clock } = this;
    fill(this.side, overview({ sick, changes, clock, by: this.where.by }, {
      link: (where, ...rest) => this.link(where, ...rest),
      look: (text) => {
        this.search.value = text;
        this.#filter(text);
      },
    }));
  }

  async #why(finding, isLeft) {
    const answer = await this.ask("why", { finding });
    if (!isLeft()) fill(this.side, this.#back(), element("h3", {}, `Why: ${idInWords(finding)}`), causes(answer));
  }

  async #change(id, isLeft) {
    const answer = await this.ask("change", { id });
    if (!isLeft()) fill(this.side, this.#back(), element("h3", {}, changeInWords(id)), rollout(answer));
  }

  // For those who cannot see the map.
  #tabulate() {
    if (!this.tableFold.open || !this.map) return;
    const rows = this.shown.slice(0, mostInTable).map((host) => element("tr", {},
      element("th", { scope: "row" }, this.link({ host: host.name }, {}, host.name)),
      element("td", { className: "number" }, host.share === null ? "–" : share(host.share)),
      element("td", { className: "number" }, quantity(host.lost, "s")),
      element("td", {}, host.finding ? idInWords(host.finding) : "–"),
      element("td", {}, this.#worst(host)),
      element("td", {}, host.missing ? `${host.missing === "silent" ? "silent" : "not reporting"} since ${this.clock.brief(host.last)}` : "")));
    const hidden = this.shown.length - rows.length;
    fill(this.table, hidden > 0 ? element("p", { className: "note" }, `The first ${rows.length} of ${hostsInWords(this.shown.length)}; the filter finds others.`) : null,
      element("div", { className: "scroller", tabIndex: 0, attributes: { role: "group", "aria-label": "Hosts" } }, element("table", {},
        element("thead", {}, element("tr", {}, ["Host", "Time lost", "In all", "Mostly to", "Worst time", "State"].map((title) => element("th", { scope: "col" }, title)))),
        element("tbody", {}, rows))));
  }

  #worst({ shares }) {
    const most = shares.reduce((best, one, i) => (one !== null && one > (shares[best] ?? 0) ? i : best), -1);
    return most < 0 ? "–" : `${this.clock.brief(pieceSpan(this.map, most).from)} (${share(shares[most])})`;
  }
}
