// ---- moving about

function show(from, to) {
  const span = Math.max(data.span, 1), length = Math.min(Math.max(to - from, 50), span);
  from = Math.min(Math.max(from, 0), span - length);
  Object.assign(view, {from, to: from + length, hovered: null});
  redraw();
}
function zoom(factor, around = (view.from + view.to) / 2) { show(around - (around - view.from) * factor, around + (view.to - around) * factor); }
function showRanks(first, number) {
  view.first = Math.max(0, Math.min(first, ranks.length - 1));
  view.count = Math.max(1, Math.min(number, ranks.length - view.first));
  view.hovered = null;
  layOut();
  redraw();
}

function callAt(row, px, py) {
  if (row.first !== row.last || py >= row.ranges) return null;
  const index = view.order[row.first], rank = ranks[index], split = hasBeside && row.height >= 16 && py > row.y + row.height * 0.66;
  const lane = split ? rank.beside : rank.front, time = timeAt(px), near = (view.to - view.from) / view.width;
  let best = -1;
  for (let i = firstVisible(lane, time - near); i < lane.size && lane.begin[i] <= time + near; ++i) {
    if (lane.end[i] >= time - near && (best < 0 || lane.begin[i] <= time)) best = i;
  }
  return best < 0 ? null : {lane, i: best, index};
}
function rangeAt(row, px, py) {
  const profile = row.first === row.last ? rankAt(row.first).profile : null;
  if (!profile || py < row.ranges) return "";
  const lane = Math.floor((py - row.ranges) / laneHeight), time = timeAt(px), flat = profile.ranges;
  for (let i = 0; i < flat.length; i += 4) {
    if (flat[i + 3] === lane && flat[i + 1] <= time && time <= flat[i + 1] + flat[i + 2])
      return `${profile.names[flat[i]]}\n${profile.lanes[lane]}, rank ${rankAt(row.first).name}\n${timeText(flat[i + 2])}`;
  }
  return "";
}
function describe(call) {
  const {lane, i, index} = call, [name, group, dtype, bytes, place, peer] = data.kinds[lane.kind[i]];
  const lines = [`rank ${ranks[index].name}: ${name}${lane.sequence[i] ? " #" + lane.sequence[i] : ""}${group ? " of " + group : ""}`];
  if ((lane.flags[i] & 3) === programWaits) lines[0] = `rank ${ranks[index].name}: waits for an asynchronous call`;
  else lines.push(bytesText(bytes) + " of " + dtype + (peer >= 0 ? ", root or peer: rank " + nameOf(peer) : ""));
  lines.push(`from ${timeText(lane.begin[i])}, ${timeText(lane.end[i] - lane.begin[i])}`);
  if (lane.waited[i] > 0) lines.push(`waited ${timeText(lane.waited[i])}${lane.other[i] >= 0 ? " for rank " + nameOf(lane.other[i]) : ""}`);
  if (place) lines.push(place);
  if (lane.flags[i] & notOver) lines.push("never ended");
  if (lane.flags[i] & failed) lines.push("failed");
  return lines.join("\n");
}
function stepText(px) {
  for (const column of [px, px - 1, px + 1].map(Math.floor)) {
    const i = view.late ? view.late.get(column) : undefined;
    if (i !== undefined) return `rank ${nameOf(data.steps[i + 1])} came last, ${timeText(data.steps[i + 2])} after the first`;
  }
  return "";
}
function togetherText(row, px) {
  const column = Math.floor(px - left), most = row.last - row.first + 1;
  return `${count(most)} ranks at ${timeText(timeAt(px))}: ${memberNames(row)}\n` +
    `${share(row.waits[column], most)} wait, ${share(row.moves[column], most)} move data`;
}

function point(event) {
  const box = canvas.getBoundingClientRect(), px = event.clientX - box.left, py = event.clientY - box.top;
  const row = view.rows.find((each) => py >= each.y && py < each.y + each.total);
  const call = px >= left && row ? callAt(row, px, py) : null;
  let text = "";
  if (call) text = describe(call);
  else if (px >= left && py >= axis && py < axis + strip) text = stepText(px);
  else if (px >= left && row) text = row.first === row.last ? rangeAt(row, px, py) : togetherText(row, px);
  const before = view.hovered;
  view.hovered = call;
  tip.textContent = text;
  tip.style.display = text ? "block" : "none";
  tip.style.left = Math.min(px + 14, Math.max(0, view.width - tip.offsetWidth - 4)) + "px";
  tip.style.top = Math.max(0, Math.min(py + 14, view.height - tip.offsetHeight - 4)) + "px";
  if (!before !== !call || (call && before && (before.i !== call.i || before.lane !== call.lane))) redraw();
  return {px, row};
}

let drag = null;
canvas.addEventListener("pointerdown", (event) => {
  drag = {at: event.clientX, from: view.from, to: view.to, moved: false};
  canvas.setPointerCapture(event.pointerId);
});
canvas.addEventListener("pointermove", (event) => {
  if (!drag) return point(event);
  const shift = (event.clientX - drag.at) / (view.width - left) * (drag.to - drag.from);
  drag.moved = drag.moved || Math.abs(event.clientX - drag.at) > 3;
  if (drag.moved) show(drag.from - shift, drag.to - shift);
});
canvas.addEventListener("pointerup", (event) => {
  const {row} = point(event);
  if (drag && !drag.moved && row && row.first !== row.last) showRanks(row.first, row.last - row.first + 1);
  drag = null;
});
canvas.addEventListener("pointerleave", () => { tip.style.display = "none"; });
canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  const px = event.clientX - canvas.getBoundingClientRect().left;
  if (event.shiftKey) showRanks(view.first + Math.sign(event.deltaY || event.deltaX), view.count);
  else zoom(Math.pow(1.0015, event.deltaY), timeAt(Math.max(px, left)));
}, {passive: false});
canvas.addEventListener("keydown", (event) => {
  const step = (view.to - view.from) / 8;
  const keys = {ArrowLeft: () => show(view.from - step, view.to - step), ArrowRight: () => show(view.from + step, view.to + step),
    ArrowUp: () => showRanks(view.first - 1, view.count), ArrowDown: () => showRanks(Math.min(view.first + 1, ranks.length - view.count), view.count),
    "+": () => zoom(0.5), "-": () => zoom(2), 0: () => show(0, data.span)};
  if (!keys[event.key]) return;
  event.preventDefault();
  keys[event.key]();
});
element("all").addEventListener("click", () => show(0, data.span));
element("in").addEventListener("click", () => zoom(0.5));
element("out").addEventListener("click", () => zoom(2));
element("ranks").addEventListener("click", () => showRanks(0, ranks.length));
function sortRanks(byWaiting) {
  order(byWaiting);
  element("sort").textContent = byWaiting ? "Sort by rank" : "Sort by waiting";
}
element("sort").addEventListener("click", () => {
  sortRanks(!view.byWaiting);
  showRanks(0, ranks.length);
});
window.addEventListener("resize", () => showRanks(view.first, view.count));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  readColors();
  redraw();
});
