// The page of a fleet in a real browser, with a stand-in for the server: `node fleet.mjs SCENARIO`.
// `node fleet.mjs screenshots FOLDER` writes pictures there, to be looked at.

import assert from "node:assert/strict";
import { attack, override } from "./documents.mjs";
import { announced, becomes, drawAll, hasCount, hasText, hasTexts, isHidden, open as openPage, ready, run, scrolled, serious, settled, unfold } from "./driver.mjs";
import { FleetServer, host } from "./fleetserver.mjs";

const [scenario, folder] = process.argv.slice(2);
const server = await new FleetServer().start();
const origin = `http://127.0.0.1:${server.port}/`;
const refused = /Failed to load resource/;

const open = (options = {}, more = "") => openPage(server.url + more, { mayRequest: (url) => url.startsWith(origin), ...options });
const search = (page) => new URL(page.url()).searchParams;
const map = (page) => page.locator(".heat-scroller");
const side = (page) => page.locator(".fleet-side");
const readout = (page) => page.locator(".heat-readout");
const rowsShown = (page) => map(page).evaluate(({ dataset }) => Number(dataset.rows));

// How many pixels of the cells of some rows, in so many parts from left to right, are of the colours of a loss.
const painted = (page, from, to, parts) => map(page).evaluate((scroller, [from, to, parts]) => {
  const canvas = scroller.querySelector("canvas");
  const scale = canvas.width / scroller.clientWidth;
  const row = Number.parseFloat(getComputedStyle(scroller).getPropertyValue("--heat-row"));
  const left = Number.parseFloat(document.querySelector(".heat-axis").style.marginLeft) * scale;
  const width = Math.floor(canvas.width - left);
  const { data } = canvas.getContext("2d").getImageData(left, from * row * scale, width, Math.floor((to - from) * row * scale));
  const counts = new Array(parts).fill(0);
  // The heat colours are blue; text, lines and hatches are grey.
  for (let i = 0; i < data.length; i += 4) if (data[i + 3] > 128 && data[i + 2] - data[i] > 40) counts[Math.floor((((i / 4) % width) / width) * parts)] += 1;
  return counts;
}, [from, to, parts]);

// The middle of a cell.
async function cell(page, row, piece, pieces) {
  return map(page).evaluate((scroller, [row, piece, pieces]) => {
    const box = scroller.getBoundingClientRect();
    const gutter = Number.parseFloat(document.querySelector(".heat-axis").style.marginLeft);
    const height = Number.parseFloat(getComputedStyle(scroller).getPropertyValue("--heat-row"));
    return { x: box.left + gutter + ((piece + 0.5) / pieces) * (scroller.clientWidth - gutter), y: box.top + (row + 0.5) * height + 1 - scroller.scrollTop };
  }, [row, piece, pieces]);
}

