// A learning curve as inline SVG: axes with round ticks, one line for each name, log where that helps.
"use strict";

const PLOT = { width: 340, height: 216, left: 46, right: 16, top: 26, bottom: 36 }; // [px]

function drawn(name, attributes, text = "") {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const key in attributes) element.setAttribute(key, attributes[key]);
  element.textContent = text;
  return element;
}

// about `count` round numbers, 1, 2 or 5 times a power of ten apart, within [low, high]
function round_ticks(low, high, count) {
  const goal = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(goal));
  const step = power * [1, 2, 5, 10].find((k) => k * power >= goal * 0.999);
  const first = Math.ceil(low / step - 1e-9);
  const ticks = [];
  for (let i = first; i * step <= high + 1e-9 * step; i++) ticks.push(+(i * step).toPrecision(12));
  return ticks;
}

// from [low, high] to pixels [from, to]; log or not
function axis(low, high, from, to, log) {
  const way = log ? Math.log10 : (v) => v;
  const [a, b] = [way(low), way(high)];
  const place = (v) => from + ((way(v) - a) / (b - a)) * (to - from);
  if (!log) return { place, ticks: round_ticks(a, b, 4) };
  const every = Math.ceil((b - a) / 6);
  const ticks = [];
  for (let k = every * Math.ceil(a / every); k <= b; k += every) ticks.push(Number(`1e${k}`));
  return { place, ticks };
}

function value_axis(values) {
  const finite = values.filter((v) => v !== null);
  let low = finite.length ? finite.reduce((a, b) => Math.min(a, b)) : 0;
  let high = finite.length ? finite.reduce((a, b) => Math.max(a, b)) : 1;
  const log = low > 0 && high / low > 100;
  const room = low === high ? Math.abs(low) / 2 || 1 : 0.04 * (high - low);
  [low, high] = log ? [low / 1.3, high * 1.3] : [low - room, high + room];
  return axis(low, high, PLOT.height - PLOT.bottom, PLOT.top, log);
}

// SVG path data; a missing value lifts the pen, and a value on its own is a dot
function pen_path(values, x, y) {
  let down = false;
  return values.map((v, i) => {
    if (v === null) { down = false; return ""; }
    const at = `${x.place(i + 1).toFixed(1)},${y.place(v).toFixed(1)}`;
    const stroke = down ? `L${at}` : `M${at}h0`;
    down = true;
    return stroke;
  }).join("");
}

function label(v) {
  const long = v !== 0 && (Math.abs(v) >= 1e5 || Math.abs(v) < 1e-3);
  return long ? v.toExponential().replace("e+", "e") : `${v}`;
}

function add_axes(svg, curve, x, y) {
  const { left, bottom, height, width, right } = PLOT;
  const right_end = width - right;
  const grey = { fill: "#57606a" };
  for (const v of y.ticks) {
    svg.append(drawn("line", { x1: left, x2: right_end, y1: y.place(v), y2: y.place(v), stroke: "#e3e7ec" }));
    svg.append(drawn("text", { ...grey, x: left - 6, y: y.place(v) + 4, "text-anchor": "end" }, label(v)));
  }
  for (const v of x.ticks.filter(Number.isInteger)) {
    svg.append(drawn("text", { ...grey, x: x.place(v), y: height - bottom + 15, "text-anchor": "middle" }, label(v)));
  }
  const corner = `M${left},${PLOT.top}V${height - bottom}H${right_end}`;
  svg.append(drawn("path", { d: corner, stroke: "#24292f", fill: "none" }));
  const middle = (left + right_end) / 2;
  svg.append(drawn("text", { ...grey, x: middle, y: height - 4, "text-anchor": "middle" }, curve.x));
  svg.append(drawn("text", { x: 0, y: 12, fill: "#24292f", "font-size": 13, "font-weight": 600 }, curve.y));
}

function add_legend(svg, lines) {
  let at = PLOT.width - PLOT.right;
  for (const line of [...lines].reverse()) {
    const name = drawn("text", { x: at, y: 12, "text-anchor": "end", fill: line.colour }, line.name);
    svg.append(name);
    at -= name.getComputedTextLength() + 12;
  }
}

// fill `panel` with the curve
function plot_curve(panel, curve) {
  const svg = drawn("svg", { viewBox: `0 0 ${PLOT.width} ${PLOT.height}`, role: "img" });
  panel.append(svg); // first, so that texts can be measured
  const longest = Math.max(...curve.lines.map((line) => line.values.length));
  const x = axis(1, Math.max(longest, 2), PLOT.left, PLOT.width - PLOT.right, false);
  const y = value_axis(curve.lines.flatMap((line) => line.values));
  add_axes(svg, curve, x, y);
  const stroke = { "stroke-width": 1.8, fill: "none", "stroke-linejoin": "round", "stroke-linecap": "round" };
  for (const line of curve.lines) {
    svg.append(drawn("path", { ...stroke, d: pen_path(line.values, x, y), stroke: line.colour }));
  }
  add_legend(svg, curve.lines);
}
