"use strict";
(() => {
  const letter = 7.3;
  const graph = document.getElementById("graph");
  const left = Number(graph.dataset.left), wide = Number(graph.dataset.wide);
  const blocks = [...graph.querySelectorAll(".block")].map((element) => {
    const [title, rect, text] = element.children;
    const x = (Number(rect.getAttribute("x")) - left) / wide;
    return {
      element, rect, text, x,
      y: Number(rect.getAttribute("y")),
      width: Number(rect.getAttribute("width")) / wide,
      name: title.textContent.split("\n")[0],
    };
  });
  // Widths are written with two decimals, so neighbours may overlap by one of them.
  const slack = 0.01 / wide;
  const inside = (a, b) => a.x >= b.x - slack && a.x + a.width <= b.x + b.width + slack;

  const fitting = (name, pixels) => {
    const room = Math.max(0, Math.floor((pixels - 6) / letter));
    if (name.length <= room) return name;
    return room > 2 ? name.slice(0, room - 2) + ".." : "";
  };
  const place = (block, x, width) => {
    block.rect.setAttribute("x", left + x * wide);
    block.rect.setAttribute("width", width * wide);
    block.text.setAttribute("x", left + x * wide + 3);
    block.text.textContent = fitting(block.name, width * wide);
  };
  const enlarge = (chosen) => {
    for (const block of blocks) {
      const above = block.y < chosen.y && inside(chosen, block);
      const below = block.y >= chosen.y && inside(block, chosen);
      block.element.classList.toggle("hidden", !above && !below);
      block.element.classList.toggle("faded", above);
      if (above) place(block, 0, 1);
      if (below) place(block, (block.x - chosen.x) / chosen.width, block.width / chosen.width);
    }
    reset.classList.toggle("hidden", chosen === blocks[0]);
  };

  const button = (words, right, action) => {
    const text = document.createElementNS("http://www.w3.org/2000/svg", "text");
    text.setAttribute("class", "note button");
    text.setAttribute("x", left + wide - right);
    text.setAttribute("text-anchor", "end");
    text.setAttribute("y", blocks[0].y - 8);
    text.textContent = words;
    text.addEventListener("click", action);
    graph.before(text);
    return text;
  };
  // The part of all that passes through a match; a match below another one is not counted again.
  const share = (hits) => hits.filter((hit) => !hits.some((other) => other.y < hit.y && inside(hit, other)))
    .reduce((sum, hit) => sum + hit.width, 0);
  const search = () => {
    const wanted = prompt("Functions whose name contains:")?.toLowerCase();
    if (wanted === undefined) return;
    const hits = blocks.filter((block) => wanted !== "" && block.name.toLowerCase().includes(wanted));
    for (const block of blocks) block.element.classList.toggle("hit", hits.includes(block));
    find.textContent = wanted === "" ? searching : `${(share(hits) * 100).toFixed(1)} % match · ${searching}`;
  };
  const searching = "search (/)";
  const find = button(searching, 0, search);
  const reset = button("show all (Esc)", 220, () => enlarge(blocks[0]));
  reset.classList.add("hidden");

  for (const block of blocks) block.element.addEventListener("click", () => enlarge(block));
  addEventListener("keydown", (event) => {
    if (event.key === "Escape") enlarge(blocks[0]);
    if (event.key === "/") { event.preventDefault(); search(); }
  });
})();
