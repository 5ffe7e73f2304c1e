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
const view = {from: 0, to: Math.max(data.span, 1), first: 0, count: ranks.length, order: [], placeOf: [], byWaiting: false, rows: [], width: 0, height: 0,
  hovered: null};
let colors = {};
function readColors() {
  const style = getComputedStyle(root);
  for (const name of ["back", "panel", "line", "text", "faint", "computing", "waiting", "moving", "beside", "range", "arrow", "marked"])
    colors[name] = style.getPropertyValue("--" + name).trim();
}
const rankColor = (rank) => `hsl(${(rank * 137.5) % 360} 65% 52%)`;
const x = (time) => left + (time - view.from) / (view.to - view.from) * (view.width - left);
const timeAt = (px) => view.from + (px - left) / (view.width - left) * (view.to - view.from);

const waitingOf = (rank) => rank.waiting / Math.max(rank.to - rank.from, 1);
/** The rank at a place of the order in which the rows have the ranks. */
const rankAt = (place) => ranks[view.order[place]];
/** Orders the ranks by their numbers, or those first that wait least: for them the others wait. */
function order(byWaiting) {
  view.byWaiting = byWaiting;
  view.order = ranks.map((_, index) => index);
  if (byWaiting) view.order.sort((a, b) => waitingOf(ranks[a]) - waitingOf(ranks[b]) || a - b);
  view.placeOf = new Int32Array(ranks.length);
  view.order.forEach((index, place) => { view.placeOf[index] = place; });
}
/** The first places of rows with alike ranks: their parts of waiting differ by `width` at most. */
function alike(width) {
  const firsts = [];
  for (let place = view.first, least = -Infinity; place < view.first + view.count; ++place) {
    const waiting = waitingOf(rankAt(place));
    if (waiting - least <= width) continue;
    firsts.push(place);
    least = waiting;
  }
  return firsts;
}
/** The first places of rows with equally many ranks. */
function chunks(most) {
  const each = Math.ceil(view.count / most);
  return Array.from({length: Math.ceil(view.count / each)}, (_, i) => view.first + i * each);
}
/** The first places of `most` rows at most. By waiting, a row has alike ranks: as alike as so many rows allow, and where all ranks are shown those
    whose waiting differs by half a percent of their time, however few rows that gives. */
function fold(most) {
  if (!view.byWaiting) return chunks(most);
  const isAll = view.count === ranks.length;
  let low = isAll ? 0.005 : 0, high = 1;
  if (alike(low).length <= most) high = low;
  for (let i = 0; i < 30 && high > low; ++i) {
    const middle = (low + high) / 2;
    if (alike(middle).length <= most) high = middle;
    else low = middle;
  }
  const firsts = alike(high);
  return firsts.length === 1 && !isAll ? chunks(most) : firsts;
}
const room = () => Math.max(220, Math.min(window.innerHeight * 0.7, 900)) - axis - strip;
const mostRows = () => Math.max(1, Math.floor(room() / lowest));
/** Gives each rank a row; where they have no room, alike ranks have one together. */
function layOut() {
  const most = mostRows(), end = view.first + view.count;
  const firsts = view.count <= most ? Array.from({length: view.count}, (_, i) => view.first + i) : fold(most);
  const height = Math.max(lowest, Math.min(38, Math.floor(room() / firsts.length)));
  view.rows = [];
  let y = axis + strip;
  firsts.forEach((first, i) => {
    const last = (i + 1 < firsts.length ? firsts[i + 1] : end) - 1;
    const lanes = first === last && rankAt(first).profile ? rankAt(first).profile.lanes.length : 0;
    view.rows.push({first, last, y, height, ranges: y + height, total: height + lanes * laneHeight});
    y += height + lanes * laneHeight;
  });
  view.height = y + 2;
  const scale = window.devicePixelRatio || 1;
  view.width = canvas.parentElement.clientWidth;
  canvas.style.height = view.height + "px";
  canvas.width = Math.round(view.width * scale);
  canvas.height = Math.round(view.height * scale);
  pen.setTransform(scale, 0, 0, scale, 0, 0);
}
const rowOf = (index) => view.rows.find((row) => row.first <= view.placeOf[index] && view.placeOf[index] <= row.last);
/** The numbers of a row's ranks: "3", "4 – 20" where they follow each other, otherwise how many there are. */
function rowName(row) {
  if (row.first === row.last) return "rank " + rankAt(row.first).name;
  const members = view.order.slice(row.first, row.last + 1).sort((a, b) => a - b), number = members.length;
  if (members[number - 1] - members[0] === number - 1) return `${ranks[members[0]].name} – ${ranks[members[number - 1]].name}`;
  return count(number) + " ranks";
}
/** The names of a row's ranks, the first ones of many. */
function memberNames(row) {
  const most = 12, names = view.order.slice(row.first, row.last + 1).sort((a, b) => a - b).map((index) => ranks[index].name);
  return names.slice(0, most).join(", ") + (names.length > most ? ", …" : "");
}
