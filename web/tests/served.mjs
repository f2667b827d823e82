// The page of a server in a real browser, with a stand-in for the server that goes away, refuses and has many hosts:
// `node served.mjs SCENARIO`. `node served.mjs screenshots FOLDER` writes pictures there, to be looked at.

import assert from "node:assert/strict";
import { attack, night, override } from "./documents.mjs";
import { announced, becomes, chart, colored, dataTable, drag, drawAll, drawn, focused, hasCount, hasText, isHidden, open as openPage, range, ready, run, scrolled, serious, settled, unfold } from "./driver.mjs";
import { live, recordings, Server } from "./server.mjs";

const [scenario, folder] = process.argv.slice(2);
const server = await new Server().start();
const origin = `http://127.0.0.1:${server.port}/`;
const own = { ...recordings(1)[0], name: "web1", verdict: "bottleneck" };
// What the browser itself says of an answer that is no success.
const refused = /Failed to load resource/;

function open(options = {}, more = "") {
  return openPage(server.url + more, { mayRequest: (url) => url.startsWith(origin), ...options });
}

const state = (page) => page.locator(".live .note");
const notice = (page) => page.locator(".notice");
const search = (page) => new URL(page.url()).searchParams;
const rows = (page) => page.locator(".host-rows .host-row");
const newest = (at) => new RegExp(new Date(at * 1000).toISOString().slice(11, 19));

// The machine goes on for so many seconds, and the page has it.
async function goOn(page, seconds) {
  server.now += seconds;
  await state(page).filter({ hasText: newest(server.now) }).waitFor();
  await settled(page);
}

// What is different has been found out with all series.
const compared = (page) => becomes(() => page.locator("#differences").innerText(), (text) => /of \d+ series/.test(text) && !text.includes("being loaded"));

