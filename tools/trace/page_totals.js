// ---- totals

function table(head, rows) {
  const made = document.createElement("table");
  const add = (cells, kind) => {
    const line = made.insertRow();
    for (const cell of cells) {
      const box = document.createElement(kind);
      box.append(cell);
      line.append(box);
    }
  };
  add(head, "th");
  for (const row of rows) add(row, "td");
  return made;
}
function shares(rank) {
  const bar = document.createElement("div");
  bar.className = "shares";
  for (const name of ["computing", "waiting", "moving"]) {
    const part = document.createElement("div");
    part.style.background = `var(--${name})`;
    part.style.flexGrow = rank[name];
    bar.append(part);
  }
  return bar;
}
function rankTable(most) {
  const chosen = ranks.length <= most ? ranks.slice() : ranks.slice().sort((a, b) => b.caused - a.caused).slice(0, most);
  const rows = chosen.map((rank) => {
    const span = rank.to - rank.from;
    return ["rank " + rank.name, rank.host, rank.state, shares(rank), share(rank.computing, span), share(rank.waiting, span), share(rank.moving, span),
      timeText(rank.caused), count(rank.last), count(rank.calls), bytesText(rank.bytes)];
  });
  const made = table(["", "host", "end", "time", "computing", "waiting", "moving", "others waited", "came last", "calls", "bytes"], rows);
  element("rank_table").replaceChildren(made);
  if (ranks.length <= most) return;
  const button = document.createElement("button");
  button.textContent = `These are the ${most} ranks for which the others waited longest: show all ${count(ranks.length)}`;
  button.addEventListener("click", () => rankTable(Infinity));
  element("rank_table").append(button);
}
function facts() {
  const add = (text, kind) => {
    const line = document.createElement("p");
    line.textContent = text;
    if (kind) line.className = kind;
    element("facts").append(line);
  };
  element("title").textContent = document.title = `${data.program || "job"} · ${data.size} rank${data.size === 1 ? "" : "s"}`;
  const calls = ranks.reduce((sum, rank) => sum + rank.calls, 0);
  add(`job ${data.job}, ${new Date(data.began).toISOString().replace("T", " ").replace(/\.\d+Z/, " UTC")}, ${timeText(data.span)}, ${count(calls)} calls`);
  for (const text of data.verdict) add(text[0].toUpperCase() + text.slice(1) + ".");
  if (data.missing > 0) add(`The traces of ${data.missing} ranks are missing.`, "faint");
  for (const text of [data.came, data.lost, ...data.clocks].filter(Boolean)) add(text[0].toUpperCase() + text.slice(1) + ".", "faint");
  if (data.left_out > 0) add(`${count(data.left_out)} calls below ${timeText(data.shortest)} are left out of the timeline; the totals have all.`, "faint");
  for (const rank of ranks.filter((each) => each.failure).slice(0, 5)) add(`Rank ${rank.name} failed: ${rank.failure}`);
}

// ---- the beginning

readColors();
facts();
rankTable(20);
element("operation_table").replaceChildren(table(["", "calls", "bytes", "time", "waiting", "moving"],
  data.operations.map(([name, calls, bytes, time, waiting]) =>
    [name, count(calls), bytesText(bytes), timeText(time), timeText(waiting), timeText(Math.max(0, time - waiting))])));
element("has_ranges").hidden = !ranks.some((rank) => rank.profile);
// An address may name a part: #from,to in milliseconds, and the first rank and how many.
const asked = location.hash.slice(1).split(",").map(Number);
const namesRanks = asked.length === 4 && asked.every(Number.isFinite);
sortRanks(!namesRanks && ranks.length > mostRows());
if (namesRanks) {
  view.first = Math.min(asked[2], ranks.length - 1);
  view.count = Math.max(1, Math.min(asked[3], ranks.length - view.first));
}
layOut();
if (asked.length >= 2 && asked.every(Number.isFinite)) show(asked[0] * 1e6, asked[1] * 1e6);
draw();
