"use strict";

// Reads single points out of the chart of the steps, by pointer or arrow keys.
function readSteps(plot) {
  const data = JSON.parse(document.getElementById("steps-data").textContent);
  const cursor = plot.querySelector(".cursor");
  const readout = plot.closest("figure").querySelector("[data-readout]");
  const last = data.starts.length - 1;
  let at = -1;
  const ms = (value) => (value >= 100 ? value.toFixed(0) : value.toFixed(2)) + " ms";
  function show(index) {
    at = Math.max(0, Math.min(last, index));
    const start = data.starts[at];
    const end = at < last ? data.starts[at + 1] : data.wall;
    const middle = data.wall ? ((start + end) / 2 / data.wall) * 100 : 0;
    cursor.setAttribute("x", middle + "%");
    cursor.setAttribute("visibility", "visible");
    const parts = data.ms[at]
      .map((value, place) => [value, data.phases[place]])
      .filter(([value]) => value > 0)
      .sort((a, b) => b[0] - a[0]);
    const total = parts.reduce((sum, [value]) => sum + value, 0);
    const said = parts.map(([value, phase]) => phase + " " + ms(value)).join(", ");
    readout.textContent =
      data.labels[at] + " at " + (start / 1000).toFixed(2) + " s: " + ms(total) + " (" + said + ")";
  }
  plot.addEventListener("pointermove", (event) => {
    const box = plot.getBoundingClientRect();
    const time = ((event.clientX - box.left) / box.width) * data.wall;
    let low = 0;
    let high = last;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (data.starts[middle] <= time) low = middle;
      else high = middle - 1;
    }
    show(low);
  });
  plot.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: at - 1, ArrowRight: at + 1, PageUp: at - 10, PageDown: at + 10, Home: 0, End: last };
    if (!(event.key in moves)) return;
    event.preventDefault();
    show(moves[event.key]);
  });
}

// Sorts the rows of a table by the column whose button was pressed.
function makeSortable(table) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    head.querySelector("button").addEventListener("click", () => {
      const numbers = head.classList.contains("num");
      const falling = head.getAttribute("aria-sort") ? head.getAttribute("aria-sort") === "ascending" : numbers;
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", falling ? "descending" : "ascending");
      const value = (row) => (numbers ? Number(row.cells[column].dataset.value) : row.cells[column].textContent);
      const rows = [...body.rows].sort((a, b) => {
        const [x, y] = [value(a), value(b)];
        const order = numbers ? x - y : x.localeCompare(y, "en", { numeric: true });
        return falling ? -order : order;
      });
      body.append(...rows);
    });
  });
}

// A flame graph that is walked with the arrow keys and zoomed with Enter.
function makeFlame(flame) {
  const frames = [...flame.querySelectorAll(".frame")];
  const places = frames.map((frame) => ({
    left: parseFloat(frame.getAttribute("x")),
    width: parseFloat(frame.getAttribute("width")),
    parent: Number(frame.dataset.parent),
  }));
  const readout = flame.nextElementSibling;
  const reset = flame.previousElementSibling.querySelector(".reset");
  const childrenOf = (index) => places.flatMap((place, at) => (place.parent === index ? [at] : []));
  let current = 0;

  function within(index, root) {
    while (index > root) index = places[index].parent;
    return index === root;
  }
  function zoom(root) {
    const { left, width } = places[root];
    frames.forEach((frame, index) => {
      const above = within(root, index);
      const shown = above || within(index, root);
      frame.setAttribute("visibility", shown ? "visible" : "hidden");
      if (!shown) return;
      frame.setAttribute("x", above ? "0%" : ((places[index].left - left) / width) * 100 + "%");
      frame.setAttribute("width", above ? "100%" : (places[index].width / width) * 100 + "%");
    });
    reset.hidden = root === 0;
  }
  function tell(index) {
    readout.textContent = frames[index].querySelector("title").textContent;
  }
  function go(index) {
    if (index === undefined || index < 0) return;
    frames[current].setAttribute("tabindex", "-1");
    current = index;
    frames[current].setAttribute("tabindex", "0");
    frames[current].focus();
    tell(current);
  }
  function beside(step) {
    const siblings = childrenOf(places[current].parent);
    return siblings[siblings.indexOf(current) + step];
  }
  frames.forEach((frame, index) => {
    frame.addEventListener("click", () => { zoom(index); go(index); });
    frame.addEventListener("pointerenter", () => tell(index));
    frame.addEventListener("focus", () => tell(index));
  });
  flame.addEventListener("keydown", (event) => {
    const acts = {
      ArrowUp: () => go(places[current].parent),
      ArrowDown: () => go(childrenOf(current)[0]),
      ArrowLeft: () => go(beside(-1)),
      ArrowRight: () => go(beside(1)),
      Enter: () => zoom(current),
      " ": () => zoom(current),
      Escape: () => zoom(0),
    };
    if (!(event.key in acts)) return;
    event.preventDefault();
    acts[event.key]();
  });
  reset.addEventListener("click", () => { zoom(0); go(0); });
}

document.querySelectorAll("[data-steps]").forEach(readSteps);
document.querySelectorAll("[data-sortable]").forEach(makeSortable);
document.querySelectorAll(".flame").forEach(makeFlame);
