// Fills the selector of versions and goes where it is set to: to the same page of that version, or to its first page where it has no such page.
document.addEventListener("DOMContentLoaded", () => {
  const select = document.getElementById("versions");
  if (!select || !Array.isArray(window.siteVersions)) return;
  const own = select.value;
  select.replaceChildren(...window.siteVersions.map((version) => new Option(version, version, version === own, version === own)));
  select.addEventListener("change", async () => {
    const folder = `${select.dataset.root}../${select.value}/`;
    const page = `${folder}${select.dataset.page}.html`;
    const isThere = await fetch(page, { method: "HEAD" }).then((answer) => answer.ok, () => false);
    window.location.href = isThere ? page : `${folder}index.html`;
  });
});
