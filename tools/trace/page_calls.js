// The data of the page, and where things lie in its timeline.
"use strict";
const root = document.documentElement;
window.addEventListener("error", (event) => { root.dataset.error = event.message; });
const data = JSON.parse(document.getElementById("data").textContent);
const element = (id) => document.getElementById(id);

// ---- texts

const units = [["s", 1e9], ["ms", 1e6], ["µs", 1e3], ["ns", 1]];
const timeText = (ns) => {
  const [unit, size] = units.find(([, each]) => Math.abs(ns) >= each) || units[3];
  const value = ns / size;
  return (size === 1 ? value.toFixed(0) : value.toFixed(value >= 100 ? 1 : 2)) + " " + unit;
};
const bytesText = (bytes) => {
  const names = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let i = 0;
  for (; bytes >= 1024 && i + 1 < names.length; ++i) bytes /= 1024;
  return (i === 0 ? bytes : bytes.toFixed(1)) + " " + names[i];
};
const share = (part, whole) => whole > 0 ? (100 * part / whole).toFixed(1) + " %" : "";
const count = (number) => number.toLocaleString("en");

// ---- the calls

const [front, beside, programWaits] = [0, 1, 2];
const notOver = 4, failed = 8;

/** A rank's calls of one kind of row, by their beginnings. `latest` is the last end up to each of them. */
function laneOf(flat, wanted) {
  const found = [];
  let begin = 0;
  for (let i = 0; i < flat.length; i += 7) {
    begin += flat[i + 1];
    if (wanted(flat[i + 6] & 3)) found.push([begin, i]);
  }
  found.sort((a, b) => a[0] - b[0]);
  const lane = {size: found.length, begin: new Float64Array(found.length), end: new Float64Array(found.length), waited: new Float64Array(found.length),
    latest: new Float64Array(found.length), kind: new Int32Array(found.length), other: new Int32Array(found.length),
    sequence: new Float64Array(found.length), flags: new Uint8Array(found.length)};
  let latest = 0;
  found.forEach(([time, i], at) => {
    lane.kind[at] = flat[i];
    lane.begin[at] = time;
    lane.end[at] = time + flat[i + 2];
    lane.waited[at] = flat[i + 3];
    lane.other[at] = flat[i + 4];
    lane.sequence[at] = flat[i + 5];
    lane.flags[at] = flat[i + 6];
    lane.latest[at] = latest = Math.max(latest, lane.end[at]);
  });
  return lane;
}
/** The first call that ends behind a moment, and may be seen. */
function firstVisible(lane, from) {
  let low = 0, high = lane.size;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (lane.latest[middle] < from) low = middle + 1;
    else high = middle;
  }
  return low;
}
const ranks = data.ranks.map((rank, index) => {
  const calls = {front: laneOf(rank.c, (row) => row !== beside), beside: laneOf(rank.c, (row) => row === beside), profile: data.profiles[index]};
  delete rank.c;
  return Object.assign(rank, calls);
});
const indexOf = new Map(ranks.map((rank, index) => [rank.rank, index]));
/** A process that came in the place of another one has a name that is not its number. */
const nameOf = (number) => indexOf.has(number) ? ranks[indexOf.get(number)].name : number;
const hasBeside = ranks.some((rank) => rank.beside.size > 0);

// ---- the view

const canvas = element("timeline"), tip = element("tip"), pen = canvas.getContext("2d");
const left = 84, axis = 22, strip = 20, lowest = 9, laneHeight = 9;
const view = {from: 0, to: Math.max(data.span, 1), first: 0, count: ranks.length, rows: [], width: 0, height: 0, hovered: null};
let colors = {};
function readColors() {
  const style = getComputedStyle(root);
  for (const name of ["back", "panel", "line", "text", "faint", "computing", "waiting", "moving", "beside", "range", "arrow", "marked"])
    colors[name] = style.getPropertyValue("--" + name).trim();
}
const rankColor = (rank) => `hsl(${(rank * 137.5) % 360} 65% 52%)`;
const x = (time) => left + (time - view.from) / (view.to - view.from) * (view.width - left);
const timeAt = (px) => view.from + (px - left) / (view.width - left) * (view.to - view.from);

/** Gives each rank a row, or several ranks one, so that all have room. */
function layOut() {
  const room = Math.max(220, Math.min(window.innerHeight * 0.7, 900)) - axis - strip;
  const most = Math.max(1, Math.floor(room / lowest));
  const each = Math.ceil(view.count / most);
  const rows = Math.ceil(view.count / each);
  const height = each > 1 ? Math.floor(room / rows) : Math.max(lowest, Math.min(38, Math.floor(room / rows)));
  view.rows = [];
  let y = axis + strip;
  for (let first = view.first; first < view.first + view.count; first += each) {
    const last = Math.min(first + each, view.first + view.count) - 1;
    const lanes = each === 1 && ranks[first].profile ? ranks[first].profile.lanes.length : 0;
    view.rows.push({first, last, y, height, ranges: y + height, total: height + lanes * laneHeight});
    y += height + lanes * laneHeight;
  }
  view.height = y + 2;
  const scale = window.devicePixelRatio || 1;
  view.width = canvas.parentElement.clientWidth;
  canvas.style.height = view.height + "px";
  canvas.width = Math.round(view.width * scale);
  canvas.height = Math.round(view.height * scale);
  pen.setTransform(scale, 0, 0, scale, 0, 0);
}
const rowOf = (index) => view.rows.find((row) => row.first <= index && index <= row.last);
