// Follows /stream and draws what it says. No library: an SVG of rectangles is all it takes.
"use strict";

const $ = (id) => document.getElementById(id);
const SHARED = 5;            // authors beyond the fifth share a colour
const MARGIN = { left: 46, right: 14, top: 32, bottom: 44 };
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];

let stream = null;           // the open connection, or null while paused
let picture = null;          // what was drawn last
let paused = false;          // whether the person said so

const time = (second, long) => {
  const text = new Date(second * 1000).toISOString();
  return long ? text.slice(0, 10) + " " + text.slice(11, 19) : text.slice(11, 19);
};
const plural = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;

function element(name, attributes, text) {
  const it = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) it.setAttribute(key, value);
  if (text !== undefined) it.textContent = text;
  return it;
}

function wanted() {
  const query = new URLSearchParams();
  const last = document.querySelector("input[name=last]:checked").value;
  if (last) query.set("last", last);
  if ($("author").value) query.set("author", $("author").value);
  return query;
}

// The address keeps what is shown, so that it can be sent to somebody.
function remember() {
  const query = wanted().toString();
  history.replaceState(null, "", query ? "?" + query : "?last=");
  for (const kind of ["png", "svg", "csv"]) $(kind).href = `/data.${kind}?${query}`;
  $("json").href = `/series.json?${query}`;
}

function recall() {
  const query = new URLSearchParams(location.search);
  const last = document.querySelector(`input[name=last][value="${CSS.escape(query.get("last") ?? "30")}"]`);
  if (last) last.checked = true;
  const author = query.get("author");
  if (author && /^\d+$/.test(author)) {
    $("author").append(new Option(author, author, true, true));
  }
}

function light(kind, text) {
  $("light").className = kind;
  $("light").lastElementChild.textContent = text;
}

function follow() {
  stream?.close();
  stream = null;
  remember();
  if (paused || document.hidden) return light("off", "paused");
  stream = new EventSource("/stream?" + wanted());
  stream.onmessage = (event) => { light("on", "live"); show(JSON.parse(event.data)); };
  stream.addEventListener("failed", (event) => light("bad", event.data));
  stream.onerror = () => light("bad", "the graph does not answer; trying again");
}

function show(next) {
  picture = next;
  numbers(next);
  draw(next.series);
}

function numbers({ series, likes, authors, authors_count, repeated, refused, sources }) {
  $("likes").textContent = likes.toLocaleString("en");
  $("authors").textContent = authors_count.toLocaleString("en");
  $("repeated").textContent = repeated.toLocaleString("en");
  $("refused").textContent = refused.toLocaleString("en");
  $("refusals").hidden = refused === 0;
  $("peak").textContent = Math.max(0, ...totals(series)).toLocaleString("en");
  const chosen = $("author").value;
  const options = authors.map(([id, n]) => new Option(`${id} (${plural(n, "like")})`, id));
  if (chosen && !authors.some(([id]) => String(id) === chosen)) options.push(new Option(chosen, chosen));
  if (document.activeElement !== $("author")) {
    $("author").replaceChildren(new Option("all", ""), ...options);
    $("author").value = chosen;
  }
  if (sources.length) $("sources").replaceChildren(...sources.map(source));
}

function source({ source, likes, seq }) {
  const row = document.createElement("tr");
  row.append(...[source, likes.toLocaleString("en"), seq.toLocaleString("en")].map((text) => {
    const cell = document.createElement("td");
    cell.textContent = text;
    return cell;
  }));
  return row;
}

function totals(series) {
  const sums = new Array(series.stretches).fill(0);
  for (const points of Object.values(series.authors)) points.forEach((n, at) => { sums[at] += n; });
  return sums;
}

// Authors as they are stacked, the most liked at the bottom; many share the last colour.
function shown(series) {
  const sum = (points) => points.reduce((a, b) => a + b, 0);
  const authors = Object.entries(series.authors).sort((a, b) => sum(b[1]) - sum(a[1]) || a[0] - b[0]);
  const own = authors.slice(0, authors.length > SHARED + 1 ? SHARED : SHARED + 1);
  const rest = authors.slice(own.length).map(([, points]) => points);
  const layers = own.map(([id, points], n) => ({ name: `author ${id}`, points, n }));
  if (rest.length) {
    layers.push({ name: "others", n: SHARED, points: rest.reduce((a, b) => a.map((x, at) => x + b[at])) });
  }
  return layers;
}

