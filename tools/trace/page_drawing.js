// ---- drawing

/** What part of each column of pixels is covered. */
class Coverage {
  constructor(columns) {
    this.parts = new Float64Array(columns + 2);
    this.steps = new Float64Array(columns + 2);
    this.columns = columns;
  }
  add(from, to) {
    from = Math.max(from - left, 0);
    to = Math.min(to - left, this.columns);
    if (to <= from) return;
    const i = Math.floor(from), j = Math.floor(to);
    if (i === j) {
      this.parts[i] += to - from;
      return;
    }
    this.parts[i] += i + 1 - from;
    this.parts[j] += to - j;
    this.steps[i + 1] += 1;
    this.steps[j] -= 1;
  }
  values() {
    for (let i = 0, sum = 0; i < this.columns; ++i) {
      sum += this.steps[i];
      this.parts[i] += sum;
    }
    return this.parts;
  }
}

function drawColumns(values, below, most, y, height, color) {
  pen.fillStyle = color;
  for (let i = 0; i < values.length - 2; ++i) {
    if (values[i] <= 0) continue;
    const tall = Math.min(1, values[i] / most) * height, under = below ? Math.min(1, below[i] / most) * height : 0;
    pen.fillRect(left + i, y + height - Math.min(height, under + tall), 1, Math.max(tall, 0.5));
  }
}

function drawLane(lane, y, height, movingColor, arrows, index) {
  const columns = Math.max(1, Math.ceil(view.width - left));
  const waits = new Coverage(columns), moves = new Coverage(columns);
  for (let i = firstVisible(lane, view.from); i < lane.size && lane.begin[i] <= view.to; ++i) {
    if (lane.end[i] < view.from) continue;
    const begin = x(lane.begin[i]), came = x(lane.begin[i] + lane.waited[i]), end = x(lane.end[i]);
    if (end - begin < 2) {
      waits.add(begin, came);
      moves.add(came, end);
      continue;
    }
    const from = Math.max(begin, left);
    pen.fillStyle = movingColor;
    pen.fillRect(from, y, Math.max(end - from, 1), height);
    pen.fillStyle = colors.waiting;
    if (came > from) pen.fillRect(from, y, came - from, height);
    if (lane.flags[i] & (notOver | failed)) {
      pen.fillStyle = colors.marked;
      pen.fillRect(Math.min(end, view.width) - 3, y, 3, height);
    }
    if (end - from > 60 && height >= 12) label(data.kinds[lane.kind[i]][0], from + 3, y + height / 2, Math.min(end, view.width) - from - 6, "#fff");
    if (arrows && came - begin >= 6 && lane.other[i] >= 0) arrows.push({lane, i, index, waited: lane.waited[i]});
  }
  const waited = waits.values();
  drawColumns(waited, null, 1, y, height, colors.waiting);
  drawColumns(moves.values(), waited, 1, y, height, movingColor);
}

function drawTogether(row) {
  const columns = Math.max(1, Math.ceil(view.width - left));
  const waits = new Coverage(columns), moves = new Coverage(columns), lives = new Coverage(columns);
  for (let place = row.first; place <= row.last; ++place) {
    const rank = rankAt(place), lane = rank.front;
    lives.add(x(rank.from), x(rank.to));
    for (let i = firstVisible(lane, view.from); i < lane.size && lane.begin[i] <= view.to; ++i) {
      const came = x(lane.begin[i] + lane.waited[i]);
      waits.add(x(lane.begin[i]), came);
      moves.add(came, x(lane.end[i]));
    }
  }
  const most = row.last - row.first + 1, height = row.height - 1;
  row.waits = waits.values();
  row.moves = moves.values();
  drawColumns(lives.values(), null, most, row.y, height, colors.computing);
  drawColumns(row.waits, null, most, row.y, height, colors.waiting);
  drawColumns(row.moves, row.waits, most, row.y, height, colors.moving);
}

function label(text, px, py, width, color) {
  pen.fillStyle = color;
  if (pen.measureText(text).width <= width) pen.fillText(text, px, py);
}

function drawRow(row, arrows) {
  if (row.first !== row.last) return drawTogether(row);
  const rank = rankAt(row.first), index = view.order[row.first], height = row.height - (row.height > 6 ? 2 : 1);
  const from = Math.max(x(rank.from), left), to = Math.min(x(rank.to), view.width);
  pen.fillStyle = colors.computing;
  if (to > from) pen.fillRect(from, row.y, to - from, height);
  const tall = hasBeside && height >= 14 ? Math.round(height * 0.66) : height;
  drawLane(rank.front, row.y, tall, colors.moving, arrows, index);
  if (tall < height) drawLane(rank.beside, row.y + tall + 1, height - tall - 1, colors.beside, arrows, index);
  if (rank.profile) drawRanges(rank.profile, row.ranges);
}

