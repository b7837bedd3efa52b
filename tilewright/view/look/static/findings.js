/* Findings: both accesses, the order that there is between their warps, and the edge that lacks; and what each barrier is for. */

const SYNCS = new Set(["wait", "meet", "signal", "fence", "commit", "issue"]);
const MOST_SYNCS = 9;

class FindingsView {
  constructor(app) {
    this.app = app;
    const { findings, needed } = app.data;
    this.node = el("div", { id: "findings" }, findings.length ? findings.map((one, n) => this.card(one, n)) : el("p", {}, "The checks of this run found nothing."),
      this.needed(needed || []));
  }

  show() {}

  card(one, n) {
    const line = (file, at) => at ? el("a", { tabindex: "0", onclick: () => this.app.showLine(at), onkeydown: (event) => event.key === "Enter" && this.app.showLine(at) }, `${file || "line"}:${at}`) : "";
    const remedy = one.remedy ? `${one.remedy.step.replace("_", " ")}${one.remedy.scope ? ` of ${one.remedy.scope}` : ""}${one.remedy.where && one.remedy.where.length ? `, between lines ${one.remedy.where.join(" and ")}` : ""}${one.remedy.why ? `: ${one.remedy.why}` : ""}` : "";
    const numbers = Object.entries(one.numbers || {}).map(([name, value]) => `${name} ${value}`).join(", ");
    return el("div", { class: `card ${one.severity}`, id: `finding-${n}` }, el("h2", {}, `${one.kind}: ${one.message}`), facts(
      ["here", line(one.file, one.line)], ["by", threadsOf(one.threads)], ["place", one.place || one.buffer || ""],
      one.other && ["other access", el("span", {}, line(one.other.file, one.other.line), ` ${one.other.op}, has ${one.other.did}${one.other.threads ? `, by ${threadsOf(one.other.threads)}` : ""}`)],
      ["operation", one.operation || ""], ["given", one.given || ""], ["allowed", one.allowed || ""], ["try", one.hint || ""], ["remedy", remedy], ["numbers", numbers],
      one.count > 1 && ["times", one.count]), this.drawing(one));
  }

  /** The two warps side by side: what orders them, and what lacks. */
  drawing(one) {
    const a = one.other ? this.stream(one.other.threads, one.other.line) : null, b = this.stream(one.threads, one.line, a);
    if (b === null || !one.other) return el("span", {});
    const left = a ?? b, sides = left === b ? [b] : [left, b], width = 860, column = [24, 450];
    const lists = sides.map((stream, side) => this.around(stream, sides.length === 1 ? one : side === 0 ? one.other : one));
    const height = 60 + 26 * Math.max(...lists.map((list) => list.length)), nodes = new Map(), parts = [];
    sides.forEach((stream, side) => {
      const s = this.app.data.streams[stream];
      parts.push(svg("text", { x: column[side], y: 16, "font-weight": "600" }, `CTA ${s.cta}, warp ${s.warp}`));
      parts.push(svg("line", { x1: column[side] - 8, y1: 26, x2: column[side] - 8, y2: height - 6, stroke: "currentColor", "stroke-opacity": 0.3 }));
      lists[side].forEach((item, k) => {
        const y = 42 + 26 * k;
        nodes.set(`${stream},${item.k}`, [column[side] - 8, y]);
        const node = svg("g", { style: "cursor:pointer" }, svg("circle", { cx: column[side] - 8, cy: y - 4, r: item.access ? 6 : 4, fill: item.access ? "var(--critical)" : "var(--issue)" }),
          svg("text", { x: column[side] + 4, y }, `${item.access ? "▶ " : ""}${item.words}${item.line ? ` (line ${item.line})` : ""}`.slice(0, 66)));
        node.addEventListener("click", () => this.app.showLine(item.line));
        parts.push(node);
        if (item.access) nodes.set(`access${side}`, [column[side] - 8, y - 4]);
      });
    });
    parts.push(...this.edges(sides, lists, nodes));
    const from = nodes.get("access0"), to = nodes.get("access1");
    if (from && to) {
      parts.push(svg("path", { d: `M${from[0] + 10},${from[1]} C${from[0] + 150},${from[1] + 24} ${to[0] - 150},${to[1] + 24} ${to[0] - 10},${to[1]}`, fill: "none", stroke: "var(--critical)", "stroke-width": 2, "stroke-dasharray": "6 4", class: "lacks" }),
        svg("text", { x: to[0] + 14, y: to[1] + 22, style: "fill:var(--critical)" }, `no path: ${one.remedy ? one.remedy.step.replace("_", " ") + " lacks" : "nothing orders them"}`));
    }
    return el("div", { class: "wide" }, svg("svg", { width, height: height + 20, viewBox: `0 0 ${width} ${height + 20}`, role: "img", "aria-label": "what orders the two accesses" }, parts));
  }

