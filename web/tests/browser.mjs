// The page of a report in a real browser: `node browser.mjs SCENARIO FOLDER`, where the folder has the pages of `documents.mjs`.
// `node browser.mjs screenshots FOLDER` writes pictures there, to be looked at.

import assert from "node:assert/strict";
import { pathToFileURL } from "node:url";
import { attack } from "./documents.mjs";
import { announced, chart, colored, dataTable, drag, drawAll, drawn, minutes, near, open as openPage, range, run, serious, settled, unfold } from "./driver.mjs";

const [scenario, folder] = process.argv.slice(2);

// A page that is opened from disk: it requests nothing but itself.
function open(name, options = {}) {
  const url = pathToFileURL(`${folder}/${name}.html`).href;
  return openPage(url, { mayRequest: (requested) => requested.split("#")[0] === url, ...options });
}

const scenarios = {
  async offline() {
    const page = await open("recording");
    assert.equal(await page.title(), "db1: 21 November, 03:00–04:00");
    assert.equal(await page.locator("#answer h2").innerText(), "sdb cannot keep up: 31 requests are queued, each waiting 184 ms.");
    assert.match(await page.locator("#answer .verdict").innerText(), /^Bottleneck · the worst of 7 episodes, 21 Nov 2026, 03:20:00–03:30:00 UTC$/);
    const answer = await page.locator("#answer").innerText();
    for (const text of ["backup.sh (pid 812, unit backup.service) with 71\u00a0% of requests in flight", "whyslow tune set process.ionice@812=idle", "Expected: other requests go first"]) {
      assert.ok(answer.includes(text), text);
    }
    // Folded, but there.
    const ruledOut = page.locator("details", { hasText: "Ruled out (3)" });
    assert.equal(await ruledOut.evaluate((details) => details.open), false);
    await ruledOut.locator("summary").click();
    assert.match(await ruledOut.innerText(), /no cgroup was throttled/);
    assert.match(await page.locator("details", { hasText: "Not seen (2)" }).locator("dd").first().textContent(), /permission denied → run as root/);
    const titles = await page.locator("figure h4").allInnerTexts();
    assert.equal(titles.length, 9);
    for (const title of titles) await drawn(page, title);
  },

  async healthy() {
    const page = await open("healthy");
    assert.equal(await page.locator("#answer .verdict").innerText(), "Healthy");
    assert.equal(await page.locator("#answer h2").innerText(), "No resource is saturated or failing.");
    assert.equal(await page.locator("#answer .action").count(), 0);
    assert.ok(await page.locator("#timeline").isHidden());
  },

  async captures() {
    const page = await open("capture");
    assert.equal(await page.locator("#answer .verdict").innerText(), "Undetermined");
    assert.equal(await page.locator("#answer h2").innerText(), "No cause is certain, but tasks waited for I/O 46 % of the time.");
    assert.match(await page.locator("#answer .action").first().innerText(), /To decide, on the captured host\s+iostat -x 1 10/);
    assert.equal(await range(page), "00:00:00–00:01:40 since the first reading (100 s)");
    assert.equal(await page.getByLabel("Times").count(), 0);
    await drawn(page, "Disk latency");
    const empty = await open("empty");
    assert.equal(await empty.locator("#answer h2").innerText(), "No diagnosis");
    assert.ok(await empty.locator("#charts").isHidden());
  },

  async zoom() {
    const page = await open("recording");
    near(await minutes(page), [0, 60]);
    const before = await (await drawn(page, "Disk latency")).locator(".summary").first().innerText();
    assert.match(before, /^Highest: sdb, \d+\u00a0ms at 03:2\d:\d\d\.$/);
    await drag(page, "Disk latency", 0.5, 0.75);
    near(await minutes(page), [30, 45]);
    // Every chart follows, also one that comes into sight later.
    assert.match(await chart(page, "Disk latency").locator(".summary").first().innerText(), /at 03:(3|4)\d:\d\d\.$/);
    const queue = await drawn(page, "Requests in flight");
    await settled(page);
    assert.match(await queue.locator(".summary").first().innerText(), /at 03:(3|4)\d:\d\d\.$/);
    await page.getByRole("button", { name: "Later" }).click();
    near(await minutes(page), [37.5, 52.5]);
    await page.getByRole("button", { name: "Zoom in" }).click();
    near(await minutes(page), [41.25, 48.75]);
    await page.getByRole("button", { name: "Reset" }).click();
    near(await minutes(page), [0, 60]);
    // The wheel with Ctrl zooms where the pointer is; a double click shows everything.
    const plot = (await drawn(page, "Disk latency")).locator(".u-over");
    await plot.hover({ position: { x: 1, y: 50 } });
    await page.keyboard.down("Control");
    await page.mouse.wheel(0, -100);
    await page.keyboard.up("Control");
    await page.waitForFunction(() => document.querySelector(".range").textContent.includes("48"));
    near(await minutes(page), [0, 48]);
    await plot.dblclick({ position: { x: 200, y: 50 } });
    near(await minutes(page), [0, 60]);
  },

  async pan() {
    const page = await open("recording");
    await drag(page, "Disk latency", 0.5, 0.75);
    await page.getByText("Pan", { exact: true }).click();
    await drag(page, "Disk latency", 0.2, 0.6);
    near(await minutes(page), [24, 39]);
    await drag(page, "Disk latency", 0, 1);
    await drag(page, "Disk latency", 0, 1);
    near(await minutes(page), [0, 15]);
  },

  async cursor() {
    const page = await open("recording");
    const queue = await drawn(page, "Requests in flight");
    const latency = await drawn(page, "Disk latency");
    const plot = latency.locator(".u-over");
    const box = await plot.boundingBox();
    await plot.hover({ position: { x: box.width / 2, y: 60 } });
    await settled(page);
    const times = [latency, queue].map((figure) => figure.locator("thead th").nth(1).innerText());
    const [here, there] = await Promise.all(times);
    assert.match(here, /^03:(29:50|30:00)$/);
    assert.equal(here, there);
    // The lines of both are at the same place of the plot.
    const places = await Promise.all([latency, queue].map((figure) => figure.evaluate((element) =>
      element.querySelector(".u-cursor-x").getBoundingClientRect().left - element.querySelector(".u-over").getBoundingClientRect().left)));
    assert.ok(Math.abs(places[0] - places[1]) <= 1.5, `${places}`);
    // Near a line the others fade, and the line itself does not.
    const of = await colored(latency, "series-2", 1, 25);
    const { y, height } = box;
    const top = await latency.evaluate((element) => [...element.querySelectorAll(".u-cursor-pt")].map((point) => point.getBoundingClientRect().top)[1]);
    await page.mouse.move(box.x + box.width / 2, Math.min(Math.max(top, y), y + height - 2));
    await settled(page);
    assert.ok((await colored(latency, "series-2", 1, 25))[0] > of[0] / 2);
    await page.mouse.move(2, 2);
    await settled(page);
    assert.equal(await queue.locator("thead th").nth(1).innerText(), "Last");
  },

  async brush() {
    const page = await open("recording");
    await drag(page, "Disk latency", 1 / 3 + 0.005, 0.5 - 0.005, { key: "Shift" });
    near(await minutes(page), [0, 60]);
    const section = page.locator("#differences");
    assert.match(await section.innerText(), /\d+ of \d+ series differ clearly from before\./);
    const rows = await section.locator(".scroller tbody th").allInnerTexts();
    // What changed in the span comes first; CPU time changed by little more than it varies, and nothing else did.
    const expected = ["Tasks waiting for I/O: some", "Disk latency: sdb", "Requests in flight: sdb", "Disk throughput: sdb reads", "Disk throughput: sdb writes"];
    assert.deepEqual(rows.slice(0, 5).sort(), expected.sort());
    assert.ok(rows.slice(5).every((row) => row.startsWith("CPU time: ")), rows.join("; "));
    assert.match(await announced(page), /series differ clearly/);
    assert.ok((await colored(await drawn(page, "Network sent"), "accent", 1, 1)).length > 0);
    // A row leads to its chart.
    await section.getByRole("link", { name: "Requests in flight: sdb" }).click();
    await page.waitForFunction(() => document.activeElement.querySelector("h4")?.textContent === "Requests in flight");
    await section.getByRole("button", { name: "Zoom to the span" }).click();
    near(await minutes(page), [20.3, 29.7]);
    await section.getByRole("button", { name: "Clear" }).click();
    assert.ok(await section.isHidden());
    // The mode does the same without a key, and nothing differs where nothing happened.
    await page.getByRole("button", { name: "Reset" }).click();
    await page.getByText("Compare", { exact: true }).click();
    await drag(page, "Disk latency", 0.8, 0.9);
    assert.match(await section.innerText(), /None of \d+ series differs clearly from before\./);
  },

  async pin() {
    const page = await open("recording");
    const section = page.locator("#differences");
    // 03:45–03:52:30 is quiet; it is pinned, and the bad ten minutes are compared with it.
    await drag(page, "Disk latency", 0.75, 0.875, { key: "Shift" });
    await section.getByRole("button", { name: "Pin" }).click();
    await settled(page);
    assert.match(await section.innerText(), /03:45:\d\d–03:52:\d\d UTC is pinned\. Drag over another span/);
    assert.match(await announced(page), /is pinned/);
    await drag(page, "Disk latency", 1 / 3 + 0.005, 0.5 - 0.005, { key: "Shift" });
    assert.match(await section.locator("p").first().innerText(), /03:20:\d\d–03:29:\d\d UTC, compared with 21 Nov 2026, 03:45:\d\d–03:52:\d\d UTC\. \d+ of \d+ series differ clearly from the pinned span\./);
    const rows = await section.locator(".scroller tbody th").allInnerTexts();
    assert.ok(rows.includes("Disk latency: sdb") && rows.includes("Requests in flight: sdb"), rows.join("; "));
    assert.deepEqual(await section.locator(".scroller thead th").allInnerTexts(), ["Series", "Over time", "Pinned span", "In the span", "Change", "Times its spread"]);
    // Over each other the pinned span is low, and the other one high.
    const latency = await drawn(page, "Disk latency");
    const figures = section.locator(".overlay-figures tbody tr");
    assert.equal(await figures.count(), 2);
    await section.getByRole("button", { name: "Draw both spans of Disk latency: sdb" }).click();
    const medians = await figures.evaluateAll((all) => all.map((row) => Number.parseFloat(row.cells[1].textContent)));
    assert.ok(medians[1] / medians[0] > 30 && medians[1] / medians[0] < 60, `${medians}`);
    const heights = await section.locator(".overlay-plot").evaluate((holder) => {
      const canvas = holder.querySelector("canvas");
      const { data, width, height } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      // The mean row of the pixels of each colour.
      return ["series-8", "series-1"].map((name) => {
        const hex = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
        const wanted = [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16));
        let [count, sum] = [0, 0];
        for (let i = 0; i < width * height; i += 1) {
          if (data[4 * i + 3] > 200 && wanted.every((value, c) => Math.abs(value - data[4 * i + c]) < 30)) {
            count += 1;
            sum += Math.floor(i / width);
          }
        }
        return count > 0 ? sum / count / height : null;
      });
    });
    assert.ok(heights[0] > 0.7 && heights[1] < 0.3, `${heights}`);
    // Any other series can be chosen.
    await section.getByLabel("Both over each other:").selectOption({ label: "Network sent: eth0" });
    assert.match((await figures.first().innerText()).replaceAll("\u00a0", " "), /Mbit\/s/);
    await section.getByRole("button", { name: "Swap" }).click();
    await settled(page);
    assert.match(await section.locator("p").first().innerText(), /03:45:\d\d–03:52:\d\d UTC, compared with 21 Nov 2026, 03:20:\d\d–03:29:\d\d UTC/);
    await section.getByRole("button", { name: "Clear" }).click();
    assert.match(await section.innerText(), /is pinned/);
    await section.getByRole("button", { name: "Unpin" }).click();
    assert.ok(await section.isHidden());
    // From the keyboard: F pins what is marked, and Escape clears one after the other.
    // The pointer is out of the way: what is below it has moved.
    await page.mouse.move(2, 2);
    const plot = latency.locator(".plot");
    await plot.focus();
    await page.keyboard.press("Home");
    await page.keyboard.press("Shift+PageDown");
    await page.keyboard.press("f");
    assert.match(await section.innerText(), /03:00:\d\d–03:06:\d\d UTC is pinned/);
    await page.keyboard.press("PageDown");
    await page.keyboard.press("Shift+PageDown");
    await page.keyboard.press("c");
    assert.match(await section.innerText(), /from the pinned span/);
    await page.keyboard.press("Escape");
    await page.keyboard.press("Escape");
    assert.ok(await section.isHidden());
  },

  async keyboard() {
    const page = await open("recording");
    // The skip link comes first, and every control is reached by Tab.
    await page.keyboard.press("Tab");
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "Skip to the answer");
    const unreachable = await page.evaluate(() => [...document.querySelectorAll("a, button, input, select, summary, [role=application]")]
      .filter((element) => element.tabIndex < 0).map((element) => element.outerHTML));
    assert.deepEqual(unreachable, []);
    const plot = (await drawn(page, "Disk latency")).locator(".plot");
    await plot.focus();
    await page.keyboard.press("Home");
    assert.match(await announced(page), /^03:00:10: sda [\d.]+\u00a0ms, sdb [\d.]+\u00a0ms\.$/);
    await page.keyboard.press("ArrowRight");
    assert.match(await announced(page), /^03:00:20: /);
    // Focus is seen.
    const outline = await plot.evaluate((element) => getComputedStyle(element).outlineStyle);
    assert.equal(outline, "solid");
    for (let i = 0; i < 12; i += 1) await page.keyboard.press("PageDown");
    await page.keyboard.press("Home");
    // Marks a span with Shift, and zooms to it.
    for (let i = 0; i < 2; i += 1) await page.keyboard.press("PageDown");
    for (let i = 0; i < 3; i += 1) await page.keyboard.press("Shift+PageDown");
    assert.match(await announced(page), /Marked 21 Nov 2026, 03:12:\d\d–03:30:\d\d UTC\.$/);
    await page.keyboard.press("Enter");
    await settled(page);
    near(await minutes(page), [12, 30]);
    await page.keyboard.press("0");
    await settled(page);
    near(await minutes(page), [0, 60]);
    // Compares it from the keyboard, too.
    await page.keyboard.press("Home");
    for (let i = 0; i < 4; i += 1) await page.keyboard.press("PageDown");
    await page.keyboard.press("Shift+PageDown");
    await page.keyboard.press("c");
    assert.ok(await page.locator("#differences").isVisible());
    await page.keyboard.press("Escape");
    assert.ok(await page.locator("#differences").isHidden());
    // The modes are a group of radio buttons; arrows choose.
    await page.getByRole("radio", { name: "Zoom" }).focus();
    await page.keyboard.press("ArrowRight");
    assert.ok(await page.getByRole("radio", { name: "Pan" }).isChecked());
    // Series are hidden and shown by their buttons.
    const series = chart(page, "Disk latency").getByRole("button", { name: "sdb" });
    await series.focus();
    await page.keyboard.press("Space");
    await settled(page);
    assert.equal(await series.getAttribute("aria-pressed"), "false");
  },

  async timeline() {
    const page = await open("recording");
    const bars = page.locator(".bar");
    assert.equal(await bars.count(), 3);
    assert.equal(await bars.nth(1).getAttribute("aria-label"), "Disk saturated (device sdb), 03:20:00, for 10\u00a0min");
    // Where and how wide: a third of the hour, for a sixth of it.
    const [track, bar] = await Promise.all([page.locator(".track").boundingBox(), bars.nth(1).boundingBox()]);
    assert.ok(Math.abs((bar.x - track.x) / track.width - 1 / 3) < 0.01 && Math.abs(bar.width / track.width - 1 / 6) < 0.01);
    // Bars that overlap are below one another.
    const tops = await bars.evaluateAll((all) => all.map((bar) => bar.getBoundingClientRect().top));
    assert.ok(tops[0] === tops[1] && tops[2] > tops[1]);
    const markers = await page.locator(".marker").evaluateAll((all) => all.map((marker) => marker.getAttribute("aria-label")));
    assert.equal(markers.length, 6);
    assert.ok(markers.includes("Changed: 03:05:00 package postgresql: was 15.4, is 15.5; 03:05:00 package libpq5: was 15.4, is 15.5"), markers.join("\n"));
    assert.ok(markers.includes("Changed: 03:06:00 unit postgresql.service restarted"), markers.join("\n"));
    assert.ok(markers.includes("Changed: 03:19:20 queue of sdb: scheduler was mq-deadline, is none"), markers.join("\n"));
    assert.deepEqual(await page.locator(".marker-key li").allInnerTexts(), ["Process", "Setting", "The recording itself", "Package", "Unit restarted"]);
    await bars.nth(1).click();
    await settled(page);
    near(await minutes(page), [15, 35]);
    const detail = page.locator(".episode");
    assert.match(await detail.innerText(), /requests waited 55\u00a0% of the time, 62\u00a0% at worst/);
    assert.match(await detail.innerText(), /Who was affected\s+postgresql\.service waited 5\.20\ss in 10\ss for disk sdb behind backup\.service\.\s+postgres \(4711\) was stuck for 4\.1 s/);
    assert.match(await detail.innerText(), /Just before\s+03:19:20 queue of sdb/);
    await detail.getByRole("button", { name: "Compare with before" }).click();
    assert.match(await page.locator("#differences").innerText(), /03:20:00–03:30:00 UTC, compared with 03:10:00–03:20:00/);
    await page.locator(".episodes").getByRole("button", { name: /There is more work than 4 CPUs/ }).click();
    await settled(page);
    near(await minutes(page), [7.5, 9.5]);
    // Its evidence is not in the page.
    assert.match(await detail.innerText(), /For everything that was found at that time:\s+whyslow explain \/var\/lib\/whyslow --from 2026-11-21T03:08:00\S*Z --to 2026-11-21T03:09:00\S*Z -v/);
    assert.match(await page.locator("#timeline > .note").innerText(), /^3598 samples, 2 missed; 4 more episodes, which cost less, are not listed$/);
    // Dragging over it zooms, like dragging over a chart.
    const { x, y, width, height } = await page.locator(".track").boundingBox();
    await page.mouse.move(x + 0.7 * width, y + height - 30);
    await page.mouse.down();
    await page.mouse.move(x + 0.9 * width, y + height - 30, { steps: 5 });
    await page.mouse.up();
    await settled(page);
    near(await minutes(page), [42, 54]);
    // In another zone all times are others.
    const berlin = await open("recording", { timezoneId: "Europe/Berlin" });
    assert.match(await berlin.locator(".bar").nth(1).getAttribute("aria-label"), /04:20:00/);
    await berlin.getByLabel("Times").selectOption("UTC");
    await settled(berlin);
    assert.match(await berlin.locator(".bar").nth(1).getAttribute("aria-label"), /03:20:00/);
    assert.match(await range(berlin), /03:00:00–04:00:00 UTC/);
  },

  async links() {
    const page = await open("live");
    const table = page.locator("#answer table.evidence").first();
    const linked = await table.getByRole("link").allInnerTexts();
    // Those whose signals charts list; 'disk.scheduler' and 'disk.busy' have none.
    assert.deepEqual(linked.map((text) => text.replaceAll("\u00a0", " ")), ["184 ms", "31.2", "2.65 MiB/s", "62.3 %"]);
    await table.getByRole("link", { name: "184" }).click();
    await page.waitForFunction(() => document.activeElement.querySelector("h4")?.textContent === "Disk latency");
    assert.ok(await chart(page, "Disk latency").evaluate((element) => {
      const { top, bottom } = element.getBoundingClientRect();
      return top >= 0 && bottom <= innerHeight;
    }));
    // The course of a number that one series shows stands beside it.
    assert.ok((await table.locator(".sparkline").count()) >= 2);
    // How the disk responds to load: six levels, the line rises to the eighth request and then no more.
    await page.locator("summary", { hasText: "How sdb responds to load" }).click();
    const curve = page.getByRole("img", { name: /^How sdb responds to load\. At most 170\/s, with 8 requests in flight\.$/ });
    const heights = await curve.locator("circle").evaluateAll((all) => all.map((circle) => Number(circle.getAttribute("cy"))));
    assert.ok(heights.length === 6 && heights[0] > heights[1] && heights[2] > heights[3] && heights[3] === heights[5], `${heights}`);
    // Other findings lead to their charts as well.
    await page.locator("summary", { hasText: "Network link possibly saturated" }).click();
    assert.equal(await page.locator("a", { hasText: /94.3\sMbit\/s/ }).count(), 1);
  },

  async flame() {
    const page = await open("live");
    const graph = page.locator(".flame-graph");
    await graph.scrollIntoViewIfNeeded();
    const frame = (name) => graph.locator(".flame-frame").filter({ hasText: new RegExp(`^${name}$`) });
    const box = await graph.boundingBox();
    const part = async (name) => (await frame(name).boundingBox()).width / box.width;
    for (const [name, expected] of [["backup.sh", 0.85], ["compress", 0.6], ["vfs_read", 0.25], ["hash", 0.2], ["\\[libc.so.6\\]", 0.15]]) {
      assert.ok(Math.abs((await part(name)) - expected) < 0.005, `${name}: ${await part(name)}`);
    }
    // Callers are above.
    const [top, below] = await Promise.all(["main", "compress"].map((name) => frame(name).boundingBox().then(({ y }) => y)));
    assert.ok(top < below);
    assert.equal((await frame("compress").getAttribute("title")).replaceAll("\u00a0", " "), "compress (libz.so.1): 60 samples, 60 %, 40 samples of its own");
    await frame("compress").click();
    assert.ok((await part("compress")) > 0.99 && (await part("main")) > 0.99);
    assert.equal(await frame("vfs_read").count(), 0);
    await page.locator(".flame").getByRole("button", { name: "Show all" }).click();
    assert.ok(Math.abs((await part("compress")) - 0.6) < 0.005);
    // What is found within what was found counts once.
    await page.getByLabel("Highlight functions").fill("read");
    assert.equal((await page.locator(".flame-tools .note").innerText()).replaceAll("\u00a0", " "), "Found in 25 %");
    assert.equal(await graph.locator(".hit").count(), 2);
    await page.getByLabel("Highlight functions").fill("");
    await graph.focus();
    for (const key of ["ArrowDown", "ArrowDown", "ArrowDown"]) await page.keyboard.press(key);
    assert.match(await announced(page), /^compress /);
    await page.keyboard.press("ArrowRight");
    assert.match(await announced(page), /^read_block \(backup\): 25 samples/);
    await page.keyboard.press("Enter");
    assert.ok((await part("read_block")) > 0.99);
    await page.keyboard.press("Escape");
    assert.match(await announced(page), /^all: 100 samples, 100.%, everything is shown$/);
    const table = page.locator(".flame details");
    await table.locator("summary").click();
    const rows = (await table.locator("tbody tr").allInnerTexts()).map((text) => text.replaceAll("\u00a0", " ").split("\t"));
    assert.deepEqual(rows.slice(0, 3), [["compress", "libz.so.1", "40 %", "60 %"], ["vfs_read", "kernel", "25 %", "25 %"], ["hash", "backup", "20 %", "20 %"]]);
    assert.deepEqual(rows.at(-1), ["read_block", "backup", "0 %", "25 %"]);
  },

  async result() {
    const page = await open("result");
    assert.equal(await page.locator("#answer h2").innerText(), "Benchmark: disk of /srv");
    assert.match(await page.locator("#answer pre").innerText(), /^\/srv: folder\n\nSummary\n {2}random read of 4 KiB: 170\/s/);
    // Nothing here is over time.
    assert.equal(await page.locator(".toolbar").count(), 0);
    assert.deepEqual(await page.locator(".family h3").allInnerTexts(), ["Benchmark", "Experiment"]);
    const knee = await drawn(page, "Requests by queue depth");
    await settled(page);
    assert.match((await knee.locator(".summary").first().innerText()).replaceAll("\u00a0", " "), /^Highest: random read of 4 KiB, 170\/s at queue depth 16\.$/);
    assert.deepEqual((await knee.locator(".legend thead th").allInnerTexts()), ["Series", "32", "Lowest", "Highest"]);
    // The line rises to the knee, where a sixth of a doubling is a seventh of the width, and is flat behind it.
    const line = await colored(knee, "series-1", 6);
    assert.ok(line.every((count) => count > 20), `${line}`);
    // The keyboard goes from label to label.
    await knee.locator(".plot").focus();
    await page.keyboard.press("Home");
    assert.match(await announced(page), /^queue depth 1: random read of 4 KiB 21\.2\/s, random write of 4 KiB 11\/s\.$/);
    await page.keyboard.press("ArrowRight");
    assert.match(await announced(page), /^queue depth 2: /);
    const values = await dataTable(knee);
    assert.deepEqual(await values.locator("thead th").allInnerTexts(), ["Queue depth", "random read of 4 KiB", "random write of 4 KiB"]);
    assert.equal(await values.locator("tbody tr").count(), 6);
    // Dragging zooms this chart alone.
    const percentiles = await drawn(page, "Latency percentiles");
    const before = await percentiles.locator(".summary").first().innerText();
    await drag(page, "Requests by queue depth", 0.5, 0.9, { key: "Shift" });
    assert.ok((await knee.locator(".data-table tbody tr").count()) < 6);
    assert.equal(await percentiles.locator(".summary").first().innerText(), before);
    assert.equal(await page.locator("#differences").count(), 0);
    // Points are not joined: between the pairs only the estimate is drawn.
    const effect = await drawn(page, "Effect of each pair");
    await settled(page);
    const points = await colored(effect, "series-2", 60, 25);
    assert.ok(points.filter((count) => count > 0).length < 20, `${points}`);
    assert.ok((await colored(effect, "series-1"))[0] > 10);
  },

  async stack() {
    const page = await open("live");
    const box = (name, kind) => page.locator(".stack-node", { has: page.locator("strong", { hasText: new RegExp(`^${name}$`) }) }).filter({ hasText: kind });
    assert.equal(await page.locator(".stack-node").count(), 12);
    await page.locator("#stack").scrollIntoViewIfNeeded();
    await settled(page);
    // What requests pass through is from left to right, in columns of its own.
    const lefts = await Promise.all(["/", "vda1", "vda", "virtio1"].map((name) => box(name, "").first().boundingBox().then(({ x }) => x)));
    assert.deepEqual(lefts, [...lefts].sort((a, b) => a - b));
    // Eight lines to what lies below in storage, and two in the network; the hot ones are where tasks waited on both ends.
    assert.equal(await page.locator(".stack-lines path").count(), 10);
    // A line ends at the left edge of the disk, halfway up.
    const ends = await page.locator(".stack-group").first().evaluate((group) => {
      const frame = group.getBoundingClientRect();
      const disk = [...group.querySelectorAll(".stack-node")].find((node) => node.querySelector("strong").textContent === "vda").getBoundingClientRect();
      const wanted = [disk.left - frame.left, disk.top + disk.height / 2 - frame.top];
      return [...group.querySelectorAll("path")].filter((path) => {
        const [x, y] = path.getAttribute("d").split(" ").slice(-2).map(Number);
        return Math.abs(x - wanted[0]) < 1 && Math.abs(y - wanted[1]) < 1;
      }).length;
    });
    assert.equal(ends, 3);
    const disk = box("vda", "disk");
    const text = (await disk.innerText()).replaceAll("\u00a0", " ");
    for (const part of ["rotating", "request size 4 MiB, 1016 KiB*", "Tasks waited 62 % of the time, busy 100 %", "60.1 MiB/s read, 16.2 MiB/s written, 184 ms each, 31.2 in flight, at most 80.1 MiB/s",
      "vda3 69.6 MiB/s, vda1 6.68 MiB/s: together 95 % of what it can do"]) {
      assert.ok(text.includes(part), `${part}: ${text}`);
    }
    assert.ok(await disk.evaluate((node) => node.classList.contains("critical")));
    assert.equal(await page.locator(".stack-node.hot").count(), 1);
    // The parts of the bar are as wide as their shares of the ceiling: 73 and 7 of 84 MB/s.
    const shares = await disk.locator(".stack-parts").evaluate((bar) => [...bar.children].map((part) => part.getBoundingClientRect().width / bar.getBoundingClientRect().width));
    assert.ok(shares.length === 2 && Math.abs(shares[0] - 73 / 84) < 0.02 && Math.abs(shares[1] - 7 / 84) < 0.02, `${shares}`);
    assert.match(await box("eth0", "in web").innerText(), /3 more like it: eth0 in api, eth0 in db, eth0 in mail/);
    // Of an interface in bits.
    assert.match((await box("eth0", "receive ring").innerText()).replaceAll("\u00a0", " "), /88 Mbit\/s received, 16 Mbit\/s sent/);
    // Settings unfold, and the lines follow.
    await disk.locator("summary").click();
    assert.match(await disk.innerText(), /max_segments/);
    // An array of 36 disks stays readable: one below the other, and the slow one stands out.
    const array = await open("array");
    assert.equal(await array.locator(".stack-node").count(), 39);
    assert.equal(await array.locator(".stack-lines path").count(), 73);
    assert.equal(await array.locator(".stack-node.hot strong").innerText(), "sdr");
    const short = array.locator(".stack-node.short").first();
    assert.equal(await array.locator(".stack-node.short").count(), 35);
    assert.match((await short.innerText()).replaceAll("\u00a0", " "), /^sda\s+busy 20 %, 4 ms each$/);
    assert.ok((await short.boundingBox()).height < 40);
    await short.locator("summary").click();
    assert.match(await short.innerText(), /ST18000NM000J/);
    assert.ok(await array.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
  },

  async filter() {
    const page = await open("recording");
    const search = page.getByRole("searchbox");
    await search.fill("sdb");
    await settled(page);
    assert.deepEqual(await page.locator("figure:visible h4").allInnerTexts(), ["Disk latency", "Requests in flight", "Disk throughput", "Time in the device: sdb reads"]);
    assert.deepEqual(await chart(page, "Disk latency").locator("tbody th").allInnerTexts(), ["sdb"]);
    await search.fill("network");
    assert.deepEqual(await page.locator("figure:visible h4").allInnerTexts(), ["Network sent"]);
    await search.fill("");
    assert.equal(await page.locator("figure:visible").count(), 9);
    // More series than colours: eight are listed, the rest at a click; what the report left out is said.
    const each = await drawn(page, "Busy time of each CPU");
    assert.equal(await each.locator("tbody tr").count(), 8);
    await each.getByRole("button", { name: "4 more" }).click();
    assert.equal(await each.locator("tbody tr").count(), 12);
    assert.match(await each.innerText(), /4 more are left out: those with the smallest means\./);
  },

  async tables() {
    const page = await open("recording");
    const latency = await drawn(page, "Disk latency");
    const table = await dataTable(latency);
    assert.deepEqual(await table.locator("thead th").allInnerTexts(), ["Time", "sda", "sdb"]);
    assert.equal(await table.locator("tbody tr").count(), 200);
    assert.match(await latency.locator(".data").innerText(), /The first 200 of 360 rows; zoom in to see others\./);
    assert.match(await table.locator("tbody tr").first().innerText(), /^03:00:10\s+1\.\d+\sms\s+[34]\.\d+\sms$/);
    const heat = await drawn(page, "Time in the device: sdb reads");
    await heat.getByText("Data as a table").click();
    await heat.locator("thead th").first().waitFor();
    assert.deepEqual((await heat.locator("thead th").allInnerTexts()).slice(0, 3).map((text) => text.replaceAll("\u00a0", " ")), ["Time", "up to 1 ms", "1 ms–2 ms"]);
  },

  async pixels() {
    const page = await open("recording");
    // The line of sdb is high in the third sixth of the time, and low elsewhere; so is its range.
    const latency = await drawn(page, "Disk latency");
    await settled(page);
    const line = await colored(latency, "series-2", 6);
    assert.ok(line.every((count) => count > 30), `${line}`);
    const memory = await drawn(page, "Memory of control groups");
    await settled(page);
    // Values are missing from 27.8 % to 36 % of the time: no line is drawn through the gap.
    const gap = await colored(memory, "series-1", 50, 25);
    assert.ok(gap.slice(15, 17).every((count) => count === 0) && gap.slice(0, 13).every((count) => count > 0), `${gap}`);
    const areas = await drawn(page, "CPU time");
    await settled(page);
    // Of areas, the highest is the sum: 0.25 + 0.125 + 0.083 + 0.0625, and a tenth of noise.
    const sum = Number(/^Highest sum: ([\d.]+)/.exec(await areas.locator(".summary").first().innerText())[1]);
    assert.ok(sum > 52 && sum < 58, `${sum}`);
    for (const name of ["series-1", "series-2", "series-3", "series-4"]) {
      assert.ok((await colored(areas, name, 1, 60))[0] > 100, name);
    }
    // The heat map has nothing where nothing is known, and dark cells elsewhere.
    const heat = await drawn(page, "Time in the device: sdb reads");
    await settled(page);
    const dark = await colored(heat, "heat-3", 20, 60);
    assert.ok(dark.filter((count) => count > 0).length > 15, `${dark}`);
    const faint = await colored(heat, "heat-1", 90, 90);
    const covered = await colored(heat, "heat-2", 90, 120);
    assert.equal(faint[10] + covered[10], 0, `${faint} ${covered}`);
    assert.match(await heat.locator(".summary").first().innerText(), /^Half of all: up to \d+\u00a0ms; 99\u00a0%: up to \d+\u00a0ms\.$/);
  },

  async theme() {
    const page = await open("recording", { colorScheme: "dark" });
    const background = (page) => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    assert.equal(await background(page), "rgb(18, 18, 17)");
    const latency = await drawn(page, "Disk latency");
    await settled(page);
    assert.ok((await colored(latency, "series-2"))[0] > 100);
    await page.getByLabel("Theme").selectOption("Light");
    await settled(page);
    assert.equal(await background(page), "rgb(246, 246, 243)");
    assert.ok((await colored(latency, "series-2"))[0] > 100);
    await page.reload();
    await page.waitForSelector("html[data-ready]");
    assert.equal(await background(page), "rgb(246, 246, 243)");
    await page.getByLabel("Theme").selectOption("System");
    await page.emulateMedia({ colorScheme: "light" });
    await settled(page);
    assert.equal(await background(page), "rgb(246, 246, 243)");
    await page.emulateMedia({ colorScheme: "dark" });
    await settled(page);
    assert.equal(await background(page), "rgb(18, 18, 17)");
    // Motion only where it is welcome.
    assert.equal(await page.evaluate(() => getComputedStyle(document.documentElement).scrollBehavior), "auto");
    await page.emulateMedia({ reducedMotion: "no-preference" });
    assert.equal(await page.evaluate(() => getComputedStyle(document.documentElement).scrollBehavior), "smooth");
  },

  async narrow() {
    for (const name of ["recording", "live", "capture", "hostile"]) {
      const page = await open(name, { viewport: { width: 360, height: 740 }, hasTouch: true });
      await drawAll(page);
      await settled(page);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(wide <= 360, `${name}: ${wide} pixels`);
      const lefts = await page.locator("figure").evaluateAll((all) => [...new Set(all.map((figure) => figure.getBoundingClientRect().left))]);
      assert.equal(lefts.length, 1, "charts are in one column");
    }
  },

  async touch() {
    const page = await open("recording", { viewport: { width: 360, height: 740 }, hasTouch: true });
    const plot = (await drawn(page, "Disk latency")).locator(".u-over");
    await plot.scrollIntoViewIfNeeded();
    const box = await plot.boundingBox();
    const session = await page.context().newCDPSession(page);
    const touch = (type, part) => session.send("Input.dispatchTouchEvent", { type,
      touchPoints: type === "touchEnd" ? [] : [{ x: box.x + part * box.width, y: box.y + 80 }] });
    await touch("touchStart", 0.5);
    for (const part of [0.55, 0.6, 0.7, 0.75]) await touch("touchMove", part);
    await touch("touchEnd");
    await settled(page);
    near(await minutes(page), [30, 45], 1.5);
  },

  async hostile() {
    const page = await open("hostile");
    await drawAll(page);
    await unfold(page);
    await page.locator(".bar").first().click();
    await page.locator(".marker").first().click();
    await settled(page);
    assert.equal(await page.evaluate(() => window.hacked), undefined);
    assert.equal(await page.locator("img").count(), 0);
    assert.equal(await page.locator("script").count(), 3);
    assert.equal(await page.title(), `</title>${attack}`);
    const text = await page.locator("body").innerText();
    assert.ok(text.includes(`${attack} cannot keep up.`));
    assert.ok(text.includes("a\\u{202e}gnp.exe\\u{2028}\\x07"));
    const raw = await page.evaluate(() => document.body.textContent + [...document.querySelectorAll("*")].flatMap((element) =>
      [...element.attributes].map((attribute) => attribute.value)).join(""));
    // The document itself has them escaped as JSON.
    for (const character of ["\u202e", "\u2028", "\u0007"]) assert.ok(!raw.includes(character));
    assert.ok(text.includes("__proto__"));
    await drag(page, `Disk latency ${attack}`, 0.34, 0.49, { key: "Shift" });
    assert.ok(await page.locator("#differences").isVisible());
  },

  async accessible() {
    const found = [];
    for (const [name, options] of [["recording", {}], ["recording", { colorScheme: "dark" }], ["live", {}], ["capture", {}], ["healthy", {}],
      ["hostile", {}], ["empty", {}], ["array", {}], ["result", {}], ["recording", { viewport: { width: 360, height: 740 } }]]) {
      const page = await open(name, { ...options, bypassCSP: true });
      await drawAll(page);
      await unfold(page);
      if (name === "recording") {
        await page.locator(".bar").nth(1).click();
        await page.locator(".episode").getByRole("button", { name: "Compare with before" }).click();
      }
      await settled(page);
      found.push(...await serious(page, `${name} ${JSON.stringify(options)}`));
    }
    assert.deepEqual(found, []);
  },

  async print() {
    const page = await open("recording", { colorScheme: "dark" });
    const pdf = await page.pdf({ format: "A4" });
    assert.ok(pdf.length > 50000, `${pdf.length} bytes`);
    // Every chart was drawn for it, and the screen is dark again.
    assert.equal(await page.locator("figure canvas").count(), 9);
    assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
    await page.emulateMedia({ media: "print" });
    assert.ok(await page.locator(".toolbar").isHidden());
  },

  async day() {
    const page = await open("day");
    const figure = await drawn(page, "Disk 0");
    assert.equal(await figure.locator("tbody tr").count(), 8);
    // From one click to the next frame, with ten series of a day in each chart in sight.
    const milliseconds = await page.evaluate(async () => {
      const begin = performance.now();
      document.querySelector("button[aria-label='Zoom in']").click();
      await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
      return performance.now() - begin;
    });
    console.log(`a zoom of a day took ${milliseconds.toFixed(0)} ms`);
    const shown = await page.evaluate(() => performance.getEntriesByType("navigation")[0].domContentLoadedEventEnd);
    console.log(`the page was there after ${shown.toFixed(0)} ms`);
    assert.ok(milliseconds < 1000, `${milliseconds} ms`);
  },

  // To be looked at by a person; nothing is checked.
  async screenshots() {
    const shots = [
      ["recording", "light", {}], ["recording", "dark", { colorScheme: "dark" }], ["live", "light", {}], ["capture", "light", {}], ["healthy", "dark", { colorScheme: "dark" }], ["array", "light", {}], ["result", "light", {}], ["result", "dark", { colorScheme: "dark" }], ["live", "dark", { colorScheme: "dark" }], ["live", "narrow", { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2 }],
      ["recording", "narrow", { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2 }], ["hostile", "light", {}],
    ];
    for (const [name, kind, options] of shots) {
      const page = await open(name, options);
      await drawAll(page);
      await settled(page);
      await page.evaluate(() => scrollTo(0, 0));
      await page.screenshot({ path: `${folder}/${name}-${kind}.png`, fullPage: true });
      if (name === "recording" && kind !== "narrow") {
        await page.locator(".bar").nth(1).click();
        await page.locator(".episode").getByRole("button", { name: "Compare with before" }).click();
        const plot = (await drawn(page, "Disk throughput")).locator(".u-over");
        await plot.hover({ position: { x: 180, y: 60 } });
        await settled(page);
        await page.screenshot({ path: `${folder}/${name}-${kind}-compared.png`, fullPage: true });
      }
    }
  },
};

await run(scenarios, scenario);
