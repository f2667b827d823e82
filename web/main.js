// Starts the page: a report shows the document that it contains, otherwise the server that sent the page is asked.

import { embedded } from "./data.js";
import { element, fill } from "./dom.js";
import { Report } from "./report.js";
import { Site } from "./site.js";
import { theme } from "./theme.js";

let shown = null;

try {
  const colors = theme(() => shown?.recolor());
  const page = embedded();
  if (page) {
    shown = new Report(page, { settings: [colors] });
    document.documentElement.dataset.ready = "true";
  } else {
    shown = new Site(colors);
    shown.start();
  }
} catch (error) {
  fill(document.querySelector("main"), element("p", { className: "failure", attributes: { role: "alert" } },
    `This page cannot be shown: ${error.message}`));
}
