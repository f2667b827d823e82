// The page of a server in a real browser, with a stand-in for the server that goes away, refuses and has many hosts:
// `node served.mjs SCENARIO`. `node served.mjs screenshots FOLDER` writes pictures there, to be looked at.

import assert from "node:assert/strict";
import { attack, night, override } from "./documents.mjs";
import { announced, chart, colored, dataTable, drag, drawAll, drawn, near, minutes, open as openPage, range, ready, run, scrolled, serious, settled, unfold } from "./driver.mjs";
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
  await state(page).filter({ hasText: newest(server.now) }).waitFor({ timeout: 10000 });
  await settled(page);
}

// What is different has been found out with all series.
const compared = (page) => page.waitForFunction(() => {
  const text = document.querySelector("#differences").textContent;
  return /of \d+ series/.test(text) && !text.includes("being loaded");
});

const scenarios = {
  async live() {
    const page = await open();
    assert.equal(await page.locator("#answer .verdict").innerText(), "Healthy");
    assert.equal(await page.title(), "Healthy: web1");
    assert.match(await range(page), /03:00:00–03:02:00 UTC/);
    const latency = await drawn(page, "Disk latency");
    await dataTable(latency);
    const count = () => latency.locator("table.data-table tbody tr").count();
    assert.equal(await count(), 120);
    await goOn(page, 4);
    assert.match(await range(page), /03:00:00–03:02:04 UTC/);
    assert.equal(await count(), 124);
    // A series that begins has a gap before; one that has ended keeps what it had.
    await goOn(page, 4);
    const last = latency.locator("table.data-table tbody tr").last();
    await latency.locator("table.data-table thead th", { hasText: "sdc" }).waitFor();
    assert.match(await last.innerText(), /^03:02:08\s.*2\sms$/);
    assert.match(await latency.locator("table.data-table tbody tr").first().innerText(), /–$/);
    const each = await drawn(page, "Busy time of each CPU");
    await each.getByRole("button", { name: "4 more" }).click();
    const ended = each.getByRole("row", { name: /^cpu11 / });
    assert.match(await ended.innerText(), /cpu11\s+–\s+[\d.]+\s%/);
    // The sixth of the time that is new is drawn.
    await settled(page);
    assert.ok((await colored(latency, "series-2", 40))[38] > 0);
    // More minutes are there already, and come at a choice.
    server.now += 1200;
    await state(page).filter({ hasText: newest(server.now) }).waitFor();
    await page.locator(".live select").selectOption({ label: "last 5 minutes" });
    await page.waitForFunction(() => document.querySelector(".range").textContent.includes("5\u00a0min"));
    // The window slides.
    await goOn(page, 10);
    assert.match(await range(page), /03:17:18–03:22:18 UTC \(5 min\)/);
  },

  // The verdict changes at the top, and the reader's place below it stays.
  // What the server says of a host beyond its charts.
  async inspect() {
    const page = await open({ expects: refused });
    await page.locator("#stack").scrollIntoViewIfNeeded();
    await page.locator(".stack-node").first().waitFor();
    assert.equal(await page.locator(".stack-node.hot strong").innerText(), "vda");
    const { searchParams } = server.asked("/api/stack")[0];
    assert.deepEqual([searchParams.get("host"), searchParams.get("at")], ["live", null]);
    // What is unfolded stays so when it is read again.
    await page.locator(".stack-node.hot summary").click();
    const before = server.asked("/api/stack").length;
    await page.waitForFunction(() => document.querySelector(".stack-node.hot details").open);
    for (let i = 0; i < 80 && server.asked("/api/stack").length === before; i += 1) await page.waitForTimeout(100);
    assert.ok(server.asked("/api/stack").length > before);
    assert.ok(await page.locator(".stack-node.hot details").evaluate((details) => details.open));
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
    server.hosts = recordings(1);
    const recorded = await open();
    await recorded.locator("#stack").scrollIntoViewIfNeeded();
    await recorded.locator("#stack").getByText(/^At /).waitFor();
    assert.equal(Number(server.asked("/api/stack").at(-1).searchParams.get("at")), server.hosts[0].to);
    assert.ok(await recorded.locator("#profile").isHidden());
  },

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
    assert.equal(await page.locator("#answer .verdict").innerText(), "Bottleneck");
    assert.equal(await page.title(), "Bottleneck: web1");
    assert.match(await announced(page), /^Bottleneck: sdb cannot keep up: \d+ requests are queued/);
    assert.ok(Math.abs((await place()) - before) < 2, `moved from ${before} to ${await place()}`);
    assert.ok(await plot.evaluate((element) => element === document.activeElement));
    assert.ok(await page.locator("#answer details", { hasText: "Ruled out" }).evaluate((details) => details.open));
    // Numbers change without an announcement, and what the reader has folded, focused and selected stays.
    const evidence = page.locator("#answer details", { hasText: /^Evidence/ }).first();
    await evidence.locator("summary").click();
    const link = evidence.getByRole("link").first();
    const others = page.locator("#answer details", { hasText: "Other actions" }).first();
    await others.locator("summary").click();
    await others.locator("summary").focus();
    const said = await announced(page);
    const heading = await page.locator("#answer h2").innerText();
    await goOn(page, 3);
    assert.notEqual(await page.locator("#answer h2").innerText(), heading);
    assert.equal(await announced(page), said);
    assert.equal(await evidence.evaluate((details) => details.open), false);
    assert.ok(await others.evaluate((details) => details.open && details.contains(document.activeElement)));
    // Links still lead to their charts.
    await evidence.locator("summary").click();
    await link.click();
    await page.waitForFunction(() => document.activeElement.querySelector("h4")?.textContent === "Disk latency");
    await goOn(page, 2);
    assert.equal(search(page).get("token"), server.token);
    server.isSlow = false;
    await goOn(page, 2);
    assert.equal(await announced(page), "Healthy.");
  },

  async pause() {
    const page = await open();
    await page.getByRole("button", { name: "Pause" }).click();
    assert.equal(await announced(page), "Paused.");
    const asked = server.asked("/api/page").length;
    server.now += 5;
    await page.waitForTimeout(3000);
    assert.match(await range(page), /–03:02:00 UTC/);
    assert.ok(server.asked("/api/page").length <= asked + 1);
    // The key does the same, except where somebody types.
    await page.getByRole("searchbox").fill("");
    await page.keyboard.type("p");
    assert.ok(await page.getByRole("button", { name: "Resume" }).isVisible());
    await page.getByRole("searchbox").fill("");
    await page.locator("#title").click();
    await page.keyboard.press("p");
    await goOn(page, 0);
    assert.match(await range(page), /03:00:00–03:02:05 UTC/);
    // Nothing is missing from the time in between.
    const latency = await drawn(page, "Disk latency");
    assert.equal(await (await dataTable(latency)).locator("tbody tr").count(), 125);
    // Zoomed charts stay, although time goes on.
    await drag(page, "Disk latency", 0.5, 0.75);
    const zoomed = await range(page);
    await goOn(page, 4);
    assert.equal(await range(page), zoomed);
    assert.match(await state(page).innerText(), /^Zoomed/);
    await page.getByRole("button", { name: "Follow" }).click();
    await settled(page);
    assert.match(await range(page), /03:00:00–03:02:09 UTC/);
  },

  // The server goes away and comes back.
  async lost() {
    const page = await open({ expects: refused });
    const { port } = server;
    await server.stop();
    server.now += 3;
    await notice(page).waitFor();
    assert.match(await notice(page).innerText(), /^Connection lost: whyslow serve does not answer\. Trying again\./);
    assert.ok(await page.locator("#answer h2").isVisible());
    await server.start(port);
    await page.getByRole("button", { name: "Try now" }).click();
    await notice(page).waitFor({ state: "hidden" });
    assert.equal(await announced(page), "Connected again.");
    await goOn(page, 1);
    assert.match(await range(page), /03:00:00–03:02:04 UTC/);
    // It may also be busy for a while, and says so.
    server.instead = (url) => (url.searchParams.has("since") ? [503, "a report is being made"] : null);
    await notice(page).waitFor();
    assert.match(await notice(page).innerText(), /^A report is being made\. Trying again\./);
    server.instead = () => null;
    await notice(page).waitFor({ state: "hidden", timeout: 10000 });
    // Back-off: at most so many requests while it is away.
    const asked = server.requests.length;
    server.instead = () => [503, "busy"];
    await page.waitForTimeout(6000);
    assert.ok(server.requests.length - asked <= 4, `${server.requests.length - asked} requests`);
    server.instead = () => null;
    // A server that was started again has another token, and this page cannot know it.
    server.token = "another";
    await page.locator(".failure").waitFor({ timeout: 20000 });
    assert.match(await page.locator(".failure").innerText(), /does not accept the token in this page's address/);
    assert.ok(await page.locator("#answer h2").isVisible());
  },

  async token() {
    const page = await openPage(`${origin}?token=wrong`, { mayRequest: (url) => url.startsWith(origin), expects: refused });
    assert.match(await page.locator(".failure").innerText(), /^The server does not accept the token.*open the address that it printed\.$/);
    const none = await openPage(origin, { mayRequest: (url) => url.startsWith(origin), expects: refused });
    assert.match(await none.locator(".failure").innerText(), /token/);
    assert.ok(await none.locator("#charts").isHidden());
    const missing = await open({ expects: refused }, "&host=7");
    assert.match(await missing.locator(".failure").innerText(), /^There is no such host here, or not any more\. Show what there is$/);
    // The token goes nowhere but into the header.
    assert.ok(server.requests.filter(({ pathname }) => pathname.startsWith("/api/")).every(({ searchParams }) => !searchParams.has("token")));
  },

  async hosts() {
    server.hosts = [{ ...live, name: "db0" }, ...recordings(200)];
    // As long as something is not known yet, the page asks more often.
    server.hosts.at(-1).verdict = null;
    const page = await open();
    const table = page.getByRole("table", { name: "Hosts" });
    assert.equal(await table.getAttribute("aria-rowcount"), "202");
    assert.equal(await page.getByRole("status").innerText(), "201 hosts, 40 with a bottleneck");
    // Only those in sight exist, the worst first.
    assert.ok((await rows(page).count()) < 40);
    assert.match(await rows(page).first().innerText(), /^db\d+\s+Bottleneck\s+.*9\d\s%/s);
    const first = await rows(page).first().getByRole("link").innerText();
    // Sorted by name: numbers as numbers. Once more turns it round.
    await page.getByRole("button", { name: "Host", exact: true }).click();
    const names = async () => (await page.locator(".host-rows .host-name").allInnerTexts()).slice(0, 4);
    await settled(page);
    assert.deepEqual(await names(), ["db0", "db1", "db2", "db3"]);
    assert.equal(await page.getByRole("columnheader", { name: "Host" }).getAttribute("aria-sort"), "ascending");
    await page.getByRole("button", { name: "Host", exact: true }).click();
    await settled(page);
    assert.deepEqual(await names(), ["db200", "db199", "db198", "db197"]);
    await page.getByRole("searchbox").fill("db17");
    await settled(page);
    assert.equal(await rows(page).count(), 11);
    assert.equal(await page.getByRole("status").innerText(), "11 of 201 hosts, 2 with a bottleneck");
    await page.getByRole("searchbox").fill("undetermined");
    await settled(page);
    assert.ok((await page.locator(".host-rows .host-verdict").allInnerTexts()).every((text) => text === "Undetermined"));
    await page.getByRole("searchbox").fill("");
    // By keyboard: one stop for Tab, arrows from row to row, End and Home.
    await page.getByRole("button", { name: "Severity" }).click();
    await settled(page);
    assert.equal(await page.locator(".host-rows a[tabindex='0']").count(), 1);
    await page.locator(".host-rows a[tabindex='0']").focus();
    await page.keyboard.press("Home");
    const focused = () => page.evaluate(() => document.activeElement.textContent);
    assert.equal(await focused(), first);
    await page.keyboard.press("ArrowDown");
    assert.notEqual(await focused(), first);
    await page.keyboard.press("End");
    assert.equal(await page.evaluate(() => document.activeElement.closest("[role=row]").getAttribute("aria-rowindex")), "202");
    assert.ok(await page.evaluate(() => document.activeElement.getBoundingClientRect().bottom <= innerHeight));
    await page.keyboard.press("ArrowUp");
    const chosen = await focused();
    // Newer values do not move the reader.
    server.hosts = server.hosts.map((host) => ({ ...host, verdict: host.verdict && "bottleneck", finding: "It is slow", severity: 0.01 }));
    await page.locator(".host-rows .host-finding", { hasText: "It is slow" }).first().waitFor({ timeout: 10000 });
    assert.equal(await focused(), chosen);
    await page.keyboard.press("Enter");
    await ready(page);
    await page.locator("#answer h2").waitFor();
    assert.equal(await page.locator("#title").innerText(), chosen);
    assert.equal(search(page).get("host"), String(Number(chosen.slice(2)) - 1));
    // The way back leads to the same place of the list.
    await page.goBack();
    await ready(page);
    await table.waitFor();
    await page.waitForFunction((name) => document.activeElement.textContent === name, chosen);
    assert.ok((await page.evaluate(() => scrollY)) > 1000);
    await page.goForward();
    await page.locator("#answer h2").waitFor();
    await page.getByRole("link", { name: "← All hosts" }).click();
    await table.waitFor();
    assert.equal(search(page).get("host"), null);
    // A link may also be opened elsewhere: it has an address of its own.
    assert.match(await rows(page).first().getByRole("link").getAttribute("href"), /^\?token=s3cret&host=\w+$/);
  },

  // How smoothly many rows scroll: measured, and bounded only against what a reader would call broken.
  async rows() {
    for (const count of [200, 10_000]) {
      server.hosts = recordings(count);
      const page = await open();
      const { median, most, words } = await scrolled(page, { by: 137, rows: ".host-row" });
      console.log(`${count} hosts: ${words}; at most ${most} rows at once`);
      assert.ok(most < 60, `${most} rows at once`);
      assert.ok(median < 100);
      // What is in sight is there.
      const isThere = await page.evaluate(() => document.elementFromPoint(200, innerHeight / 2).closest(".host-row") !== null);
      assert.ok(isThere);
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
    assert.equal(await page.title(), "whyslow: web1");
    assert.ok(await page.locator(".bar").first().isVisible());
    // The last day, unless something else is chosen.
    assert.equal(await page.locator(".period button[aria-pressed=true]").innerText(), "24 hours");
    assert.match(await range(page), /27 Nov 2026, 03:00:00–28 Nov 2026, 03:00:00 UTC/);
    await page.getByRole("button", { name: "Last hour" }).click();
    await page.waitForFunction(() => document.querySelector(".range").textContent.includes("02:00:00"));
    assert.match(await range(page), /28 Nov 2026, 02:00:00–03:00:00 UTC/);
    assert.equal(search(page).get("period"), "1h");
    assert.ok(await page.evaluate(() => document.activeElement.textContent === "Last hour"));
    // A choice is a step of the history, and a part of the address.
    await page.goBack();
    await page.waitForFunction(() => document.querySelector(".range")?.textContent.includes("27 Nov"));
    await page.goForward();
    await page.waitForFunction(() => document.querySelector(".range")?.textContent.includes("02:00:00"));
    await page.reload();
    await ready(page);
    assert.match(await range(page), /02:00:00–03:00:00/);
    await page.locator(".period summary").click();
    await page.getByLabel("From", { exact: true }).fill("2026-11-21T03:00");
    await page.getByLabel("To", { exact: true }).fill("2026-11-21T05:00");
    await page.getByRole("button", { name: "Show", exact: true }).click();
    await page.waitForFunction(() => document.querySelector(".range").textContent.includes("05:00:00"));
    assert.match(await range(page), /21 Nov 2026, 03:00:00–05:00:00 UTC/);
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
    assert.equal(await stepIn(), 173);
    const finer = () => server.asked("/api/page").filter(({ searchParams }) => searchParams.has("intervals"));
    const charts = () => finer().flatMap(({ searchParams }) => searchParams.get("charts").split(","));
    const isFine = () => page.waitForFunction(() => document.querySelectorAll("table.data-table tbody tr").length > 150);
    await drag(page, "Disk latency", 0.5, 0.55);
    await isFine();
    assert.ok(charts().includes("disk.latency") && !charts().includes("cgroup.memory"), `${charts()}`);
    // A twentieth of a day, and as much on either side, in 1500 intervals.
    const [{ searchParams: asked }] = finer();
    assert.ok(Math.abs(asked.get("to") - asked.get("from") - 12960) < 120, `${asked}`);
    assert.equal(await stepIn(), 9);
    // What is near is there already.
    await page.getByRole("button", { name: "Later" }).click();
    await page.waitForTimeout(600);
    assert.equal(new Set(charts()).size, charts().length, `${charts()}`);
    assert.equal(await stepIn(), 9);
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
    assert.equal(await stepIn(), 173);
    server.instead = (url) => (url.searchParams.has("intervals") ? [500, "the disk is broken"] : null);
    await drag(page, "Disk latency", 0.2, 0.22);
    await page.getByText("Finer data is missing. The disk is broken.").waitFor();
    assert.equal(await stepIn(), 173);
    server.instead = () => null;
    await page.getByRole("button", { name: "Later" }).click();
    await isFine();
    assert.equal(await page.getByText("Finer data is missing").count(), 0);
  },

  // Of a recording, charts are asked for when they come near sight or are needed, each once.
  async sight() {
    server.hosts = [own];
    const small = { viewport: { width: 900, height: 600 } };
    const asked = () => server.asked("/api/page").flatMap(({ searchParams }) => searchParams.get("charts")?.split(",") ?? []);
    const page = await open(small);
    assert.ok(!asked().includes("cgroup.memory"), `${asked()}`);
    assert.ok(await chart(page, "Memory of control groups").evaluate((figure) => figure.classList.contains("pending")));
    // A number leads to a chart that is not there yet.
    await page.locator("#answer").getByRole("link", { name: "184" }).click();
    await page.waitForFunction(() => document.activeElement.querySelector("h4")?.textContent === "Disk latency" && document.activeElement.querySelector("canvas"));
    await page.locator("#answer .sparkline").first().waitFor();
    // A chart that turns out to have no data is left out, and so is a family without any.
    const contents = page.getByRole("navigation", { name: "Contents" });
    assert.equal(await contents.getByText("Processes").count(), 1);
    await drawn(page, "Memory of control groups");
    await contents.getByText("Processes").waitFor({ state: "detached" });
    assert.equal(new Set(asked()).size, asked().length, `${asked()}`);

    // A comparison needs the series of all charts.
    const brushed = await open(small);
    await drag(brushed, "Disk latency", 0.4, 0.45, { key: "Shift" });
    await compared(brushed);
    assert.match(await brushed.locator("#differences").innerText(), /of 28 series differ/);
    assert.equal(await brushed.locator("figure.pending").count(), 0);

    // So does a search, since names of series are not known before.
    const searched = await open(small);
    await searched.getByRole("searchbox").fill("postgresql.service");
    await chart(searched, "Memory of control groups").locator("canvas").waitFor();
    await searched.waitForFunction(() => [...document.querySelectorAll("figure")].filter((figure) => figure.checkVisibility()).length === 1);
  },

  // One machine, live and as it was recorded.
  async both() {
    server.hosts = [live, own];
    const page = await open();
    assert.equal(await page.getByRole("table", { name: "Hosts" }).count(), 0);
    const kinds = page.getByRole("navigation", { name: "Live or recorded" });
    assert.equal(await kinds.locator("[aria-current]").innerText(), "Live");
    await kinds.getByRole("link", { name: "Recorded" }).click();
    await page.locator(".period").waitFor();
    assert.equal(search(page).get("host"), "0");
    assert.equal(await kinds.locator("[aria-current]").innerText(), "Recorded");
    // Nothing of the live machine is asked for any more.
    const asked = () => server.asked("/api/page").filter(({ searchParams }) => searchParams.get("host") === "live").length;
    const before = asked();
    await page.waitForTimeout(2500);
    assert.equal(asked(), before);
    await page.goBack();
    await page.locator(".live").waitFor();
    assert.equal(await page.title(), "Healthy: web1");
    await goOn(page, 2);
    // The chosen zone lasts.
    const berlin = await open({ timezoneId: "Europe/Berlin" });
    await berlin.getByLabel("Times").selectOption("UTC");
    await berlin.getByRole("link", { name: "Recorded" }).click();
    await berlin.locator(".period").waitFor();
    assert.equal(await berlin.getByLabel("Times").evaluate((select) => select.selectedOptions[0].textContent), "UTC");
    assert.match(await range(berlin), /03:00:00 UTC/);
  },

  async hostile() {
    server.hosts = recordings(30).map((host, i) => ({ ...host, name: [attack, override, "__proto__", "constructor", `db${i}`][i % 5], finding: attack, verdict: ["bottleneck", "__proto__", attack][i % 3] }));
    const page = await open();
    assert.equal(await page.evaluate(() => window.hacked), undefined);
    assert.equal(await page.locator("img").count(), 0);
    const text = await page.locator("#hosts").innerText();
    assert.ok(text.includes(attack) && text.includes("a\\u{202e}gnp.exe\\u{2028}\\x07") && text.includes("__proto__"));
    await page.getByRole("searchbox").fill("__proto__");
    await settled(page);
    await rows(page).first().getByRole("link").click();
    await page.locator("#answer h2").waitFor();
    // It still asks for charts, which the server would refuse from here on.
    await page.close();
    server.hosts = [{ ...live, id: "live", name: attack }];
    server.instead = (url) => (url.searchParams.has("host") ? [400, attack] : null);
    const other = await open({ expects: refused });
    assert.ok((await other.locator(".failure").innerText()).startsWith(`${attack}.`));
    assert.equal(await other.evaluate(() => window.hacked), undefined);
  },

  async narrow() {
    server.hosts = [{ ...live, name: "db0" }, own, ...recordings(30).slice(1)];
    for (const more of ["", "&host=live", "&host=0"]) {
      const page = await open({ viewport: { width: 360, height: 740 }, hasTouch: true }, more);
      await drawAll(page);
      await settled(page);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(wide <= 360, `${more}: ${wide} pixels`);
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
    assert.equal(await rows(page).count(), 200);
    assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "light");
    await page.evaluate(() => dispatchEvent(new Event("afterprint")));
    await settled(page);
    assert.ok((await rows(page).count()) < 60);
    assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
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
