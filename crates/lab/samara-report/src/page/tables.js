// Tables sort by a column and are saved as comma-separated values.
const FACTORS = { "%": 0.01, s: 1, ms: 1e-3, "µs": 1e-6, min: 60, h: 3600, kB: 1e3, MB: 1e6, GB: 1e9, k: 1e3, M: 1e6, G: 1e9 };
const valueOf = (cell) => {
  const found = cell.textContent.trim().match(/^([+-]?[\d,]*\.?\d+)\s*(%|[a-zµA-Z]+)?/);
  return found ? Number(found[1].replace(/,/g, "")) * (FACTORS[found[2]] || 1) : null;
};
for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0], rows = [...body.rows];
  const hasGroups = rows.some((row) => row.classList.contains("group") || row.classList.contains("difference"));
  [...table.tHead.rows[0].cells].forEach((head, at) => {
    if (hasGroups || head.classList.contains("bars") || rows.length < 3) return;
    const words = [...head.childNodes], button = document.createElement("button");
    button.type = "button"; button.className = "sort"; button.title = "Sort by this column";
    button.append(...words);
    head.append(button);
    button.addEventListener("click", () => {
      const turn = { none: "ascending", ascending: "descending", descending: "none" }[head.getAttribute("aria-sort") || "none"];
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      if (turn !== "none") head.setAttribute("aria-sort", turn);
      const sign = turn === "descending" ? -1 : 1;
      const compared = (a, b) => {
        const [x, y] = [a, b].map((row) => valueOf(row.cells[at]));
        if (x === null || y === null) return x === y ? sign * a.cells[at].textContent.localeCompare(b.cells[at].textContent) : x === null ? 1 : -1;
        return sign * (x - y);
      };
      body.append(...(turn === "none" ? rows : [...rows].sort(compared)));
    });
  });
  const save = document.createElement("button");
  save.type = "button"; save.className = "save-table"; save.textContent = "CSV"; save.setAttribute("aria-label", "Save this table as CSV");
  save.addEventListener("click", () => {
    const cell = (one) => { const words = one.innerText.replace(/\s+/g, " ").trim(); return /[",]/.test(words) ? `"${words.replace(/"/g, '""')}"` : words; };
    const plain = (row) => [...row.cells].filter((one) => !one.classList.contains("bars")).map(cell).join(",");
    saved("table.csv", "text/csv", `${[...table.rows].map(plain).join("\n")}\n`);
  });
  table.parentElement.after(save);
}
// A link to a folded part opens it.
const opened = () => {
  const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target && target.tagName === "DETAILS") target.open = true;
};
addEventListener("hashchange", opened);
opened();
