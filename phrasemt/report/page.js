// Below each table stands a link to its numbers, with tabs between them. Links and printing open folded sections.
"use strict";
(() => {
  const link = (what, text, after) => {
    const made = document.createElement("a");
    made.className = "download screen";
    made.textContent = "numbers (TSV)";
    made.href = "#";
    made.download = `${what.replace(/[^A-Za-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 60) || "table"}.tsv`;
    made.addEventListener("click", () => {
      if (made.href.startsWith("blob:")) URL.revokeObjectURL(made.href);
      made.href = URL.createObjectURL(new Blob([text()], { type: "text/tab-separated-values" }));
    });
    after.after(made);
  };
  for (const table of document.querySelectorAll(".wide > table")) {
    const cell = (one) => one.textContent.trim().replace(/\s+/g, " ");
    const name = table.closest("section").querySelector("h2").textContent;
    link(name, () => [...table.rows].map((row) => [...row.cells].map(cell).join("\t") + "\n").join(""), table.parentElement);
  }
  const openTarget = () => {
    const target = document.getElementById(location.hash.slice(1));
    if (!target) return;
    for (let at = target; at; at = at.parentElement) if (at.localName === "details") at.open = true;
    const folded = target.querySelector(":scope > details");
    if (folded) folded.open = true;
    target.scrollIntoView();
  };
  window.addEventListener("hashchange", openTarget);
  for (const one of document.querySelectorAll("a[href^='#']")) one.addEventListener("click", () => setTimeout(openTarget));
  window.addEventListener("beforeprint", () => {
    for (const one of document.querySelectorAll("main > section > details")) one.open = true;
  });
  openTarget();
})();