const scenarios = {
  // Eight of forty hosts are sick in the last third of the day.
  async map() {
    const page = await open();
    await hasText(page.locator("h2").first(), "8 of 40 hosts sick");
    await hasText(page.locator(".fleet-head .note"), /Also 1 not reporting, 1 silent/);
    await becomes(() => painted(page, 0, 8, 3), (sick) => sick[2] > 15 * Math.max(sick[0], sick[1]));
    const sick = (await painted(page, 0, 8, 3))[2];
    await becomes(() => painted(page, 8, 20, 3), (healthy) => healthy.every((count) => count < sick / 8));
    // The one that did not report comes last, and says so.
    await becomes(() => rowsShown(page), 41);
    const { x, y } = await cell(page, 0, 80, 96);
    await page.mouse.move(x, y);
    await hasText(readout(page), /^db\d+ 21 Nov, 23:00–23:15 · \d+ % of the time lost, mostly to Disk saturated$/);
    const gap = await cell(page, 7, 43, 96);
    await page.mouse.move(gap.x, gap.y);
    await hasText(readout(page), /no data$/);
    // The legend has words beside each colour.
    await hasTexts(page.locator(".heat-legend li"), ["no data", "none lost", "< 1 %", "1–5 %", "5–20 %", "20–50 %", "≥ 50 %"]);
    // Missing hosts are listed, and lead to their pages.
    await side(page).getByText("Not reporting: 1 host").click();
    await side(page).getByRole("link", { name: "gone1" }).waitFor();
  },

  async filter() {
    const page = await open();
    await page.getByRole("searchbox").fill("DB3");
    // db3 and db30 to db39.
    await becomes(() => rowsShown(page), 11);
    await hasText(announced(page), "11 hosts shown.");
    await page.getByRole("searchbox").fill("disk saturated");
    await becomes(() => rowsShown(page), 8);
    await page.getByRole("searchbox").fill("");
    await page.getByText("Hosts as a table").click();
    const table = page.locator(".fleet-map table");
    await hasCount(table.locator("tbody tr"), 41);
    await hasText(table.locator("tbody tr").first(), /^db\d+\s+\d+ %\s+[\d.]+ h\s+Disk saturated\s+/);
  },

  async groups() {
    const page = await open();
    await page.getByLabel("Group by").selectOption("kernel");
    await page.waitForURL(/by=kernel/);
    await ready(page);
    // Two groups, and one host whose kernel is not known.
    await becomes(() => rowsShown(page), 44);
    await hasText(side(page), /By kernel\s+.*6\.12\.9-cloud\s+8 of 8 hosts sick/s);
    await page.getByRole("button", { name: "Fold all" }).click();
    await becomes(() => rowsShown(page), 3);
    await becomes(() => painted(page, 0, 1, 1), ([mean]) => mean > 100);
    // The worst group is first; it unfolds by a click and folds by a key.
    const { x, y } = await cell(page, 0, 80, 96);
    await page.mouse.click(x, y);
    await becomes(() => rowsShown(page), 11);
    await hasText(readout(page), /^6\.12\.9-cloud \(8 hosts\) .* of the time lost on average$/);
    await map(page).focus();
    await page.keyboard.press("Enter");
    await becomes(() => rowsShown(page), 3);
    await hasText(announced(page), "6.12.9-cloud folded.");
    // The way back knows no groups.
    await page.goBack();
    await ready(page);
    await becomes(() => rowsShown(page), 41);
  },

  async keyboard() {
    const page = await open();
    await map(page).focus();
    await page.keyboard.press("ArrowDown");
    // The first key shows where the cursor is: the newest time of the worst host.
    await hasText(announced(page), /^db\d+, 22 Nov 2026, 02:45:00–03:00:00 UTC: \d+ % of the time lost, mostly to Disk saturated\.$/);
    await page.keyboard.press("ArrowLeft");
    await hasText(announced(page), /02:30:00–02:45:00 UTC/);
    await page.keyboard.press("Control+End");
    await hasText(announced(page), /^gone1, .*: no data\.$/);
    await becomes(() => map(page).evaluate(({ scrollTop, scrollHeight, clientHeight }) => scrollTop + clientHeight >= scrollHeight - 1), true);
    await page.keyboard.press("Control+Home");
    await page.keyboard.press("End");
    // A time is marked, and shown.
    for (let i = 0; i < 3; i += 1) await page.keyboard.press("Shift+ArrowLeft");
    await hasText(announced(page), /Marked 22 Nov 2026, 02:00:00–03:00:00 UTC\.$/);
    await page.keyboard.press("z");
    await page.waitForURL(/from=/);
    await ready(page);
    assert.equal(Number(search(page).get("to")) - Number(search(page).get("from")), 3600);
    assert.equal(search(page).get("since"), null);
    await page.goBack();
    await ready(page);
    await map(page).focus();
    await page.keyboard.press("ArrowDown");
    await hasText(announced(page), /^db\d+, .* mostly to Disk saturated\.$/);
    const [name] = (await announced(page).innerText()).split(",");
    await page.keyboard.press("Enter");
    await hasText(page.locator("#title"), name);
  },

  // Dragging over a time shows it.
  async brush() {
    const page = await open();
    const [from, to] = [await cell(page, 2, 64, 96), await cell(page, 5, 79, 96)];
    await page.mouse.move(from.x, from.y);
    await page.mouse.down();
    await page.mouse.move((from.x + to.x) / 2, to.y, { steps: 3 });
    await page.mouse.move(to.x, to.y, { steps: 3 });
    await page.mouse.up();
    await page.waitForURL(/from=/);
    await ready(page);
    assert.equal(Number(search(page).get("to")) - Number(search(page).get("from")), 16 * 900);
    await hasText(page.locator(".fleet-head .note"), /19:00:00–23:00:00 UTC/);
    await hasCount(page.locator(".kinds [aria-current]"), 0);
    await page.getByRole("link", { name: "7 days" }).click();
    await page.waitForURL(/since=7d/);
    await ready(page);
    assert.equal(server.asked("/api/heat").at(-1).searchParams.get("since"), "7d");
  },

  async host() {
    const page = await open();
    const { x, y } = await cell(page, 0, 80, 96);
    await page.mouse.dblclick(x, y);
    await hasText(page.locator("#answer h2"), "Disk saturated (device nvme0n1)");
    await hasText(page.locator("#answer"), /Who\s+process backup/);
    await hasCount(page.locator(".bar"), 1);
    // A change, and a gap.
    await hasCount(page.locator(".marker.kernel"), 1);
    await hasCount(page.locator(".marker.recording"), 1);
    await drawAll(page);
    await page.getByText("What the host itself recorded").click();
    await hasText(page.locator(".site .command code"), /^ssh -- db\d+ 'whyslow explain/);
    await page.getByText(/^Properties: /).click();
    await hasText(page.locator(".site"), /kernel release\s+6\.12\.9-cloud/);
    // Zooming asks for another command.
    const asked = server.asked("/api/raw").length;
    await page.getByRole("button", { name: "Zoom in" }).click();
    await becomes(() => server.asked("/api/raw").length, (count) => count > asked);
    await page.getByRole("link", { name: "← All hosts" }).click();
    await map(page).waitFor();
    await isHidden(page.locator("#charts"));
    assert.equal(search(page).get("host"), null);
    // A silent host says so; one that did not report says what is known.
    const silent = await open({}, "&host=db2");
    await hasText(silent.locator(".site"), /This host is silent/);
    const gone = await open({ expects: refused }, "&host=gone1");
    await hasText(gone.locator(".failure"), /There is no such host/);
    await gone.getByRole("link", { name: "7 days" }).waitFor();
  },

  // From a finding to what its hosts share, and from a change to what it did.
  async causes() {
    const page = await open();
    await side(page).getByRole("link", { name: "Disk saturated" }).click();
    await side(page).getByText(/is what the sick hosts share/).waitFor();
    assert.equal(search(page).get("finding"), "disk.saturated");
    await becomes(() => rowsShown(page), 8);
    await hasText(side(page), /cause kernel release 6\.12\.9-cloud\s+sick\s+8 of 8 \(100 %\)\s+healthy\s+0 of 32 \(0 %\)/);
    await side(page).getByText("The same in a terminal").click();
    await hasText(side(page).locator("code"), "whyslow-fleet why disk.saturated");
    // The map is not asked for again.
    const maps = server.asked("/api/heat").length;
    await side(page).getByRole("link", { name: "← Overview" }).click();
    await side(page).getByRole("heading", { name: "Changes" }).waitFor();
    await ready(page);
    await becomes(() => rowsShown(page), 41);
    await side(page).getByRole("link", { name: "kernel release: 6.12.9-cloud" }).click();
    await side(page).getByText("hurt", { exact: true }).waitFor();
    await hasText(side(page), /healthy, changed\s+8\s+1 %\s+46 %\s+< 0\.001/);
    assert.equal(server.asked("/api/heat").length, maps);
    assert.equal(server.asked("/api/change").at(-1).searchParams.get("id"), "kernel:release=6.12.9-cloud");
    // A mark stands for what was changed at its place.
    await page.locator(".heat-marks .marker.package").click();
    await hasText(side(page), /Changed at that time\s+package openssl: 3\.0\.15\s+30 hosts .*\s+sysctl vm\.swappiness: 10/s);
    await page.locator(".heat-marks .marker.kernel").click();
    await side(page).getByText("hurt", { exact: true }).waitFor();
  },

  async failures() {
    const page = await openPage(`${origin}?token=wrong`, { mayRequest: (url) => url.startsWith(origin), expects: refused });
    await hasText(page.locator(".failure"), /^The server does not accept the token.*open the address that it printed\.$/);
    // A slow store is said to be read.
    server.instead = (url) => (url.pathname === "/api/heat" && !isThere ? [503, "the store does not answer"] : null);
    let isThere = false;
    const slow = await open({ expects: refused, isReady: false });
    await hasText(slow.locator(".notice"), /^The store does not answer\. Trying again\./);
    await hasText(slow.locator(".progress"), /^Reading the store: \d+\ss$/);
    isThere = true;
    await ready(slow);
    await isHidden(slow.locator(".progress"));
    // The token goes nowhere but into the header.
    assert.ok(server.requests.filter(({ pathname }) => pathname.startsWith("/api/")).every(({ searchParams }) => !searchParams.has("token")));
  },

  async hostile() {
    server.hosts = Array.from({ length: 12 }, (_, i) => ({ ...host(i), name: `${attack}${override}${i}`, role: attack, kernel: i % 5 === 0 ? host(0).kernel : override }));
    for (const more of ["&by=role", "&by=kernel", "&finding=disk.saturated", "&change=kernel%3Arelease%3D6.12.9-cloud", `&host=${encodeURIComponent(server.hosts[0].name)}`]) {
      const page = await open({}, more);
      await unfold(page);
      if (await map(page).isVisible()) {
        await map(page).focus();
        for (let i = 0; i < 3; i += 1) await page.keyboard.press("ArrowDown");
      } else {
        await drawAll(page);
      }
      assert.equal(await page.evaluate(() => window.hacked), undefined);
      await hasCount(page.locator("img"), 0);
      const text = await page.evaluate(() => document.body.textContent);
      assert.ok(text.includes(attack) || more.startsWith("&change"), more);
      assert.ok(!text.includes("\u202e") && !(await page.title()).includes("\u202e"), more);
      await page.close();
    }
  },

  // How smoothly a large fleet scrolls is printed.
  async rows() {
    server.hosts = Array.from({ length: 10_000 }, (_, i) => host(i));
    const begin = Date.now();
    const page = await open();
    console.log(`10000 hosts: drawn after ${Date.now() - begin} ms`);
    await becomes(() => rowsShown(page), 10_001);
    const { words } = await scrolled(page, { scroller: ".heat-scroller", by: 371 });
    console.log(`10000 hosts: ${words}`);
    await becomes(() => map(page).evaluate(({ dataset }) => Number(dataset.first)), (first) => first > 2000);
    const typed = await page.evaluate(async () => {
      const begin = performance.now();
      const input = document.querySelector("input[type=search]");
      input.value = "db99";
      input.dispatchEvent(new Event("input"));
      await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
      return performance.now() - begin;
    });
    console.log(`10000 hosts: a filter took ${typed.toFixed(0)} ms`);
    await becomes(() => rowsShown(page), 111);
    await page.getByRole("searchbox").fill("");
    // Groups of so many hosts are folded at first.
    await page.getByLabel("Group by").selectOption("role");
    await page.waitForURL(/by=role/);
    await ready(page);
    await becomes(() => rowsShown(page), 4);
  },

  async narrow() {
    const page = await open({ viewport: { width: 360, height: 740 } }, "&by=role");
    const fits = (page) => becomes(() => page.evaluate(() => document.documentElement.scrollWidth - innerWidth), (over) => over <= 0);
    await fits(page);
    await becomes(() => painted(page, 0, 4, 1), ([count]) => count > 100);
    const change = await open({ viewport: { width: 360, height: 740 } }, "&change=kernel%3Arelease%3D6.12.9-cloud");
    await fits(change);
  },

  async theme() {
    const page = await open({ colorScheme: "dark" });
    const at = () => page.evaluate(() => [getComputedStyle(document.body).backgroundColor, document.querySelector(".heat-legend li:last-child .heat-cell span").style.background]);
    const dark = await at();
    await page.getByLabel("Theme").selectOption("light");
    await becomes(at, (light) => dark.every((one, i) => one !== light[i]));
    await becomes(() => painted(page, 0, 8, 3), (parts) => parts[2] > 1000);
  },

  async accessible() {
    const found = [];
    for (const [what, more] of [["fleet", "&by=role"], ["why", "&finding=disk.saturated"], ["change", "&change=kernel%3Arelease%3D6.12.9-cloud"], ["host", "&host=db1"]]) {
      const page = await open({ bypassCSP: true, colorScheme: what === "why" ? "dark" : "light" }, more);
      await unfold(page);
      found.push(...await serious(page, what));
      await page.close();
    }
    assert.deepEqual(found, []);
  },

  // To be looked at by a person; nothing is checked.
  async screenshots() {
    server.hosts = Array.from({ length: 300 }, (_, i) => host(i));
    const narrow = { viewport: { width: 360, height: 740 }, deviceScaleFactor: 2 };
    const shown = [["fleet", ""], ["groups", "&by=role"], ["why", "&finding=disk.saturated"], ["change", "&change=kernel%3Arelease%3D6.12.9-cloud"], ["host", "&host=db1"]];
    for (const [kind, options] of [["light", {}], ["dark", { colorScheme: "dark" }], ["narrow", narrow]]) {
      for (const [name, more] of shown) {
        const page = await open(options, more);
        await settled(page);
        await page.screenshot({ path: `${folder}/fleet-${name}-${kind}.png`, fullPage: kind === "narrow" || name === "host" });
        await page.close();
      }
    }
  },
};

await run(scenarios, scenario);
await server.stop();