function drawRanges(profile, y) {
  const flat = profile.ranges;
  for (let i = 0; i < flat.length; i += 4) {
    const begin = x(flat[i + 1]), end = x(flat[i + 1] + flat[i + 2]);
    if (end < left || begin > view.width || end - begin < 0.3) continue;
    const from = Math.max(begin, left), top = y + flat[i + 3] * laneHeight;
    pen.fillStyle = colors.range;
    pen.globalAlpha = 0.55 + 0.35 * (flat[i] % 2);
    pen.fillRect(from, top, Math.max(Math.min(end, view.width) - from, 0.5), laneHeight - 1);
    pen.globalAlpha = 1;
    if (end - from > 50) label(profile.names[flat[i]], from + 2, top + laneHeight / 2, Math.min(end, view.width) - from - 4, "#000");
  }
}

/** Ticks of 1, 2 or 5 times a power of ten. */
function drawAxis() {
  const rough = (view.to - view.from) / Math.max(2, (view.width - left) / 110);
  const power = Math.pow(10, Math.floor(Math.log10(rough)));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough);
  pen.fillStyle = colors.faint;
  pen.strokeStyle = colors.line;
  for (let time = Math.ceil(view.from / step) * step; time <= view.to; time += step) {
    const px = Math.round(x(time)) + 0.5;
    pen.beginPath();
    pen.moveTo(px, axis - 5);
    pen.lineTo(px, view.height);
    pen.stroke();
    pen.fillText(timeText(time), px + 3, axis / 2);
  }
}

/** For each column of pixels the rank that came latest of all. */
function drawSteps() {
  const late = new Map();
  for (let i = 0; i < data.steps.length; i += 3) {
    const column = Math.floor(x(data.steps[i]));
    if (column < left || column >= view.width || data.steps[i + 2] === 0) continue;
    const known = late.get(column);
    if (known === undefined || data.steps[known + 2] < data.steps[i + 2]) late.set(column, i);
  }
  for (const [column, i] of late) {
    pen.fillStyle = rankColor(data.steps[i + 1]);
    pen.fillRect(column, axis + 1, 2, strip - 4);
  }
  view.late = late;
}

function drawArrow(arrow, color, width) {
  const to = rowOf(arrow.index), other = indexOf.get(arrow.lane.other[arrow.i]);
  const from = other === undefined ? undefined : rowOf(other);
  if (!to || !from || from === to) return false;
  const px = x(arrow.lane.begin[arrow.i] + arrow.lane.waited[arrow.i]);
  if (px < left || px > view.width) return false;
  const begin = from.y + from.height / 2, end = to.y + (to.y < from.y ? to.height - 3 : 1);
  pen.strokeStyle = pen.fillStyle = color;
  pen.lineWidth = width;
  pen.beginPath();
  pen.moveTo(px, begin);
  pen.lineTo(px, end);
  pen.stroke();
  const back = end > begin ? -5 : 5;
  pen.beginPath();
  pen.moveTo(px, end);
  pen.lineTo(px - 3, end + back);
  pen.lineTo(px + 3, end + back);
  pen.fill();
  pen.lineWidth = 1;
  return true;
}
function draw() {
  pen.font = "11px system-ui, sans-serif";
  pen.textBaseline = "middle";
  pen.fillStyle = colors.back;
  pen.fillRect(0, 0, view.width, view.height);
  drawAxis();
  drawSteps();
  let arrows = [];
  for (const row of view.rows) drawRow(row, arrows);
  arrows.sort((a, b) => b.waited - a.waited);
  arrows = arrows.slice(0, 300);
  pen.globalAlpha = 0.6;
  let drawn = 0;
  for (const arrow of arrows) drawn += drawArrow(arrow, colors.arrow, 1) ? 1 : 0;
  pen.globalAlpha = 1;
  if (view.hovered) drawArrow(view.hovered, colors.marked, 2);
  drawNames();
  root.dataset.rows = view.rows.length;
  root.dataset.names = view.rows.map(rowName).join("|");
  root.dataset.places = view.rows.map((row) => `${row.y},${row.height}`).join("|");
  root.dataset.arrows = drawn;
  root.dataset.ready = "yes";
}

function drawNames() {
  pen.fillStyle = colors.back;
  pen.fillRect(0, 0, left - 1, view.height);
  label("last to come", 4, axis + strip / 2 - 1, left - 6, colors.faint);
  let free = 0;
  for (const row of view.rows) {
    const middle = row.y + row.height / 2;
    if (middle < free) continue;
    free = middle + 11;
    label(rowName(row), 4, middle, left - 6, colors.text);
  }
}

let isAsked = false;
function redraw() {
  if (isAsked) return;
  isAsked = true;
  requestAnimationFrame(() => {
    isAsked = false;
    draw();
  });
}
