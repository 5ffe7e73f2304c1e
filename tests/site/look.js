// Runs in the browser: shows each page in a frame of each width and says what does not hold. browser_test.py writes the list of pages in front of it.
const frame = document.createElement("iframe");
frame.style.cssText = "border:0;height:900px";
document.body.append(frame);
const wrong = [];
let measured = 0;

function shown(address) {
  return new Promise((resolve) => {
    frame.onload = () => requestAnimationFrame(() => resolve(frame.contentWindow));
    frame.src = address;
  });
}

// Code that does not fit has a scroll bar of its own, and nothing else is cut off by the block around it.
function checkCode(page, width, view) {
  for (const block of view.document.querySelectorAll("pre")) {
    const style = view.getComputedStyle(block);
    measured += 1;
    if (block.scrollWidth > block.clientWidth + 1 && !["auto", "scroll"].includes(style.overflowX))
      wrong.push(`${page} at ${width}: code is cut off: ${block.textContent.slice(0, 40)}`);
    for (let around = block.parentElement; around && around.tagName !== "ARTICLE"; around = around.parentElement)
      if (around.clientWidth > 0 && block.offsetWidth > around.clientWidth + 1 && view.getComputedStyle(around).overflowX === "hidden")
        wrong.push(`${page} at ${width}: code is wider than what is around it: ${block.textContent.slice(0, 40)}`);
  }
}

function hasScrollBar(element, view) {
  for (let around = element; around && around.tagName !== "ARTICLE"; around = around.parentElement)
    if (["auto", "scroll"].includes(view.getComputedStyle(around).overflowX)) return true;
  return false;
}

// Nothing of a page is wider than the window: neither does the page scroll sideways, nor is anything cut off at its edge.
function checkWidth(page, width, view) {
  const root = view.document.documentElement;
  const most = Math.max(root.scrollWidth, view.document.body.scrollWidth);
  if (view.innerWidth !== width) wrong.push(`${page}: the frame is ${view.innerWidth} wide in place of ${width}`);
  if (most > root.clientWidth) wrong.push(`${page} at ${width}: it scrolls sideways, ${most} wide`);
  const wide = [...view.document.querySelectorAll("article *")].filter((each) => each.getBoundingClientRect().right > root.clientWidth + 1 && !hasScrollBar(each, view));
  if (wide.length > 0) wrong.push(`${page} at ${width}: ${wide.length} elements are wider than the page, ${wide[0].outerHTML.slice(0, 80)} first`);
}

function checkResources(page, view) {
  for (const entry of view.performance.getEntriesByType("resource"))
    if (new URL(entry.name).origin !== location.origin) wrong.push(`${page}: loads ${entry.name}`);
}

function brightness(view, element) {
  const [red, green, blue] = view.getComputedStyle(element).backgroundColor.match(/\d+/g).map(Number);
  return (red + green + blue) / 3;
}

async function until(holds) {
  for (let i = 0; i < 400 && !holds(); ++i) await new Promise((resolve) => setTimeout(resolve, 50));
  return holds();
}

// What a reader does beside reading: searches, changes the colours and the version.
async function checkTools(base) {
  frame.style.width = "1440px";
  let view = await shown(`${base}search.html?q=all_reduce`);
  const hits = () => view.document.querySelectorAll("#search-results .search li").length;
  if (!(await until(() => hits() > 3))) wrong.push(`the search for all_reduce finds ${hits()} pages`);
  view = await shown(`${base}index.html`);
  const versions = [...view.document.querySelectorAll("#versions option")].map((each) => each.value);
  if (JSON.stringify(versions) !== JSON.stringify(siteVersions)) wrong.push(`the selector offers ${versions}`);
  for (const [theme, isRight] of [["light", (value) => value > 200], ["dark", (value) => value < 60]]) {
    view.document.body.dataset.theme = theme;
    const found = brightness(view, view.document.body);
    if (!isRight(found)) wrong.push(`the background is ${found} bright in the theme ${theme}`);
  }
  const button = view.document.querySelector(".content-icon-container .theme-toggle, .theme-toggle");
  if (!button) return wrong.push("there is no button for the dark mode");
  view.document.body.dataset.theme = "auto";
  button.click();
  if (view.document.body.dataset.theme === "auto") wrong.push("the button for the dark mode does nothing");
  view.localStorage.clear();
}

async function look(base, pages, widths) {
  for (const page of pages)
    for (const width of widths) {
      frame.style.width = `${width}px`;
      const view = await shown(base + page);
      await view.document.fonts.ready;
      checkWidth(page, width, view);
      checkCode(page, width, view);
      checkResources(page, view);
    }
  await checkTools(base);
  return { wrong, measured };
}

look(siteBase, sitePages, siteWidths)
  .catch((error) => ({ wrong: [String(error.stack || error)], measured }))
  .then((told) => fetch("/told", { method: "POST", body: JSON.stringify(told) }));