const scenarios = {
  async live() {
    const page = await open();
    await hasText(page.locator("#answer .verdict"), "Healthy");
    await becomes(() => page.title(), "Healthy: web1");
    await hasText(range(page), /03:00:00–03:02:00 UTC/);
    const latency = await drawn(page, "Disk latency");
    await dataTable(latency);
    const count = () => latency.locator("table.data-table tbody tr").count();
    await becomes(count, 120);
    await goOn(page, 4);
    await hasText(range(page), /03:00:00–03:02:04 UTC/);
    await becomes(count, 124);
    // A series that begins has a gap before; one that has ended keeps what it had.
    await goOn(page, 4);
    const last = latency.locator("table.data-table tbody tr").last();
    await latency.locator("table.data-table thead th", { hasText: "sdc" }).waitFor();
    await hasText(last, /^03:02:08\s.*2\sms$/);
    await hasText(latency.locator("table.data-table tbody tr").first(), /–$/);
    const each = await drawn(page, "Busy time of each CPU");
    await each.getByRole("button", { name: "4 more" }).click();
    const ended = each.getByRole("row", { name: /^cpu11 / });
    await hasText(ended, /cpu11\s+–\s+[\d.]+\s%/);
    // The sixth of the time that is new is drawn.
    await becomes(() => colored(latency, "series-2", 40), (parts) => parts[38] > 0);
    // More minutes are there already, and come at a choice.
    server.now += 1200;
    await state(page).filter({ hasText: newest(server.now) }).waitFor();
    await page.locator(".live select").selectOption({ label: "last 5 minutes" });
    await hasText(range(page), /\(5 min\)/);
    // The window slides.
    await goOn(page, 10);
    await hasText(range(page), /03:17:18–03:22:18 UTC \(5 min\)/);
  },

  // What the server says of a host beyond its charts.
  async inspect() {
    const page = await open({ expects: refused });
    await page.locator("#stack").scrollIntoViewIfNeeded();
    await page.locator(".stack-node").first().waitFor();
    await hasText(page.locator(".stack-node.hot strong"), "vda");
    const { searchParams } = server.asked("/api/stack")[0];
    assert.deepEqual([searchParams.get("host"), searchParams.get("at")], ["live", null]);
    // What is unfolded stays so when it is read again.
    await page.locator(".stack-node.hot summary").click();
    const before = server.asked("/api/stack").length;
    const isOpen = () => becomes(() => page.locator(".stack-node.hot details").evaluate((details) => details.open), true);
    await isOpen();
    // It is asked for again once the last answer is shown.
    await becomes(() => server.asked("/api/stack").length, (count) => count > before + 1);
    await isOpen();
    // A profile is made at a click; why there is none is said.
    server.instead = (url) => (url.pathname === "/api/profile" ? [400, "cannot profile: permission denied: run as root"] : null);
    const section = page.locator("#profile");
    await section.getByRole("button", { name: "Profile" }).click();
    await section.getByText("cannot profile: permission denied: run as root").waitFor();
    server.instead = () => null;
    await section.getByLabel("What").selectOption("Waiting");
    await section.getByRole("button", { name: "Profile" }).click();
    await section.locator(".flame-frame").first().waitFor();
    const asked = server.asked("/api/profile").at(-1).searchParams;
    assert.deepEqual([asked.get("kind"), asked.get("seconds")], ["off_cpu", "5"]);
    // Of a recording at the end of the span that is shown.
    await page.close();
    server.hosts = recordings(1);
    const recorded = await open();
    await recorded.locator("#stack").scrollIntoViewIfNeeded();
    await recorded.locator("#stack").getByText(/^At /).waitFor();
    assert.equal(Number(server.asked("/api/stack").at(-1).searchParams.get("at")), server.hosts[0].to);
    await isHidden(recorded.locator("#profile"));
  },

  // The verdict changes at the top, and the reader's place below it stays.
  async verdict() {
    const page = await open();
    const folded = page.locator("#answer details", { hasText: "Ruled out" });
    await folded.locator("summary").click();
    const figure = await drawn(page, "Network sent");
    const place = () => figure.evaluate((element) => element.getBoundingClientRect().top);
    const plot = figure.locator(".plot");
    await plot.focus();
    const before = await place();
    server.isSlow = true;
    await goOn(page, 2);
    await hasText(page.locator("#answer .verdict"), "Bottleneck");
    await becomes(() => page.title(), "Bottleneck: web1");
    await hasText(announced(page), /^Bottleneck: sdb cannot keep up: \d+ requests are queued/);
    await becomes(place, (top) => Math.abs(top - before) < 2);
    await becomes(() => plot.evaluate((element) => element === document.activeElement), true);
    await becomes(() => page.locator("#answer details", { hasText: "Ruled out" }).evaluate((details) => details.open), true);
    // Numbers change without an announcement, and what the reader has folded, focused and selected stays.
    const evidence = page.locator("#answer details", { hasText: /^Evidence/ }).first();
    await evidence.locator("summary").click();
    const link = evidence.getByRole("link").first();
    const others = page.locator("#answer details", { hasText: "Other actions" }).first();
    await others.locator("summary").click();
    await others.locator("summary").focus();
    const said = await announced(page).innerText();
    const heading = await page.locator("#answer h2").innerText();
    await goOn(page, 3);
    await becomes(() => page.locator("#answer h2").innerText(), (text) => text !== heading);
    await hasText(announced(page), said);
    await becomes(() => evidence.evaluate((details) => details.open), false);
    await becomes(() => others.evaluate((details) => details.open && details.contains(document.activeElement)), true);
    // Links still lead to their charts.
    await evidence.locator("summary").click();
    await link.click();
    await focused(page, "Disk latency");
    await goOn(page, 2);
    assert.equal(search(page).get("token"), server.token);
    server.isSlow = false;
    await goOn(page, 2);
    await hasText(announced(page), "Healthy.");
  },

  async pause() {
    const page = await open();
    await page.getByRole("button", { name: "Pause" }).click();
    await hasText(announced(page), "Paused.");
    const asked = server.asked("/api/page").length;
    server.now += 5;
    await page.waitForTimeout(3000);
    await hasText(range(page), /–03:02:00 UTC/);
    assert.ok(server.asked("/api/page").length <= asked + 1);
    // The key does the same, except where somebody types.
    await page.getByRole("searchbox").fill("");
    await page.keyboard.type("p");
    await page.getByRole("button", { name: "Resume" }).waitFor();
    await page.getByRole("searchbox").fill("");
    await page.locator("#title").click();
    await page.keyboard.press("p");
    await goOn(page, 0);
    await hasText(range(page), /03:00:00–03:02:05 UTC/);
    // Nothing is missing from the time in between.
    const latency = await drawn(page, "Disk latency");
    await hasCount((await dataTable(latency)).locator("tbody tr"), 125);
    // Zoomed charts stay, although time goes on.
    await drag(page, "Disk latency", 0.5, 0.75);
    await becomes(() => range(page).innerText(), (text) => !text.includes("03:00:00"));
    const zoomed = await range(page).innerText();
    await goOn(page, 4);
    await hasText(range(page), zoomed);
    await hasText(state(page), /^Zoomed/);
    await page.getByRole("button", { name: "Follow" }).click();
    await hasText(range(page), /03:00:00–03:02:09 UTC/);
  },

  // The server goes away and comes back.
  async lost() {
    const page = await open({ expects: refused });
    const { port } = server;
    await server.stop();
    server.now += 3;
    await notice(page).waitFor();
    await hasText(notice(page), /^Connection lost: whyslow serve does not answer\. Trying again\./);
    await page.locator("#answer h2").waitFor();
    await server.start(port);
    // By itself the page may have tried a moment ago.
    await notice(page).getByText("Try now").dispatchEvent("click");
    await isHidden(notice(page));
    await hasText(announced(page), "Connected again.");
    await goOn(page, 1);
    await hasText(range(page), /03:00:00–03:02:04 UTC/);
    // It may also be busy for a while, and says so.
    server.instead = (url) => (url.searchParams.has("since") ? [503, "a report is being made"] : null);
    await notice(page).waitFor();
    await hasText(notice(page), /^A report is being made\. Trying again\./);
    server.instead = () => null;
    await isHidden(notice(page));
    // Back-off: at most so many requests while it is away.
    const asked = server.requests.length;
    server.instead = () => [503, "busy"];
    await page.waitForTimeout(6000);
    assert.ok(server.requests.length - asked <= 4, `${server.requests.length - asked} requests`);
    server.instead = () => null;
    // A server that was started again has another token, and this page cannot know it.
    server.token = "another";
    await hasText(page.locator(".failure"), /does not accept the token in this page's address/);
    await page.locator("#answer h2").waitFor();
  },

  async token() {
    const page = await openPage(`${origin}?token=wrong`, { mayRequest: (url) => url.startsWith(origin), expects: refused });
    await hasText(page.locator(".failure"), /^The server does not accept the token.*open the address that it printed\.$/);
    const none = await openPage(origin, { mayRequest: (url) => url.startsWith(origin), expects: refused });
    await hasText(none.locator(".failure"), /token/);
    await isHidden(none.locator("#charts"));
    const missing = await open({ expects: refused }, "&host=7");
    await hasText(missing.locator(".failure"), /^There is no such host here, or not any more\. Show what there is$/);
    // The token goes nowhere but into the header.
    assert.ok(server.requests.filter(({ pathname }) => pathname.startsWith("/api/")).every(({ searchParams }) => !searchParams.has("token")));
  },

  async hosts() {
    server.hosts = [{ ...live, name: "db0" }, ...recordings(200)];
    // As long as something is not known yet, the page asks more often.
    server.hosts.at(-1).verdict = null;
    const page = await open();
    const table = page.getByRole("table", { name: "Hosts" });
    await becomes(() => table.getAttribute("aria-rowcount"), "202");
    await hasText(page.getByRole("status"), "201 hosts, 40 with a bottleneck");
    // Only those in sight exist, the worst first.
    await becomes(() => rows(page).count(), (count) => count < 40);
    await hasText(rows(page).first(), /^db\d+\s+Bottleneck\s+.*9\d\s%/s);
    const first = await rows(page).first().getByRole("link").innerText();
    // Sorted by name: numbers as numbers. Once more turns it round.
    await page.getByRole("button", { name: "Host", exact: true }).click();
    const names = async () => (await page.locator(".host-rows .host-name").allInnerTexts()).slice(0, 4);
    await becomes(names, ["db0", "db1", "db2", "db3"]);
    await becomes(() => page.getByRole("columnheader", { name: "Host" }).getAttribute("aria-sort"), "ascending");
    await page.getByRole("button", { name: "Host", exact: true }).click();
    await becomes(names, ["db200", "db199", "db198", "db197"]);
    await page.getByRole("searchbox").fill("db17");
    await hasCount(rows(page), 11);
    await hasText(page.getByRole("status"), "11 of 201 hosts, 2 with a bottleneck");
    await page.getByRole("searchbox").fill("undetermined");
    await becomes(() => page.locator(".host-rows .host-verdict").allInnerTexts(), (all) => all.length > 0 && all.every((text) => text === "Undetermined"));
    await page.getByRole("searchbox").fill("");
    // By keyboard: one stop for Tab, arrows from row to row, End and Home.
    await page.getByRole("button", { name: "Severity" }).click();
    await hasText(rows(page).first(), new RegExp(`^${first}\\s`));
    await hasCount(page.locator(".host-rows a[tabindex='0']"), 1);
    await page.locator(".host-rows a[tabindex='0']").focus();
    await page.keyboard.press("Home");
    const host = () => page.evaluate(() => document.activeElement.textContent);
    await becomes(host, first);
    await page.keyboard.press("ArrowDown");
    await becomes(host, (name) => name !== first);
    await page.keyboard.press("End");
    await becomes(() => page.evaluate(() => document.activeElement.closest("[role=row]").getAttribute("aria-rowindex")), "202");
    await becomes(() => page.evaluate(() => document.activeElement.getBoundingClientRect().bottom <= innerHeight), true);
    await page.keyboard.press("ArrowUp");
    await becomes(() => page.evaluate(() => document.activeElement.closest("[role=row]").getAttribute("aria-rowindex")), "201");
    const chosen = await host();
    // Newer values do not move the reader.
    server.hosts = server.hosts.map((host) => ({ ...host, verdict: host.verdict && "bottleneck", finding: "It is slow", severity: 0.01 }));
    await page.locator(".host-rows .host-finding", { hasText: "It is slow" }).first().waitFor();
    await becomes(host, chosen);
    await page.keyboard.press("Enter");
    await ready(page);
    await hasText(page.locator("#title"), chosen);
    assert.equal(search(page).get("host"), String(Number(chosen.slice(2)) - 1));
    // The way back leads to the same place of the list.
    await page.goBack();
    await ready(page);
    await table.waitFor();
    await becomes(host, chosen);
    await becomes(() => page.evaluate(() => scrollY), (y) => y > 1000);
    await page.goForward();
    await page.locator("#answer h2").waitFor();
    await page.getByRole("link", { name: "← All hosts" }).click();
    await table.waitFor();
    assert.equal(search(page).get("host"), null);
    // A link may also be opened elsewhere: it has an address of its own.
    await becomes(() => rows(page).first().getByRole("link").getAttribute("href"), /^\?token=s3cret&host=\w+$/);
  },

  // How smoothly many rows scroll is printed; that few of them exist at once is what makes it so.
  async rows() {
    for (const count of [200, 10_000]) {
      server.hosts = recordings(count);
      const page = await open();
      const { most, words } = await scrolled(page, { by: 137, rows: ".host-row" });
      console.log(`${count} hosts: ${words}; at most ${most} rows at once`);
      assert.ok(most < 60, `${most} rows at once`);
      // What is in sight is there.
      await becomes(() => page.evaluate(() => document.elementFromPoint(200, innerHeight / 2).closest(".host-row") !== null), true);
      const typed = await page.evaluate(async () => {
        const begin = performance.now();
        const input = document.querySelector("input[type=search]");
        input.value = "db1";
        input.dispatchEvent(new Event("input"));
        await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
        return performance.now() - begin;
      });
      console.log(`${count} hosts: a filter took ${typed.toFixed(0)} ms`);
      await page.close();
    }
  },

  async recorded() {
    server.hosts = [own];
    const page = await open();
    await becomes(() => page.title(), "whyslow: web1");
    await page.locator(".bar").first().waitFor();
    // The last day, unless something else is chosen.
    await hasText(page.locator(".period button[aria-pressed=true]"), "24 hours");
    await hasText(range(page), /27 Nov 2026, 03:00:00–28 Nov 2026, 03:00:00 UTC/);
    await page.getByRole("button", { name: "Last hour" }).click();
    await hasText(range(page), /28 Nov 2026, 02:00:00–03:00:00 UTC/);
    assert.equal(search(page).get("period"), "1h");
    await becomes(() => page.evaluate(() => document.activeElement.textContent === "Last hour"), true);
    // A choice is a step of the history, and a part of the address.
    await page.goBack();
    await hasText(range(page), /27 Nov/);
    await page.goForward();
    await hasText(range(page), /02:00:00/);
    await page.reload();
    await ready(page);
    await hasText(range(page), /02:00:00–03:00:00/);
    await page.locator(".period summary").click();
    await page.getByLabel("From", { exact: true }).fill("2026-11-21T03:00");
    await page.getByLabel("To", { exact: true }).fill("2026-11-21T05:00");
    await page.getByRole("button", { name: "Show", exact: true }).click();
    await hasText(range(page), /21 Nov 2026, 03:00:00–05:00:00 UTC/);
    assert.equal(Number(search(page).get("from")), night);
    // The end before the start is refused, with a word.
    await page.getByLabel("To", { exact: true }).fill("2026-11-21T02:00");
    await page.getByRole("button", { name: "Show", exact: true }).click();
    assert.equal(Number(search(page).get("to")), night + 7200);
  },

  // Zooming in asks for finer data once, and does without it if it does not come.
  async zoom() {
    server.hosts = [own];
    const page = await open({ expects: refused }, "&period=24h");
    const latency = await drawn(page, "Disk latency");
    await dataTable(latency);
    const stepIn = async () => {
      const times = (await latency.locator("table.data-table tbody th").allInnerTexts()).slice(0, 2);
      const [a, b] = times.map((text) => text.split(":").reduce((sum, part) => sum * 60 + Number(part), 0));
      return b - a;
    };
    await latency.locator("table.data-table tbody th").first().waitFor();
    await becomes(stepIn, 173);
    const finer = () => server.asked("/api/page").filter(({ searchParams }) => searchParams.has("intervals"));
    const charts = () => finer().flatMap(({ searchParams }) => searchParams.get("charts").split(","));
    const isFine = () => becomes(() => latency.locator("table.data-table tbody tr").count(), (count) => count > 150);
    await drag(page, "Disk latency", 0.5, 0.55);
    await isFine();
    assert.ok(charts().includes("disk.latency") && !charts().includes("cgroup.memory"), `${charts()}`);
    // A twentieth of a day, and as much on either side, in 1500 intervals.
    const [{ searchParams: asked }] = finer();
    assert.ok(Math.abs(asked.get("to") - asked.get("from") - 12960) < 120, `${asked}`);
    await becomes(stepIn, 9);
    // What is near is there already.
    await page.getByRole("button", { name: "Later" }).click();
    await page.waitForTimeout(600);
    assert.equal(new Set(charts()).size, charts().length, `${charts()}`);
    await becomes(stepIn, 9);
    await page.getByRole("button", { name: "Zoom in" }).click();
    await page.getByRole("button", { name: "Zoom in" }).click();
    // Charts far from sight are not kept up to date.
    await drawn(page, "Disk latency");
    await page.waitForFunction(() => {
      const seconds = [...document.querySelectorAll("table.data-table tbody th")].map((cell) => Number(cell.textContent.slice(-2)));
      return (seconds[1] - seconds[0] + 60) % 60 === 3;
    });
    // A brushed span is compared with what is as fine.
    await drag(page, "Disk latency", 0.4, 0.6, { key: "Shift" });
    await compared(page);
    await page.getByRole("button", { name: "Reset" }).click();
    await settled(page);
    await becomes(stepIn, 173);
    server.instead = (url) => (url.searchParams.has("intervals") ? [500, "the disk is broken"] : null);
    await drag(page, "Disk latency", 0.2, 0.22);
    await page.getByText("Finer data is missing. The disk is broken.").waitFor();
    await becomes(stepIn, 173);
    server.instead = () => null;
    await page.getByRole("button", { name: "Later" }).click();
    await isFine();
    await hasCount(page.getByText("Finer data is missing"), 0);
  },

  // Of a recording, charts are asked for when they come near sight or are needed, each once.
  async sight() {
    server.hosts = [own];
    const small = { viewport: { width: 900, height: 600 } };
    const asked = () => server.asked("/api/page").flatMap(({ searchParams }) => searchParams.get("charts")?.split(",") ?? []);
    const page = await open(small);
    assert.ok(!asked().includes("cgroup.memory"), `${asked()}`);
    await becomes(() => chart(page, "Memory of control groups").evaluate((figure) => figure.classList.contains("pending")), true);
    // A number leads to a chart that is not there yet.
    await page.locator("#answer").getByRole("link", { name: "184" }).click();
    await focused(page, "Disk latency");
    await chart(page, "Disk latency").locator("canvas").waitFor();
    await page.locator("#answer .sparkline").first().waitFor();
    // A chart that turns out to have no data is left out, and so is a family without any.
    const contents = page.getByRole("navigation", { name: "Contents" });
    await hasCount(contents.getByText("Processes"), 1);
    await drawn(page, "Memory of control groups");
    await contents.getByText("Processes").waitFor({ state: "detached" });
    assert.equal(new Set(asked()).size, asked().length, `${asked()}`);

    // A comparison needs the series of all charts.
    const brushed = await open(small);
    await drag(brushed, "Disk latency", 0.4, 0.45, { key: "Shift" });
    await compared(brushed);
    await hasText(brushed.locator("#differences"), /of 28 series differ/);
    await hasCount(brushed.locator("figure.pending"), 0);

    // So does a search, since names of series are not known before.
    const searched = await open(small);
    await searched.getByRole("searchbox").fill("postgresql.service");
    await chart(searched, "Memory of control groups").locator("canvas").waitFor();
    await hasCount(searched.locator("figure:visible"), 1);
  },

  // One machine, live and as it was recorded.
  async both() {
    server.hosts = [live, own];
    const page = await open();
    await hasCount(page.getByRole("table", { name: "Hosts" }), 0);
    const kinds = page.getByRole("navigation", { name: "Live or recorded" });
    await hasText(kinds.locator("[aria-current]"), "Live");
    await kinds.getByRole("link", { name: "Recorded" }).click();
    await page.locator(".period").waitFor();
    assert.equal(search(page).get("host"), "0");
    await hasText(kinds.locator("[aria-current]"), "Recorded");
    // Nothing of the live machine is asked for any more.
    const asked = () => server.asked("/api/page").filter(({ searchParams }) => searchParams.get("host") === "live").length;
    const before = asked();
    await page.waitForTimeout(2500);
    assert.equal(asked(), before);
    await page.goBack();
    await page.locator(".live").waitFor();
    await becomes(() => page.title(), "Healthy: web1");
    await goOn(page, 2);
    // The chosen zone lasts.
    const berlin = await open({ timezoneId: "Europe/Berlin" });
    await berlin.getByLabel("Times").selectOption("UTC");
    await berlin.getByRole("link", { name: "Recorded" }).click();
    await berlin.locator(".period").waitFor();
    await becomes(() => berlin.getByLabel("Times").evaluate((select) => select.selectedOptions[0].textContent), "UTC");
    await hasText(range(berlin), /03:00:00 UTC/);
  },

  async hostile() {
    server.hosts = recordings(30).map((host, i) => ({ ...host, name: [attack, override, "__proto__", "constructor", `db${i}`][i % 5], finding: attack, verdict: ["bottleneck", "__proto__", attack][i % 3] }));
    const page = await open();
    assert.equal(await page.evaluate(() => window.hacked), undefined);
    await hasCount(page.locator("img"), 0);
    const text = await page.locator("#hosts").innerText();
    assert.ok(text.includes(attack) && text.includes("a\\u{202e}gnp.exe\\u{2028}\\x07") && text.includes("__proto__"));
    await page.getByRole("searchbox").fill("__proto__");
    await rows(page).first().getByRole("link").click();
    await page.locator("#answer h2").waitFor();
    // It still asks for charts, which the server would refuse from here on.
    await page.close();
    server.hosts = [{ ...live, id: "live", name: attack }];
    server.instead = (url) => (url.searchParams.has("host") ? [400, attack] : null);
    const other = await open({ expects: refused });
    await becomes(() => other.locator(".failure").innerText(), (text) => text.startsWith(`${attack}.`));
    assert.equal(await other.evaluate(() => window.hacked), undefined);
  },

  async narrow() {
    server.hosts = [{ ...live, name: "db0" }, own, ...recordings(30).slice(1)];
    for (const more of ["", "&host=live", "&host=0"]) {
      const page = await open({ viewport: { width: 360, height: 740 }, hasTouch: true }, more);
      await drawAll(page);
      await becomes(() => page.evaluate(() => document.documentElement.scrollWidth), (wide) => wide <= 360);
    }
  },

  async accessible() {
    server.hosts = [live, own, ...recordings(30).slice(1)];
    server.isSlow = true;
    const found = [];
    for (const options of [{}, { colorScheme: "dark" }, { viewport: { width: 360, height: 740 } }]) {
      for (const more of ["", "&host=live", "&host=0"]) {
        const page = await open({ ...options, bypassCSP: true }, more);
        await drawAll(page);
        await unfold(page);
        await settled(page);
        found.push(...await serious(page, `${more} ${JSON.stringify(options)}`));
        await page.close();
      }
    }
    assert.deepEqual(found, []);
  },

  async print() {
    server.hosts = recordings(200);
    const page = await open({ colorScheme: "dark" });
    await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
    await hasCount(rows(page), 200);
    await becomes(() => page.evaluate(() => document.documentElement.dataset.theme), "light");
    await page.evaluate(() => dispatchEvent(new Event("afterprint")));
    await becomes(() => rows(page).count(), (count) => count < 60);
    await becomes(() => page.evaluate(() => document.documentElement.dataset.theme), "dark");
  },

  // To be looked at by a person; nothing is checked.
  async screenshots() {
    server.hosts = [live, own, ...recordings(200).slice(1)];
    server.isSlow = true;
    const narrow = { viewport: { width: 360, height: 740 }, deviceScaleFactor: 2 };
    for (const [kind, options] of [["light", {}], ["dark", { colorScheme: "dark" }], ["narrow", narrow]]) {
      for (const [name, more] of [["hosts", ""], ["live", "&host=live"], ["recorded", "&host=0&period=1h"]]) {
        const page = await open(options, more);
        if (name === "live") await goOn(page, 3);
        if (name === "recorded") await page.locator(".period summary").click();
        await drawAll(page);
        await settled(page);
        await page.evaluate(() => scrollTo(0, 0));
        await settled(page);
        await page.screenshot({ path: `${folder}/served-${name}-${kind}.png`, fullPage: name !== "hosts" });
        await page.close();
      }
    }
  },
};

await run(scenarios, scenario);
await server.stop();