  /** The warp of an access; where the finding does not say, the first one that executed its line. */
  stream(threads, line, other = null) {
    const first = threads && threads[0];
    if (!first) {
      const ran = (one) => one.line.includes(line) || one.ran.some((n) => n >= 0 && this.app.data.ran[n][0].some(([row]) => this.app.data.rows[row][3] === line));
      const every = this.app.data.streams.map((one, n) => [one, n]).filter(([one]) => ran(one)).map(([, n]) => n);
      return every.find((n) => n !== other) ?? every[0] ?? null;
    }
    const warp = first.warps ? first.warps[0] : 0, found = this.app.data.streams.findIndex((one) => one.cta === first.ctas[0] && one.warp === warp);
    return found < 0 ? null : found;
  }

  /** The access and the events of order around it. */
  around(stream, access) {
    const one = this.app.data.streams[stream], { ran, rows } = this.app.data;
    const touches = (k) => one.ran[k] >= 0 && ran[one.ran[k]][0].some(([row]) => rows[row][3] === access.line);
    let at = -1;
    for (let k = 0; k < one.kind.length; k++) if (touches(k) || (one.kind[k] !== "stretch" && one.line[k] === access.line)) at = k;
    const items = one.kind.map((kind, k) => ({ k, kind, line: one.line[k], words: this.app.data.words[one.word[k]], access: k === at }))
      .filter((item) => item.access || SYNCS.has(item.kind));
    const here = Math.max(0, items.findIndex((item) => item.access));
    const found = items.slice(Math.max(0, here - MOST_SYNCS + 3), here + MOST_SYNCS);
    for (const item of found) if (item.access) Object.assign(item, { line: access.line, words: access.op ? `${access.op}: ${access.did}` : "this access" });
    return found;
  }

  /** Edges that there are: meetings, and waits with what let them go on. */
  edges(sides, lists, nodes) {
    const found = [];
    sides.forEach((stream, side) => {
      const one = this.app.data.streams[stream];
      for (const { k } of lists[side]) {
        const cause = one.cause[k], from = cause && cause.length ? nodes.get(cause.join(",")) : null, to = nodes.get(`${stream},${k}`);
        if (from && to && from !== to) found.push(svg("line", { x1: from[0], y1: from[1] - 4, x2: to[0], y2: to[1] - 4, stroke: "var(--issue)", "stroke-width": 1.5, class: "orders" }));
      }
    });
    return found;
  }

  needed(rows) {
    if (!rows.length) return el("span", {});
    return el("div", { class: "card" }, el("h2", {}, "what if a line were deleted"), el("div", { class: "wide" }, el("table", { id: "needed" },
      el("tr", {}, el("th", {}, "line"), el("th", { class: "words" }, "statement"), el("th", { class: "words" }, "without it")),
      rows.map((row) => el("tr", { onclick: () => this.app.showLine(row.line) }, el("td", {}, row.line), el("td", { class: "words" }, row.text),
        el("td", { class: "words" }, row.needed ? `needed: ${row.finding}` : "redundant: nothing is found without it"))))));
  }
}

function threadsOf(threads) {
  if (!threads || !threads.length) return "";
  const span = (name, range) => (range ? ` ${name}${range[0] === range[1] ? ` ${range[0]}` : `s ${range[0]}..${range[1]}`}` : "");
  const [one] = threads, more = threads.length > 1 ? ` and ${threads.length - 1} more` : "";
  return `CTA ${one.cta.join(", ")},${span("warp", one.warps)}${one.lanes ? "," : ""}${span("lane", one.lanes)}${more}`;
}
