// The explorer of test sentences. All text of corpora reaches the page as text nodes, never as HTML.
"use strict";
(() => {
  const at = (id) => document.getElementById(id);
  const controls = at("explorer-controls").elements;
  const list = at("explorer-list"), rows = at("explorer-rows"), detail = at("explorer-detail");
  const ROW = 64;  // height of a row of the list in pixels, as in the style sheet
  const sets = new Map();  // test sets that were decompressed
  let begun = false, data = null, shown = [], chosen = 0, compareWith = "reference";

  const element = (name, attributes = {}, ...children) => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  };
  const drawn = (name, attributes = {}, ...children) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  };
  const signed = (value) => (value > 0 ? "+" : value < 0 ? "−" : "±") + Math.abs(value).toFixed(1);
  const words = (text) => text.split(" ").filter((word) => word);

  async function read(number) {
    if (!sets.has(number)) {
      const bytes = Uint8Array.from(atob(at(`sentences-${number}`).textContent), (c) => c.charCodeAt(0));
      const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
      const content = JSON.parse(await new Response(stream).text());
      content.rows.forEach((row, place) => {
        row.n = place + 1;  // readers count sentences from 1
        row.words = words(row.s).length;
        row.text = [row.s, row.r, ...row.o].join("\n").toLowerCase();
      });
      sets.set(number, content);
    }
    return sets.get(number);
  }

  async function openSet() {
    begun = true;
    data = await read(controls.set.value);
    for (const select of [controls.system, controls.other]) {
      select.replaceChildren(...data.systems.map((title, place) => element("option", { value: place }, title)));
    }
    controls.other.value = data.baseline;
    controls.system.value = data.systems.length > 1 && data.baseline === 0 ? 1 : 0;
    filter();
  }

  // ------------------------------------------------------------------------------------------------------- the address

  // "#sentences?set=0&system=1&other=0&order=best&sentence=17" shows that sentence; empty controls are left out.
  const STATE = ["set", "system", "other", "order", "query", "shortest", "longest"];

  function address() {
    const state = new URLSearchParams(STATE.map((name) => [name, controls[name].value]).filter(([, value]) => value));
    if (shown[chosen]) state.set("sentence", shown[chosen].n);
    return `#sentences?${state}`;
  }

  const keepAddress = () => history.replaceState(null, "", address());

  async function openAddress() {
    const [anchor, query] = location.hash.split("?");
    if (anchor !== "#sentences" || !query) return;
    const state = new URLSearchParams(query);
    const set = (name) => {
      const control = controls[name], wanted = state.get(name);
      const known = !control.options || [...control.options].some((option) => option.value === wanted);
      if (wanted !== null && known) control.value = wanted;
    };
    at("explorer").hidden = false;
    set("set");
    await openSet();
    STATE.slice(1).forEach(set);
    filter();
    const place = shown.findIndex((row) => row.n === Number(state.get("sentence")));
    if (place >= 0) choose(place);
    at("sentences").scrollIntoView();
  }

  // ---------------------------------------------------------------------------------------------------------- the list

  const difference = (row) => row.b[controls.system.value] - row.b[controls.other.value];

  function filter() {
    const query = words(controls.query.value.toLowerCase());
    const shortest = Number(controls.shortest.value || 0), longest = Number(controls.longest.value || Infinity);
    shown = data.rows.filter((row) =>
      row.words >= shortest && row.words <= longest && query.every((word) => row.text.includes(word)));
    const keys = {
      place: (row) => row.n,
      best: (row) => -difference(row),
      worst: (row) => difference(row),
      low: (row) => row.b[controls.system.value],
      length: (row) => -row.words,
      maps: (row) => (row.m ? 0 : 1),
    };
    const key = keys[controls.order.value];
    shown.sort((one, two) => key(one) - key(two) || one.n - two.n);
    chosen = 0;
    const mean = shown.reduce((sum, row) => sum + difference(row), 0) / (shown.length || 1);
    const title = (select) => data.systems[select.value];
    at("explorer-count").textContent =
      `${shown.length.toLocaleString("en")} of ${data.rows.length.toLocaleString("en")} sentences` +
      (data.systems.length > 1 && shown.length
        ? `; mean difference ${signed(mean)} (${title(controls.system)} − ${title(controls.other)})` : "");
    rows.style.height = `${shown.length * ROW}px`;
    list.scrollTop = 0;
    drawList();
    drawDetail();
  }

  function drawList() {
    const first = Math.max(0, Math.floor(list.scrollTop / ROW) - 4);
    const last = Math.min(shown.length, Math.ceil((list.scrollTop + list.clientHeight) / ROW) + 4);
    const one = controls.system.value, two = controls.other.value;
    rows.replaceChildren(...shown.slice(first, last).map((row, offset) => {
      const place = first + offset, change = difference(row);
      const item = element("div", {
        class: "row", role: "option", id: `explorer-row-${place}`, "aria-selected": place === chosen,
        "aria-posinset": place + 1, "aria-setsize": shown.length,
      },
        element("span", { class: "text" }, row.s || "(empty)"),
        element("span", { class: "numbers" }, `${row.n} · ${row.words} words · ${row.m ? "▦ " : ""}`,
          one === two ? `BLEU ${row.b[one].toFixed(1)}` : `BLEU ${row.b[one].toFixed(1)} against ${row.b[two].toFixed(1)} `,
          one === two ? "" : element("b", { class: change > 0 ? "better" : change < 0 ? "worse" : "" },
            `${change > 0 ? "▲" : change < 0 ? "▼" : ""} ${signed(change)}`)));
      item.style.top = `${place * ROW}px`;
      return item;
    }));
    list.setAttribute("aria-activedescendant", shown.length ? `explorer-row-${chosen}` : "");
  }

  function reveal() {
    const top = chosen * ROW;
    if (top < list.scrollTop) list.scrollTop = top;
    else if (top + ROW > list.scrollTop + list.clientHeight) list.scrollTop = top + ROW - list.clientHeight;
  }

  function choose(place) {
    chosen = Math.max(0, Math.min(shown.length - 1, place));
    reveal();
    drawList();
    drawDetail();
  }

  // ------------------------------------------------------------------------------------------------------ one sentence

  // The words of the longest common subsequence: for each word of `one`, its place in `two` or -1.
  function aligned(one, two) {
    const table = Array.from({ length: one.length + 1 }, () => new Uint16Array(two.length + 1));
    for (let i = one.length - 1; i >= 0; i--)
      for (let j = two.length - 1; j >= 0; j--)
        table[i][j] = one[i] === two[j] ? table[i + 1][j + 1] + 1 : Math.max(table[i + 1][j], table[i][j + 1]);
    const places = [];
    for (let i = 0, j = 0; i < one.length;) {
      if (j < two.length && one[i] === two[j]) { places.push(j); i++; j++; }
      else if (j < two.length && table[i][j + 1] >= table[i + 1][j]) j++;
      else { places.push(-1); i++; }
    }
    return places;
  }

  // Text with the words marked that the other text does not have there; a caret stands where words are missing.
  function marked(text, other) {
    const own = words(text), others = words(other), places = aligned(own, others);
    const parts = [];
    let next = 0;
    const gap = (end) => {
      if (end > next) {
        const missing = others.slice(next, end).join(" ");
        parts.push(element("span", { class: "gap", title: `missing here: ${missing}` }, "‸"), " ");
      }
    };
    own.forEach((word, i) => {
      if (places[i] >= 0) { gap(places[i]); next = places[i] + 1; parts.push(word, " "); }
      else {
        parts.push(element("mark", {}, word), " ");
      }
    });
    gap(others.length);
    return parts.length ? parts : [element("i", {}, "(empty)")];
  }

  const line = (heading, note, ...content) =>
    element("div", { class: "line" }, element("h4", {}, heading, " ", element("span", { class: "quiet" }, note)),
      element("div", {}, ...content));

  function drawDetail() {
    const row = shown[chosen];
    if (!row) { detail.replaceChildren(element("p", { class: "quiet" }, "No sentence is like that.")); return; }
    const against = element("select", { "aria-label": "mark words that differ from" },
      element("option", { value: "reference" }, "reference"),
      ...data.systems.map((title, place) => element("option", { value: place }, title)),
      element("option", { value: "nothing" }, "nothing"));
    if ([...against.options].some((option) => option.value === compareWith)) against.value = compareWith;
    against.addEventListener("change", () => { compareWith = against.value; drawDetail(); });
    const other = compareWith === "reference" ? row.r : compareWith === "nothing" ? null : row.o[compareWith];
    const order = data.systems.map((_, place) => place);
    detail.replaceChildren(
      element("h3", {}, element("a", { href: address() }, `Sentence ${row.n}`)),
      line("Source", `${row.words} words`, element("p", { class: "sentence" }, row.s || element("i", {}, "(empty)"))),
      ...(row.t ? [line("Parse", "", element("div", { class: "wide tree", tabindex: 0, role: "img", "aria-label": "parse of the source" }, tree(row.t, words(row.s))))] : []),
      ...(row.p || []).map((phrases, place) => line("Phrases", data.segmentations[place], pieces(phrases.map((one) => ["", one])))),
      line("Reference", `${words(row.r).length} words`, element("p", { class: "sentence" }, row.r || element("i", {}, "(empty)"))),
      ...(row.c ? [line("Chunks of the reference", "", pieces(row.c))] : []),
      element("label", { class: "against screen" }, "Mark words that differ from ", against),
      ...order.map((place) => line(data.systems[place], `BLEU ${row.b[place].toFixed(1)}` +
        (place === data.baseline || data.systems.length < 2 ? "" : `, ${signed(row.b[place] - row.b[data.baseline])}`),
        element("p", { class: "sentence" }, ...(other === null || compareWith === String(place) ? [row.o[place] || element("i", {}, "(empty)")] : marked(row.o[place], other))))),
      ...(row.m ? [heatMaps(row.m)] : []),
    );
  }

  // Heat maps of attention, drawn when the reader opens them: darkness is the square root of a weight.
  function heatMaps(maps) {
    const system = element("select", { "aria-label": "system" }, ...maps.map((one, place) => element("option", { value: place }, one.system)));
    const which = element("select", { "aria-label": "attention" });
    const heads = element("select", { "aria-label": "heads" });
    const drawing = element("div", { class: "wide", tabindex: 0 });
    const list = () => {
      const before = which.selectedOptions[0]?.textContent;
      const names = maps[system.value].attentions.map((one) => `${one.place}, layer ${one.layer}`);
      which.replaceChildren(...names.map((name, place) => element("option", { value: place }, name)));
      const wanted = names.indexOf(before) >= 0 ? names.indexOf(before) : names.findLastIndex((name) => name.startsWith("decoder, source"));
      which.value = Math.max(0, wanted);
      listHeads();
    };
    const listHeads = () => {
      const before = heads.selectedIndex;
      const names = (maps[system.value].attentions[which.value]?.groups ?? []).map((one) => one.name);
      heads.replaceChildren(...names.map((name, place) => element("option", { value: place }, name)));
      heads.value = Math.max(0, Math.min(before, names.length - 1));
      draw();
    };
    const draw = () => {
      const { axes, attentions } = maps[system.value], one = attentions[which.value];
      if (one) drawing.replaceChildren(heatMap(one.groups[heads.value], axes[one.queries], axes[one.keys], heads.value === "0"));
      else drawing.replaceChildren("This system has no attention.");
    };
    system.addEventListener("change", list);
    which.addEventListener("change", listHeads);
    heads.addEventListener("change", draw);
    const box = element("details", { class: "maps screen" }, element("summary", {}, "Attention while the system predicts the reference"),
      element("div", { class: "controls" }, system, which, heads), drawing,
      element("p", { class: "quiet" }, "Darkness is the square root of the weight. Rows are the positions that attend. " +
        "An n-gram stands at its last token. Point at a cell to read its weight."));
    box.addEventListener("toggle", () => { if (box.open && !drawing.firstChild) list(); });
    return box;
  }

  // orders: panels are orders of n-grams; otherwise tokens, and all n-grams together.
  function heatMap(one, queries, keys, orders) {
    const [T, N, S] = one.shape, CELL = 15, LETTER = 7.6, LONGEST = 20;
    const levels = Uint8Array.from(atob(one.levels), (c) => c.charCodeAt(0));
    const short = (name) => (name.length > LONGEST ? `${name.slice(0, LONGEST - 1)}…` : name);
    const width = (names) => Math.max(0, ...names.map((name) => short(name).length)) * LETTER + 8;
    const left = width(queries), top = width(keys) + 20, gap = 16;
    const shapes = queries.map((name, t) => drawn("text", { x: left - 5, y: top + t * CELL + 11, "text-anchor": "end" }, short(name)));
    for (let n = 0; n < N; n++) {
      const x = left + n * (S * CELL + gap);
      if (N > 1) shapes.push(drawn("text", { x, y: 12, class: "panel" }, n === 0 ? "tokens" : orders ? `${n + 1}-grams` : "n-grams"));
      keys.forEach((name, s) => shapes.push(drawn("text", { transform: `translate(${x + s * CELL + 11} ${top - 5}) rotate(-90)` }, short(name))));
      shapes.push(drawn("rect", { x, y: top, width: S * CELL, height: T * CELL, class: "frame" }));
      for (let t = 0; t < T; t++)
        for (let s = 0; s < S; s++) {
          const level = levels[(t * N + n) * S + s] / 255;
          const cell = drawn("rect", { x: x + s * CELL, y: top + t * CELL, width: CELL, height: CELL, class: "cell", "fill-opacity": level.toFixed(3) },
            drawn("title", {}, `${queries[t]} → ${keys[s]}: ${(level * level).toFixed(3)}`));
          shapes.push(cell);
        }
    }
    const whole = left + N * (S * CELL + gap), height = top + T * CELL + 4;
    const best = queries.map((name, t) => {
      let place = 0;
      for (let i = 0; i < N * S; i++) if (levels[t * N * S + i] > levels[t * N * S + place]) place = i;
      return `${name} attends most to ${keys[place % S]}`;
    });
    return drawn("svg", { class: "map", width: whole, height, viewBox: `0 0 ${whole} ${height}`, role: "img", "aria-label": `Heat map. ${best.join("; ")}.` }, ...shapes);
  }

  const pieces = (parts) => element("p", { class: "pieces" }, ...parts.flatMap(([label, text]) =>
    [element("span", { class: "piece" }, ...(label ? [element("small", {}, label), " "] : []), text), " "]));

  // Draw a parse: "(S (NP (DT 0) (NN 1)) (VP (VBZ 2)))", whose leaves are numbers of words.
  function tree(text, leaves) {
    const stack = [{ children: [] }];
    for (const piece of text.split(" ")) {
      if (piece.startsWith("(")) { stack.push({ label: piece.slice(1), children: [] }); continue; }
      const closing = piece.length - piece.replace(/\)+$/, "").length;
      stack.at(-1).word = Number(piece.slice(0, piece.length - closing));
      for (let i = 0; i < closing; i++) { const node = stack.pop(); stack.at(-1).children.push(node); }
    }
    const root = stack[0].children[0], LEVEL = 30, GAP = 12;
    const canvas = document.createElement("canvas").getContext("2d");
    canvas.font = `13px ${getComputedStyle(document.body).fontFamily}`;
    const width = (text) => canvas.measureText(text).width;
    const shapes = [];
    let right = 4, deepest = 0;
    const label = (x, y, text, kind) => shapes.push(drawn("text", { x, y, class: kind, "text-anchor": "middle" }, text));
    const shift = (node, by) => { node.x += by; node.children.forEach((child) => shift(child, by)); };
    const place = (node, depth) => {  // sets x, the middle of a node: labels and words stand side by side
      const left = right, isTag = node.word !== undefined;
      const half = Math.max(width(node.label), isTag ? width(leaves[node.word] ?? "?") : 0) / 2;
      deepest = Math.max(deepest, depth + (isTag ? 1 : 0));
      node.children.forEach((child) => place(child, depth + 1));
      node.x = isTag ? left + half : (node.children[0].x + node.children.at(-1).x) / 2;
      const missing = Math.max(0, left + half - node.x);
      shift(node, missing);
      right = Math.max(right + missing, node.x + half + GAP);
    };
    const draw = (node, depth) => {
      const y = 14 + depth * LEVEL;
      label(node.x, y, node.label, node.word === undefined ? "node" : "tag");
      for (const child of node.children) {
        shapes.push(drawn("line", { x1: node.x, y1: y + 5, x2: child.x, y2: y + LEVEL - 12 }));
        draw(child, depth + 1);
      }
      if (node.word !== undefined) label(node.x, y + 19, leaves[node.word] ?? "?", "leaf");
    };
    place(root, 0);
    draw(root, 0);
    // In a narrow place the drawing shrinks, as far as one can read it; then the place scrolls.
    const style = `max-width: ${right}px; min-width: ${0.7 * right}px`;
    return drawn("svg", { style, viewBox: `0 0 ${right} ${18 + deepest * LEVEL}` }, ...shapes);
  }

  // ----------------------------------------------------------------------------------------------------------- events

  for (const name of STATE.slice(1)) controls[name].addEventListener("input", () => { filter(); keepAddress(); });
  controls.set.addEventListener("input", async () => { await openSet(); keepAddress(); });
  addEventListener("hashchange", openAddress);
  at("explorer-controls").addEventListener("submit", (event) => event.preventDefault());
  list.addEventListener("scroll", drawList, { passive: true });
  list.addEventListener("click", (event) => {
    const item = event.target.closest(".row");
    if (item) { choose(Number(item.id.slice("explorer-row-".length))); keepAddress(); }
  });
  list.addEventListener("keydown", (event) => {
    const page = Math.max(1, Math.floor(list.clientHeight / ROW) - 1);
    const places = {
      ArrowDown: chosen + 1, ArrowUp: chosen - 1, PageDown: chosen + page, PageUp: chosen - page, Home: 0, End: shown.length - 1,
    };
    if (event.key in places) { event.preventDefault(); choose(places[event.key]); keepAddress(); }
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !event.target.closest("input, select, textarea")) { event.preventDefault(); controls.query.focus(); }
  });

  // Decompress when the section comes into view, so that the page appears at once.
  new IntersectionObserver(async (entries, observer) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    observer.disconnect();
    if (begun) return;  // the address opens it
    at("explorer").hidden = false;
    await openSet();
  }, { rootMargin: "400px" }).observe(at("sentences"));
  openAddress();
})();
