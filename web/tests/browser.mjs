// The page of a report in a real browser: `node browser.mjs SCENARIO FOLDER`, where the folder has the pages of `documents.mjs`.
// `node browser.mjs screenshots FOLDER` writes pictures there, to be looked at.

import assert from "node:assert/strict";
import { pathToFileURL } from "node:url";
import { attack } from "./documents.mjs";
import { announced, becomes, chart, colored, dataTable, drag, drawAll, drawn, eventually, focused, hasCount, hasText, hasTexts, isHidden, near, open as openPage, range, ready, run, serious, settled, unfold } from "./driver.mjs";

const [scenario, folder] = process.argv.slice(2);

// A page that is opened from disk: it requests nothing but itself.
function open(name, options = {}) {
  const url = pathToFileURL(`${folder}/${name}.html`).href;
  return openPage(url, { mayRequest: (requested) => requested.split("#")[0] === url, ...options });
}

const scenarios = {
  async offline() {
    const page = await open("recording");
    await becomes(() => page.title(), "db1: 21 November, 03:00–04:00");
    await hasText(page.locator("#answer h2"), "sdb cannot keep up: 31 requests are queued, each waiting 184 ms.");
    await hasText(page.locator("#answer .verdict"), /^Bottleneck · the worst of 7 episodes, 21 Nov 2026, 03:20:00–03:30:00 UTC$/);
    for (const text of ["backup.sh (pid 812, unit backup.service) with 71 % of requests in flight", "whyslow tune set process.ionice@812=idle", "Expected: other requests go first"]) {
      await becomes(() => page.locator("#answer").innerText(), (answer) => answer.includes(text));
    }
    // Folded, but there.
    const ruledOut = page.locator("details", { hasText: "Ruled out (3)" });
    await becomes(() => ruledOut.evaluate((details) => details.open), false);
    await ruledOut.locator("summary").click();
    await hasText(ruledOut, /no cgroup was throttled/);
    await becomes(() => page.locator("details", { hasText: "Not seen (2)" }).locator("dd").first().textContent(), /permission denied → run as root/);
    const titles = page.locator("figure h4");
    await hasCount(titles, 9);
    for (const title of await titles.allInnerTexts()) await drawn(page, title);
  },

  async healthy() {
    const page = await open("healthy");
    await hasText(page.locator("#answer .verdict"), "Healthy");
    await hasText(page.locator("#answer h2"), "No resource is saturated or failing.");
    await hasCount(page.locator("#answer .action"), 0);
    await isHidden(page.locator("#timeline"));
  },

  async captures() {
    const page = await open("capture");
    await hasText(page.locator("#answer .verdict"), "Undetermined");
    await hasText(page.locator("#answer h2"), "No cause is certain, but tasks waited for I/O 46 % of the time.");
    await hasText(page.locator("#answer .action").first(), /To decide, on the captured host\s+iostat -x 1 10/);
    await hasText(range(page), "00:00:00–00:01:40 since the first reading (100 s)");
    await hasCount(page.getByLabel("Times"), 0);
    await drawn(page, "Disk latency");
    const disks = page.locator("details", { hasText: "Virtual disks (1)" });
    await disks.locator("summary").click();
    await hasText(disks.locator("li"), "vda in db.txt is disk0 of guest db (serial number DB1), on sdb in host.txt (15 % of its 200/s; a request takes 60 ms, 48 ms of them on the host)");
    const empty = await open("empty");
    await hasText(empty.locator("#answer h2"), "No diagnosis");
    await isHidden(empty.locator("#charts"));
  },

  async zoom() {
    const page = await open("recording");
    await near(page, [0, 60]);
    await hasText((await drawn(page, "Disk latency")).locator(".summary").first(), /^Highest: sdb, \d+ ms at 03:2\d:\d\d\.$/);
    await drag(page, "Disk latency", 0.5, 0.75);
    await near(page, [30, 45]);
    // Every chart follows, also one that comes into sight later.
    await hasText(chart(page, "Disk latency").locator(".summary").first(), /at 03:(3|4)\d:\d\d\.$/);
    const queue = await drawn(page, "Requests in flight");
    await hasText(queue.locator(".summary").first(), /at 03:(3|4)\d:\d\d\.$/);
    await page.getByRole("button", { name: "Later" }).click();
    await near(page, [37.5, 52.5]);
    await page.getByRole("button", { name: "Zoom in" }).click();
    await near(page, [41.25, 48.75]);
    await page.getByRole("button", { name: "Reset" }).click();
    await near(page, [0, 60]);
    // The wheel with Ctrl zooms where the pointer is; a double click shows everything.
    const plot = (await drawn(page, "Disk latency")).locator(".u-over");
    await plot.hover({ position: { x: 1, y: 50 } });
    await page.keyboard.down("Control");
    await page.mouse.wheel(0, -100);
    await page.keyboard.up("Control");
    await near(page, [0, 48]);
    await plot.dblclick({ position: { x: 200, y: 50 } });
    await near(page, [0, 60]);
  },

  async pan() {
    const page = await open("recording");
    await drag(page, "Disk latency", 0.5, 0.75);
    await near(page, [30, 45]);
    await page.getByText("Pan", { exact: true }).click();
    await drag(page, "Disk latency", 0.2, 0.6);
    await near(page, [24, 39]);
    await drag(page, "Disk latency", 0, 1);
    await near(page, [9, 24]);
    await drag(page, "Disk latency", 0, 1);
    await near(page, [0, 15]);
  },

  async cursor() {
    const page = await open("recording");
    const queue = await drawn(page, "Requests in flight");
    const latency = await drawn(page, "Disk latency");
    const plot = latency.locator(".u-over");
    const box = await plot.boundingBox();
    await plot.hover({ position: { x: box.width / 2, y: 60 } });
    const [here, there] = [latency, queue].map((figure) => figure.locator("thead th").nth(1));
    await hasText(here, /^03:(29:50|30:00)$/);
    await hasText(there, await here.innerText());
    // The lines of both are at the same place of the plot.
    const place = (figure) => figure.evaluate((element) =>
      element.querySelector(".u-cursor-x").getBoundingClientRect().left - element.querySelector(".u-over").getBoundingClientRect().left);
    await becomes(() => Promise.all([latency, queue].map(place)), ([a, b]) => Math.abs(a - b) <= 1.5);
    // Near a line the others fade, and the line itself does not.
    const [of] = await colored(latency, "series-2", 1, 25);
    const { y, height } = box;
    const top = await latency.evaluate((element) => [...element.querySelectorAll(".u-cursor-pt")].map((point) => point.getBoundingClientRect().top)[1]);
    await page.mouse.move(box.x + box.width / 2, Math.min(Math.max(top, y), y + height - 2));
    await settled(page);
    await becomes(() => colored(latency, "series-2", 1, 25), ([count]) => count > of / 2);
    await page.mouse.move(2, 2);
    await hasText(there, "Last");
  },

  async brush() {
    const page = await open("recording");
    await drag(page, "Disk latency", 1 / 3 + 0.005, 0.5 - 0.005, { key: "Shift" });
    await near(page, [0, 60]);
    const section = page.locator("#differences");
    await hasText(section, /\d+ of \d+ series differ clearly from before\./);
    // What changed in the span comes first; CPU time changed by little more than it varies, and nothing else did.
    const expected = ["Tasks waiting for I/O: some", "Disk latency: sdb", "Requests in flight: sdb", "Disk throughput: sdb reads", "Disk throughput: sdb writes"];
    const rows = section.locator(".scroller tbody th");
    await becomes(async () => (await rows.allInnerTexts()).slice(0, 5).sort(), expected.sort());
    await becomes(() => rows.allInnerTexts(), (all) => all.slice(5).every((row) => row.startsWith("CPU time: ")));
    await hasText(announced(page), /series differ clearly/);
    const network = await drawn(page, "Network sent");
    await becomes(() => colored(network, "accent", 1, 1), ([count]) => count > 0);
    // A row leads to its chart.
    await section.getByRole("link", { name: "Requests in flight: sdb" }).click();
    await focused(page, "Requests in flight");
    await section.getByRole("button", { name: "Zoom to the span" }).click();
    await near(page, [20.3, 29.7]);
    await section.getByRole("button", { name: "Clear" }).click();
    await isHidden(section);
    // The mode does the same without a key, and nothing differs where nothing happened.
    await page.getByRole("button", { name: "Reset" }).click();
    await page.getByText("Compare", { exact: true }).click();
    await drag(page, "Disk latency", 0.8, 0.9);
    await hasText(section, /None of \d+ series differs clearly from before\./);
  },

  async pin() {
    const page = await open("recording");
    const section = page.locator("#differences");
    // 03:45–03:52:30 is quiet; it is pinned, and the bad ten minutes are compared with it.
    await drag(page, "Disk latency", 0.75, 0.875, { key: "Shift" });
    await section.getByRole("button", { name: "Pin" }).click();
    await hasText(section, /03:45:\d\d–03:52:\d\d UTC is pinned\. Drag over another span/);
    await hasText(announced(page), /is pinned/);
    await drag(page, "Disk latency", 1 / 3 + 0.005, 0.5 - 0.005, { key: "Shift" });
    await hasText(section.locator("p").first(), /03:20:\d\d–03:29:\d\d UTC, compared with 21 Nov 2026, 03:45:\d\d–03:52:\d\d UTC\. \d+ of \d+ series differ clearly from the pinned span\./);
    await becomes(() => section.locator(".scroller tbody th").allInnerTexts(), (rows) => rows.includes("Disk latency: sdb") && rows.includes("Requests in flight: sdb"));
    await hasTexts(section.locator(".scroller thead th"), ["Series", "Over time", "Pinned span", "In the span", "Change", "Times its spread"]);
    // Over each other the pinned span is low, and the other one high.
    const latency = await drawn(page, "Disk latency");
    const figures = section.locator(".overlay-figures tbody tr");
    await hasCount(figures, 2);
    await section.getByRole("button", { name: "Draw both spans of Disk latency: sdb" }).click();
    const medians = () => figures.evaluateAll((all) => all.map((row) => Number.parseFloat(row.cells[1].textContent)));
    await becomes(medians, ([pinned, marked]) => marked / pinned > 30 && marked / pinned < 60);
    const heights = () => section.locator(".overlay-plot").evaluate((holder) => {
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
    await becomes(heights, ([pinned, marked]) => pinned > 0.7 && marked < 0.3);
    // Any other series can be chosen.
    await section.getByLabel("Both over each other:").selectOption({ label: "Network sent: eth0" });
    await hasText(figures.first(), /Mbit\/s/);
    await section.getByRole("button", { name: "Swap" }).click();
    await hasText(section.locator("p").first(), /03:45:\d\d–03:52:\d\d UTC, compared with 21 Nov 2026, 03:20:\d\d–03:29:\d\d UTC/);
    await section.getByRole("button", { name: "Clear" }).click();
    await hasText(section, /is pinned/);
    await section.getByRole("button", { name: "Unpin" }).click();
    await isHidden(section);
    // From the keyboard: F pins what is marked, and Escape clears one after the other.
    // The pointer is out of the way: what is below it has moved.
    await page.mouse.move(2, 2);
    const plot = latency.locator(".plot");
    await plot.focus();
    await page.keyboard.press("Home");
    await page.keyboard.press("Shift+PageDown");
    await page.keyboard.press("f");
    await hasText(section, /03:00:\d\d–03:06:\d\d UTC is pinned/);
    await page.keyboard.press("PageDown");
    await page.keyboard.press("Shift+PageDown");
    await page.keyboard.press("c");
    await hasText(section, /from the pinned span/);
    await page.keyboard.press("Escape");
    await page.keyboard.press("Escape");
    await isHidden(section);
  },

  async keyboard() {
    const page = await open("recording");
    // The skip link comes first, and every control is reached by Tab.
    await page.keyboard.press("Tab");
    await becomes(() => page.evaluate(() => document.activeElement.textContent), "Skip to the answer");
    await becomes(() => page.evaluate(() => [...document.querySelectorAll("a, button, input, select, summary, [role=application]")]
      .filter((element) => element.tabIndex < 0).map((element) => element.outerHTML)), []);
    const plot = (await drawn(page, "Disk latency")).locator(".plot");
    await plot.focus();
    await page.keyboard.press("Home");
    await hasText(announced(page), /^03:00:10: sda [\d.]+ ms, sdb [\d.]+ ms\.$/);
    await page.keyboard.press("ArrowRight");
    await hasText(announced(page), /^03:00:20: /);
    // Focus is seen.
    await becomes(() => plot.evaluate((element) => getComputedStyle(element).outlineStyle), "solid");
    for (let i = 0; i < 12; i += 1) await page.keyboard.press("PageDown");
    await page.keyboard.press("Home");
    // Marks a span with Shift, and zooms to it.
    for (let i = 0; i < 2; i += 1) await page.keyboard.press("PageDown");
    for (let i = 0; i < 3; i += 1) await page.keyboard.press("Shift+PageDown");
    await hasText(announced(page), /Marked 21 Nov 2026, 03:12:\d\d–03:30:\d\d UTC\.$/);
    await page.keyboard.press("Enter");
    await near(page, [12, 30]);
    await page.keyboard.press("0");
    await near(page, [0, 60]);
    // Compares it from the keyboard, too.
    await page.keyboard.press("Home");
    for (let i = 0; i < 4; i += 1) await page.keyboard.press("PageDown");
    await page.keyboard.press("Shift+PageDown");
    await page.keyboard.press("c");
    await page.locator("#differences").waitFor();
    await page.keyboard.press("Escape");
    await isHidden(page.locator("#differences"));
    // The modes are a group of radio buttons; arrows choose.
    await page.getByRole("radio", { name: "Zoom" }).focus();
    await page.keyboard.press("ArrowRight");
    await becomes(() => page.getByRole("radio", { name: "Pan" }).isChecked(), true);
    // Series are hidden and shown by their buttons.
    const series = chart(page, "Disk latency").getByRole("button", { name: "sdb" });
    await series.focus();
    await page.keyboard.press("Space");
    await becomes(() => series.getAttribute("aria-pressed"), "false");
  },

  async timeline() {
    const page = await open("recording");
    const bars = page.locator(".bar");
    await hasCount(bars, 3);
    await becomes(() => bars.nth(1).getAttribute("aria-label"), "Disk saturated (device sdb), 03:20:00, for 10 min");
    // Where and how wide: a third of the hour, for a sixth of it.
    const boxes = () => Promise.all([page.locator(".track").boundingBox(), bars.nth(1).boundingBox()]);
    await becomes(boxes, ([track, bar]) => Math.abs((bar.x - track.x) / track.width - 1 / 3) < 0.01 && Math.abs(bar.width / track.width - 1 / 6) < 0.01);
    // Bars that overlap are below one another.
    await becomes(() => bars.evaluateAll((all) => all.map((bar) => bar.getBoundingClientRect().top)), (tops) => tops[0] === tops[1] && tops[2] > tops[1]);
    await hasCount(page.locator(".marker"), 6);
    for (const change of ["03:05:00 package postgresql: was 15.4, is 15.5; 03:05:00 package libpq5: was 15.4, is 15.5",
      "03:06:00 unit postgresql.service restarted", "03:19:20 queue of sdb: scheduler was mq-deadline, is none"]) {
      await page.locator(".marker").and(page.getByLabel(`Changed: ${change}`, { exact: true })).waitFor();
    }
    await hasTexts(page.locator(".marker-key li"), ["Process", "Setting", "The recording itself", "Package", "Unit restarted"]);
    await bars.nth(1).click();
    await near(page, [15, 35]);
    const detail = page.locator(".episode");
    await hasText(detail, /requests waited 55 % of the time, 62 % at worst/);
    await hasText(detail, /Who was affected\s+postgresql\.service waited 5\.20\ss in 10\ss for disk sdb behind backup\.service\.\s+postgres \(4711\) was stuck for 4\.1 s/);
    await hasText(detail, /Just before\s+03:19:20 queue of sdb/);
    await detail.getByRole("button", { name: "Compare with before" }).click();
    await hasText(page.locator("#differences"), /03:20:00–03:30:00 UTC, compared with 03:10:00–03:20:00/);
    await page.locator(".episodes").getByRole("button", { name: /There is more work than 4 CPUs/ }).click();
    await near(page, [7.5, 9.5]);
    // Its evidence is not in the page.
    await hasText(detail, /For everything that was found at that time:\s+whyslow explain \/var\/lib\/whyslow --from 2026-11-21T03:08:00\S*Z --to 2026-11-21T03:09:00\S*Z -v/);
    await hasText(page.locator("#timeline > .note"), /^3598 samples, 2 missed; 4 more episodes, which cost less, are not listed$/);
    // Dragging over it zooms, like dragging over a chart.
    const { x, y, width, height } = await page.locator(".track").boundingBox();
    await page.mouse.move(x + 0.7 * width, y + height - 30);
    await page.mouse.down();
    await page.mouse.move(x + 0.9 * width, y + height - 30, { steps: 5 });
    await page.mouse.up();
    await near(page, [42, 54]);
    // In another zone all times are others.
    const berlin = await open("recording", { timezoneId: "Europe/Berlin" });
    await becomes(() => berlin.locator(".bar").nth(1).getAttribute("aria-label"), /04:20:00/);
    await berlin.getByLabel("Times").selectOption("UTC");
    await becomes(() => berlin.locator(".bar").nth(1).getAttribute("aria-label"), /03:20:00/);
    await hasText(range(berlin), /03:00:00–04:00:00 UTC/);
  },

  async links() {
    const page = await open("live");
    const table = page.locator("#answer table.evidence").first();
    // Those whose signals charts list; 'disk.scheduler' and 'disk.busy' have none.
    await hasTexts(table.getByRole("link"), ["184 ms", "31.2", "2.65 MiB/s", "62.3 %"]);
    await table.getByRole("link", { name: "184" }).click();
    await focused(page, "Disk latency");
    await becomes(() => chart(page, "Disk latency").evaluate((element) => {
      const { top, bottom } = element.getBoundingClientRect();
      return top >= 0 && bottom <= innerHeight;
    }), true);
    // The course of a number that one series shows stands beside it.
    await becomes(() => table.locator(".sparkline").count(), (count) => count >= 2);
    // How the disk responds to load: six levels, the line rises to the eighth request and then no more.
    await page.locator("summary", { hasText: "How sdb responds to load" }).click();
    const curve = page.getByRole("img", { name: /^How sdb responds to load\. At most 170\/s, with 8 requests in flight\.$/ });
    await becomes(() => curve.locator("circle").evaluateAll((all) => all.map((circle) => Number(circle.getAttribute("cy")))),
      (heights) => heights.length === 6 && heights[0] > heights[1] && heights[2] > heights[3] && heights[3] === heights[5]);
    // Other findings lead to their charts as well.
    await page.locator("summary", { hasText: "Network link possibly saturated" }).click();
    await hasCount(page.locator("a", { hasText: /94.3\sMbit\/s/ }), 1);
  },

  async flame() {
    const page = await open("live");
    const graph = page.locator(".flame-graph");
    await graph.scrollIntoViewIfNeeded();
    const frame = (name) => graph.locator(".flame-frame").filter({ hasText: new RegExp(`^${name}$`) });
    const isWide = (name, part) => becomes(async () => (await frame(name).boundingBox()).width / (await graph.boundingBox()).width, (width) => Math.abs(width - part) < 0.005);
    for (const [name, expected] of [["backup.sh", 0.85], ["compress", 0.6], ["vfs_read", 0.25], ["hash", 0.2], ["\\[libc.so.6\\]", 0.15]]) {
      await isWide(name, expected);
    }
    // Callers are above.
    const tops = () => Promise.all(["main", "compress"].map((name) => frame(name).boundingBox().then(({ y }) => y)));
    await becomes(tops, ([top, below]) => top < below);
    await becomes(() => frame("compress").getAttribute("title"), "compress (libz.so.1): 60 samples, 60 %, 40 samples of its own");
    await frame("compress").click();
    for (const name of ["compress", "main"]) await isWide(name, 1);
    await hasCount(frame("vfs_read"), 0);
    await page.locator(".flame").getByRole("button", { name: "Show all" }).click();
    await isWide("compress", 0.6);
    // What is found within what was found counts once.
    await page.getByLabel("Highlight functions").fill("read");
    await hasText(page.locator(".flame-tools .note"), "Found in 25 %");
    await hasCount(graph.locator(".hit"), 2);
    await page.getByLabel("Highlight functions").fill("");
    await graph.focus();
    for (const key of ["ArrowDown", "ArrowDown", "ArrowDown"]) await page.keyboard.press(key);
    await hasText(announced(page), /^compress /);
    await page.keyboard.press("ArrowRight");
    await hasText(announced(page), /^read_block \(backup\): 25 samples/);
    await page.keyboard.press("Enter");
    await isWide("read_block", 1);
    await page.keyboard.press("Escape");
    await hasText(announced(page), /^all: 100 samples, 100.%, everything is shown$/);
    const table = page.locator(".flame details");
    await table.locator("summary").click();
    const rows = table.locator("tbody tr");
    for (const [i, row] of ["compress\tlibz.so.1\t40 %\t60 %", "vfs_read\tkernel\t25 %\t25 %", "hash\tbackup\t20 %\t20 %"].entries()) await hasText(rows.nth(i), row);
    await hasText(rows.last(), "read_block\tbackup\t0 %\t25 %");
  },

  async result() {
    const page = await open("result");
    await hasText(page.locator("#answer h2"), "Benchmark: disk of /srv");
    await hasText(page.locator("#answer pre"), /^\/srv: folder\n\nSummary\n {2}random read of 4 KiB: 170\/s/);
    // Nothing here is over time.
    await hasCount(page.locator(".toolbar"), 0);
    await hasTexts(page.locator(".family h3"), ["Benchmark", "Experiment"]);
    const knee = await drawn(page, "Requests by queue depth");
    await hasText(knee.locator(".summary").first(), /^Highest: random read of 4 KiB, 170\/s at queue depth 16\.$/);
    await hasTexts(knee.locator(".legend thead th"), ["Series", "32", "Lowest", "Highest"]);
    // The line rises to the knee, where a sixth of a doubling is a seventh of the width, and is flat behind it.
    await becomes(() => colored(knee, "series-1", 6), (line) => line.every((count) => count > 20));
    // The keyboard goes from label to label.
    await knee.locator(".plot").focus();
    await page.keyboard.press("Home");
    await hasText(announced(page), /^queue depth 1: random read of 4 KiB 21\.2\/s, random write of 4 KiB 11\/s\.$/);
    await page.keyboard.press("ArrowRight");
    await hasText(announced(page), /^queue depth 2: /);
    const values = await dataTable(knee);
    await hasTexts(values.locator("thead th"), ["Queue depth", "random read of 4 KiB", "random write of 4 KiB"]);
    await hasCount(values.locator("tbody tr"), 6);
    // Dragging zooms this chart alone.
    const percentiles = await drawn(page, "Latency percentiles");
    const before = await percentiles.locator(".summary").first().innerText();
    await drag(page, "Requests by queue depth", 0.5, 0.9, { key: "Shift" });
    await becomes(() => knee.locator(".data-table tbody tr").count(), (count) => count < 6);
    await hasText(percentiles.locator(".summary").first(), before);
    await hasCount(page.locator("#differences"), 0);
    // Points are not joined: between the pairs only the estimate is drawn.
    const effect = await drawn(page, "Effect of each pair");
    await becomes(() => colored(effect, "series-1"), ([count]) => count > 10);
    await becomes(() => colored(effect, "series-2", 60, 25), (points) => points.filter((count) => count > 0).length < 20);
  },

  async stack() {
    const page = await open("live");
    const box = (name, kind) => page.locator(".stack-node", { has: page.locator("strong", { hasText: new RegExp(`^${name}$`) }) }).filter({ hasText: kind });
    await hasCount(page.locator(".stack-node"), 12);
    await page.locator("#stack").scrollIntoViewIfNeeded();
    // What requests pass through is from left to right, in columns of its own.
    const lefts = () => Promise.all(["/", "vda1", "vda", "virtio1"].map((name) => box(name, "").first().boundingBox().then(({ x }) => x)));
    await becomes(lefts, (all) => all.every((left, i) => i === 0 || left >= all[i - 1]));
    // Eight lines to what lies below in storage, and two in the network; the hot ones are where tasks waited on both ends.
    await hasCount(page.locator(".stack-lines path"), 10);
    // A line ends at the left edge of the disk, halfway up.
    const ends = () => page.locator(".stack-group").first().evaluate((group) => {
      const frame = group.getBoundingClientRect();
      const disk = [...group.querySelectorAll(".stack-node")].find((node) => node.querySelector("strong").textContent === "vda").getBoundingClientRect();
      const wanted = [disk.left - frame.left, disk.top + disk.height / 2 - frame.top];
      return [...group.querySelectorAll("path")].filter((path) => {
        const [x, y] = path.getAttribute("d").split(" ").slice(-2).map(Number);
        return Math.abs(x - wanted[0]) < 1 && Math.abs(y - wanted[1]) < 1;
      }).length;
    });
    await becomes(ends, 3);
    const disk = box("vda", "disk");
    for (const part of ["rotating", "request size 4 MiB, 1016 KiB*", "Tasks waited 62 % of the time, busy 100 %", "60.1 MiB/s read, 16.2 MiB/s written, 184 ms each, 31.2 in flight, at most 80.1 MiB/s",
      "vda3 69.6 MiB/s, vda1 6.68 MiB/s: together 95 % of what it can do"]) {
      await becomes(() => disk.innerText(), (text) => text.includes(part));
    }
    await becomes(() => disk.evaluate((node) => node.classList.contains("critical")), true);
    await hasCount(page.locator(".stack-node.hot"), 1);
    // The parts of the bar are as wide as their shares of the ceiling: 73 and 7 of 84 MB/s.
    await becomes(() => disk.locator(".stack-parts").evaluate((bar) => [...bar.children].map((part) => part.getBoundingClientRect().width / bar.getBoundingClientRect().width)),
      (shares) => shares.length === 2 && Math.abs(shares[0] - 73 / 84) < 0.02 && Math.abs(shares[1] - 7 / 84) < 0.02);
    await hasText(box("eth0", "in web"), /3 more like it: eth0 in api, eth0 in db, eth0 in mail/);
    // Of an interface in bits.
    await hasText(box("eth0", "receive ring"), /88 Mbit\/s received, 16 Mbit\/s sent/);
    // Settings unfold, and the lines follow.
    await disk.locator("summary").click();
    await hasText(disk, /max_segments/);
    // An array of 36 disks stays readable: one below the other, and the slow one stands out.
    const array = await open("array");
    await hasCount(array.locator(".stack-node"), 39);
    await hasCount(array.locator(".stack-lines path"), 73);
    await hasText(array.locator(".stack-node.hot strong"), "sdr");
    const short = array.locator(".stack-node.short").first();
    await hasCount(array.locator(".stack-node.short"), 35);
    await hasText(short, /^sda\s+busy 20 %, 4 ms each$/);
    await becomes(() => short.boundingBox(), ({ height }) => height < 40);
    await short.locator("summary").click();
    await hasText(short, /ST18000NM000J/);
    await becomes(() => array.evaluate(() => document.documentElement.scrollWidth <= innerWidth), true);
  },

  async filter() {
    const page = await open("recording");
    const search = page.getByRole("searchbox");
    await search.fill("sdb");
    await hasTexts(page.locator("figure:visible h4"), ["Disk latency", "Requests in flight", "Disk throughput", "Time in the device: sdb reads"]);
    await hasTexts(chart(page, "Disk latency").locator("tbody th"), ["sdb"]);
    await search.fill("network");
    await hasTexts(page.locator("figure:visible h4"), ["Network sent"]);
    await search.fill("");
    await hasCount(page.locator("figure:visible"), 9);
    // More series than colours: eight are listed, the rest at a click; what the report left out is said.
    const each = await drawn(page, "Busy time of each CPU");
    await hasCount(each.locator("tbody tr"), 8);
    await each.getByRole("button", { name: "4 more" }).click();
    await hasCount(each.locator("tbody tr"), 12);
    await hasText(each, /4 more are left out: those with the smallest means\./);
  },

  async tables() {
    const page = await open("recording");
    const latency = await drawn(page, "Disk latency");
    const table = await dataTable(latency);
    await hasTexts(table.locator("thead th"), ["Time", "sda", "sdb"]);
    await hasCount(table.locator("tbody tr"), 200);
    await hasText(latency.locator(".data"), /The first 200 of 360 rows; zoom in to see others\./);
    await hasText(table.locator("tbody tr").first(), /^03:00:10\s+1\.\d+\sms\s+[34]\.\d+\sms$/);
    const heat = await drawn(page, "Time in the device: sdb reads");
    await heat.getByText("Data as a table").click();
    for (const [i, title] of ["Time", "up to 1 ms", "1 ms–2 ms"].entries()) await hasText(heat.locator("thead th").nth(i), title);
  },

  async pixels() {
    const page = await open("recording");
    // The line of sdb is high in the third sixth of the time, and low elsewhere; so is its range.
    const latency = await drawn(page, "Disk latency");
    await becomes(() => colored(latency, "series-2", 6), (line) => line.every((count) => count > 30));
    const memory = await drawn(page, "Memory of control groups");
    // Values are missing from 27.8 % to 36 % of the time: no line is drawn through the gap.
    await becomes(() => colored(memory, "series-1", 50, 25), (gap) => gap.slice(15, 17).every((count) => count === 0) && gap.slice(0, 13).every((count) => count > 0));
    const areas = await drawn(page, "CPU time");
    // Of areas, the highest is the sum: 0.25 + 0.125 + 0.083 + 0.0625, and a tenth of noise.
    await becomes(() => areas.locator(".summary").first().innerText(), (text) => {
      const sum = Number(/^Highest sum: ([\d.]+)/.exec(text)?.[1]);
      return sum > 52 && sum < 58;
    });
    for (const name of ["series-1", "series-2", "series-3", "series-4"]) {
      await becomes(() => colored(areas, name, 1, 60), ([count]) => count > 100);
    }
    // The heat map has nothing where nothing is known, and dark cells elsewhere.
    const heat = await drawn(page, "Time in the device: sdb reads");
    await becomes(() => colored(heat, "heat-3", 20, 60), (dark) => dark.filter((count) => count > 0).length > 15);
    const faint = await colored(heat, "heat-1", 90, 90);
    const covered = await colored(heat, "heat-2", 90, 120);
    assert.equal(faint[10] + covered[10], 0, `${faint} ${covered}`);
    await hasText(heat.locator(".summary").first(), /^Half of all: up to \d+ ms; 99 %: up to \d+ ms\.$/);
  },

  async theme() {
    const page = await open("recording", { colorScheme: "dark" });
    const background = (page) => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    await becomes(() => background(page), "rgb(18, 18, 17)");
    const latency = await drawn(page, "Disk latency");
    const isDrawn = () => becomes(() => colored(latency, "series-2"), ([count]) => count > 100);
    await isDrawn();
    await page.getByLabel("Theme").selectOption("Light");
    await becomes(() => background(page), "rgb(246, 246, 243)");
    await isDrawn();
    // The browser stores the choice when it comes to it.
    await eventually(async () => {
      await page.reload();
      await ready(page);
      assert.equal(await background(page), "rgb(246, 246, 243)");
    });
    // Another window has the choice too, and what is chosen there is seen here.
    const other = await page.context().newPage();
    await other.goto(page.url());
    await becomes(() => background(other), "rgb(246, 246, 243)");
    await other.getByLabel("Theme").selectOption("Dark");
    await becomes(() => background(page), "rgb(18, 18, 17)");
    await becomes(() => page.getByLabel("Theme").inputValue(), "dark");
    await other.close();
    await page.getByLabel("Theme").selectOption("System");
    await page.emulateMedia({ colorScheme: "light" });
    await becomes(() => background(page), "rgb(246, 246, 243)");
    await page.emulateMedia({ colorScheme: "dark" });
    await becomes(() => background(page), "rgb(18, 18, 17)");
    // Motion only where it is welcome.
    await becomes(() => page.evaluate(() => getComputedStyle(document.documentElement).scrollBehavior), "auto");
    await page.emulateMedia({ reducedMotion: "no-preference" });
    await becomes(() => page.evaluate(() => getComputedStyle(document.documentElement).scrollBehavior), "smooth");
  },

  async narrow() {
    for (const name of ["recording", "live", "capture", "hostile"]) {
      const page = await open(name, { viewport: { width: 360, height: 740 }, hasTouch: true });
      await drawAll(page);
      await becomes(() => page.evaluate(() => document.documentElement.scrollWidth), (wide) => wide <= 360);
      // Charts are in one column.
      await becomes(() => page.locator("figure").evaluateAll((all) => [...new Set(all.map((figure) => figure.getBoundingClientRect().left))]), (lefts) => lefts.length === 1);
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
    await near(page, [30, 45], 1.5);
  },

  async hostile() {
    const page = await open("hostile");
    await drawAll(page);
    await unfold(page);
    await page.locator(".bar").first().click();
    await page.locator(".marker").first().click();
    await settled(page);
    assert.equal(await page.evaluate(() => window.hacked), undefined);
    await hasCount(page.locator("img"), 0);
    await hasCount(page.locator("script"), 3);
    await becomes(() => page.title(), `</title>${attack}`);
    const text = await page.locator("body").innerText();
    assert.ok(text.includes(`${attack} cannot keep up.`));
    assert.ok(text.includes("a\\u{202e}gnp.exe\\u{2028}\\x07"));
    const raw = await page.evaluate(() => document.body.textContent + [...document.querySelectorAll("*")].flatMap((element) =>
      [...element.attributes].map((attribute) => attribute.value)).join(""));
    // The document itself has them escaped as JSON.
    for (const character of ["\u202e", "\u2028", "\u0007"]) assert.ok(!raw.includes(character));
    assert.ok(text.includes("__proto__"));
    await drag(page, `Disk latency ${attack}`, 0.34, 0.49, { key: "Shift" });
    await page.locator("#differences").waitFor();
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
    await hasCount(page.locator("figure canvas"), 9);
    await becomes(() => page.evaluate(() => document.documentElement.dataset.theme), "dark");
    await page.emulateMedia({ media: "print" });
    await isHidden(page.locator(".toolbar"));
  },

  async day() {
    const page = await open("day");
    const figure = await drawn(page, "Disk 0");
    await hasCount(figure.locator("tbody tr"), 8);
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
    await hasText(range(page), /\(12 h\)/);
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