function every(step) {
  const units = [[86400, "day"], [3600, "hour"], [60, "minute"], [1, "second"]];
  const [length, unit] = units.find(([length]) => step >= length);
  return step === length ? unit : `${step / length} ${unit}s`;
}

function draw(series) {
  const graph = $("graph");
  const { width, height } = graph.getBoundingClientRect();
  const sums = totals(series);
  const first = Date.parse(series.from) / 1000;
  const step = series.step_seconds;
  const last = first + (series.stretches - 1) * step;
  const layers = shown(series);

  $("peak").previousElementSibling.textContent = `Most in ${every(step).replace(/^(second|minute|day)/, "a $1").replace(/^hour/, "an hour")}`;
  $("title").textContent = document.title = `Likes by ${every(step)}`;
  $("subtitle").textContent = series.stretches === 0
    ? "waiting for the first like …"
    : `${plural(series.total, "like")}, ${time(first, true)} to ${time(last, Math.floor(first / 86400) !== Math.floor(last / 86400))} UTC`;
  $("legend").replaceChildren(...(layers.length > 1 ? layers : []).map(({ name, n }) => {
    const item = document.createElement("span");
    const square = document.createElement("i");
    square.className = `c${n}`;
    item.append(square, name);
    return item;
  }));

  const inner = { width: width - MARGIN.left - MARGIN.right, height: height - MARGIN.top - MARGIN.bottom };
  const parts = [];
  const most = Math.max(4, ...sums);
  const rise = [1, 2, 5, 10, 20, 25, 50, 100].find((n) => most / n <= 6) ?? 10 ** Math.floor(Math.log10(most));
  const top = Math.ceil(most / rise) * rise;
  const y = (n) => MARGIN.top + inner.height * (1 - n / top);
  for (let n = 0; n <= top; n += rise) {
    parts.push(element("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: y(n), y2: y(n) }));
    parts.push(element("text", { x: MARGIN.left - 10, y: y(n) + 4, "text-anchor": "end" }, n.toLocaleString("en")));
  }
  parts.push(element("text", { class: "name", x: 14, y: 12 }, "likes"));
  parts.push(element("text", { class: "name", x: MARGIN.left + inner.width / 2, y: height - 4, "text-anchor": "middle" },
    step === 1 ? "second (UTC)" : "time (UTC)"));

  const count = Math.max(series.stretches, 1);
  const wide = inner.width / count;
  const long = last - first > 86400;
  const marks = STEPS.find((n) => n >= step && (count * step) / n <= inner.width / (long ? 130 : 80)) ?? 86400 * Math.ceil(count * step / 86400 / 8);
  for (let at = 0; at < series.stretches; at++) {
    const second = first + at * step;
    const left = MARGIN.left + at * wide;
    if (second % marks === 0) {
      const text = long ? time(second, true).slice(5, 16) : time(second);
      parts.push(element("text", { x: left + wide / 2, y: height - MARGIN.bottom + 18, "text-anchor": "middle" }, text));
    }
    let bottom = 0;
    for (const { points, n } of layers) {
      if (points[at] === 0) continue;
      const box = { x: left + wide * 0.1, width: wide * 0.8, y: y(bottom + points[at]), height: y(bottom) - y(bottom + points[at]) };
      parts.push(element("rect", { class: `c${n}`, rx: Math.min(3, wide / 5), ...box }));
      bottom += points[at];
    }
    if (count <= 40 && sums[at] > 0) {
      parts.push(element("text", { class: "number", x: left + wide / 2, y: y(sums[at]) - 5, "text-anchor": "middle" }, sums[at]));
    }
    const area = element("rect", { class: "hover", x: left, width: wide, y: MARGIN.top, height: inner.height });
    area.addEventListener("mouseenter", () => tip(left + wide / 2, `${time(second, true)} UTC: ${plural(sums[at], "like")}`));
    parts.push(area);
  }
  graph.replaceChildren(...parts);
}

function tip(x, text) {
  $("tip").hidden = false;
  $("tip").textContent = text;
  $("tip").style.left = `${x + 12}px`;
}

recall();
document.querySelectorAll("input[name=last], #author").forEach((input) => input.addEventListener("change", follow));
document.addEventListener("visibilitychange", follow);
addEventListener("resize", () => picture && draw(picture.series));
$("graph").addEventListener("mouseleave", () => { $("tip").hidden = true; });
$("pause").addEventListener("click", () => {
  paused = !paused;
  $("pause").setAttribute("aria-pressed", paused);
  $("pause").textContent = paused ? "Go on" : "Pause";
  follow();
});
follow();
