"use strict";
// Zoom and pointing for the timelines of this page. A stretch has its times in data-f and data-t, in nanoseconds from the
// begin of the picture's window.
for (const svg of document.querySelectorAll("svg.timeline")) {
  const [length, origin, left, right, top, bottom] =
    ["length", "origin", "left", "right", "top", "bottom"].map((name) => Number(svg.dataset[name]));
  const figure = svg.closest("figure");
  const readout = figure.querySelector(".readout");
  const axis = svg.querySelector(".axis");
  const band = svg.querySelector(".band");
  const lanes = [...svg.querySelectorAll(".lane")];
  let view = [0, length];
  let picked = null;

  const scale = (at) => left + ((at - view[0]) / (view[1] - view[0])) * (right - left);
  const clamp = (x) => Math.min(Math.max(x, left), right);
  const units = [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]];
  function words(time, digits) {
    const [unit, name] = units.find(([unit]) => Math.abs(time) >= unit) || units[3];
    return (time / unit).toFixed(unit === 1 ? 0 : digits) + " " + name;
  }
  const make = (kind, attributes) => {
    const element = document.createElementNS(svg.namespaceURI, kind);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  };

  function place() {
    for (const item of svg.querySelectorAll("rect[data-f]")) {
      const [from, to] = [clamp(scale(Number(item.dataset.f))), clamp(scale(Number(item.dataset.t)))];
      const inside = Number(item.dataset.t) >= view[0] && Number(item.dataset.f) <= view[1];
      item.style.display = inside ? "" : "none";
      item.setAttribute("x", from);
      item.setAttribute("width", Math.max(to - from, 0.3));
    }
    for (const label of svg.querySelectorAll("text[data-f]")) {
      const [from, to] = [clamp(scale(Number(label.dataset.f))), clamp(scale(Number(label.dataset.t)))];
      label.setAttribute("x", from + 4);
      label.setAttribute("visibility", to - from > label.textContent.length * 6.6 + 6 ? "visible" : "hidden");
    }
    for (const point of svg.querySelectorAll("g[data-f]")) {
      const at = Number(point.dataset.f);
      point.style.display = at >= view[0] && at <= view[1] ? "" : "none";
      point.setAttribute("transform", `translate(${scale(at) - Number(point.dataset.x)} 0)`);
    }
    drawAxis();
    svg.dataset.view = view.join(" ");
  }

  function drawAxis() {
    const rough = (view[1] - view[0]) / 8;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((n) => n * power).find((step) => step >= rough);
    axis.replaceChildren();
    for (let n = Math.ceil((view[0] - origin) / step); n * step <= view[1] - origin; n += 1) {
      const x = scale(n * step + origin);
      const text = make("text", { x, y: top - 8, "text-anchor": "middle" });
      text.textContent = words(n * step, 3).replace(/(\.\d*?)0+ /, "$1 ").replace(". ", " ");
      axis.append(make("line", { class: "grid", x1: x, x2: x, y1: top, y2: bottom }), text);
    }
  }

  function show(from, to) {
    const shortest = Math.max(length / 1e5, 50);
    if (to - from < shortest) [from, to] = [(from + to - shortest) / 2, (from + to + shortest) / 2];
    const width = Math.min(to - from, length);
    from = Math.min(Math.max(from, 0), length - width);
    view = [from, from + width];
    place();
  }
  const zoom = (factor, at) => show(at - (at - view[0]) * factor, at + (view[1] - at) * factor);
  const middle = () => (view[0] + view[1]) / 2;
  const pan = (part) => show(view[0] + (view[1] - view[0]) * part, view[1] + (view[1] - view[0]) * part);

  // The words about a stretch or a mark, with its exact times.
  function described(element) {
    const said = element.querySelector(":scope > title").textContent;
    const times = [element.dataset.f, element.dataset.t].filter((time) => time !== undefined);
    const exact = times.map((time) => (Number(time) - origin).toLocaleString("en") + " ns");
    return exact.length > 0 ? `${said} (${exact.join(" to ")})` : said;
  }

  // Without a mouse: a stretch is picked, lane by lane, and described.
  function pick(stretch) {
    if (!stretch) return;
    picked?.classList.remove("picked");
    picked = stretch;
    picked.classList.add("picked");
    readout.textContent = described(picked);
    const [from, to] = [Number(picked.dataset.f), Number(picked.dataset.t)];
    if (to < view[0] || from > view[1]) show((from + to - view[1] + view[0]) / 2, (from + to + view[1] - view[0]) / 2);
  }
  const stretches = (lane) => [...lane.querySelectorAll("rect[data-f]")];
  function step(by) {
    const lane = picked ? stretches(picked.closest(".lane")) : stretches(lanes[0]);
    pick(picked ? lane[lane.indexOf(picked) + by] : lane.find((one) => Number(one.dataset.t) > view[0]));
  }
  function change(by) {
    if (!picked) return step(1);
    const at = Math.max(Number(picked.dataset.f), view[0]);
    for (let n = lanes.indexOf(picked.closest(".lane")) + by; lanes[n]; n += by) {
      const found = stretches(lanes[n]).find((one) => Number(one.dataset.t) > at);
      if (found) return pick(found);
    }
  }

  function time(event) {
    const box = svg.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width;
    return view[0] + ((clamp(x) - left) / (right - left)) * (view[1] - view[0]);
  }

  svg.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.shiftKey) return;
    event.preventDefault();
    zoom(event.deltaY + event.deltaX > 0 ? 1.25 : 0.8, time(event));
  }, { passive: false });
  let pressed = null;
  const drag = make("rect", { class: "drag", y: top, height: bottom - top, "pointer-events": "none" });
  svg.addEventListener("pointerdown", (event) => {
    pressed = event.pointerType === "touch" ? null : time(event);
  });
  window.addEventListener("pointerup", (event) => {
    if (pressed === null) return;
    const [from, to] = [pressed, time(event)].sort((one, other) => one - other);
    pressed = null;
    drag.remove();
    if (to - from > (view[1] - view[0]) / 100) show(from, to);
  });
  svg.addEventListener("dblclick", () => show(0, length));
  svg.addEventListener("pointermove", (event) => {
    const element = event.target.closest && event.target.closest("[data-f], text, g");
    const has = element && element.querySelector(":scope > title");
    const at = words(time(event) - origin, 3);
    readout.textContent = has ? `${at}   ${described(element)}` : at;
    if (pressed !== null) {
      const [from, to] = [scale(pressed), scale(time(event))].sort((one, other) => one - other);
      drag.setAttribute("x", from);
      drag.setAttribute("width", to - from);
      svg.append(drag);
    }
  });
  svg.addEventListener("keydown", (event) => {
    const keys = { "+": () => zoom(0.7, middle()), "-": () => zoom(1.4, middle()), "0": () => show(0, length),
      ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2), ArrowDown: () => change(1), ArrowUp: () => change(-1),
      ".": () => step(1), ",": () => step(-1) };
    if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  svg.setAttribute("tabindex", "0");
  for (const button of figure.querySelectorAll("button")) {
    const actions = { in: () => zoom(0.6, middle()), out: () => zoom(1.6, middle()), all: () => show(0, length),
      interval: () => show(Number(band.dataset.f), Number(band.dataset.t)) };
    button.addEventListener("click", actions[button.dataset.zoom]);
  }
}
