/* Findings: both accesses, the order that there is between their warps, and the edge that lacks; and what each barrier is for. */

const SYNCS = new Set(["wait", "meet", "signal", "fence", "commit", "issue"]);
const BEFORE = 7, BEHIND = 3, MOST_BETWEEN = 16;
const STEPS = { barrier: "a barrier", fence: "a fence", proxy_fence: "a fence between the proxies", atomic: "an atomic", wait: "a wait",
  commit: "a commit of the group", initialise: "a first write" };
const SCOPES = { warp: "of the warp", cta: "of the CTA", cluster: "of the cluster", gpu: "of the GPU", sys: "of the system" };
const KINDS = { races: "race", simulation: "", leaks: "left under way", poison: "uninitialised" };
const DOES = { written: "writes", read: "reads" };

class FindingsView {
  constructor(app) {
    this.app = app;
    const { findings, needed } = app.data;
    this.graphs = [];
    this.node = el("div", { id: "findings" }, findings.length ? findings.map((one, n) => this.card(one, n)) : el("p", {}, "The checks of this run found nothing."),
      this.needed(needed || []));
  }

  show() {
    for (const graph of this.graphs) graph.connect();
  }

  state() {
    return { finding: this.at === undefined ? "" : this.at + 1 };
  }

  read(asked) {
    if (!asked.has("finding")) return "";
    const n = Number(asked.get("finding")) - 1;
    if (!this.app.data.findings[n]) return `There is no finding ${asked.get("finding")}.`;
    this.go(n);
    return "";
  }

  go(n) {
    this.at = n;
    const node = this.node.querySelector(`#finding-${n}`);
    node.scrollIntoView({ block: "nearest" });
    node.focus({ preventScroll: true });
    this.app.keep();
  }

  card(one, n) {
    const line = (file, at) => at ? link(`${file || "line"}:${at}`, () => this.app.showLine(at)) : "";
    const kind = KINDS[one.kind] ?? one.kind, tag = kind && !one.message.startsWith(kind) ? el("span", { class: "tag" }, kind) : null;
    const { here, other } = this.app.placesOf(n);
    const numbers = Object.entries(one.numbers || {}).map(([name, value]) => `${name.replace(/_/g, " ")} ${number(value)}`).join(", ");
    return el("div", { class: `card ${one.severity}`, id: `finding-${n}`, tabindex: "-1" }, el("h2", {}, `${n + 1}. `, tag, one.message), facts(
      ["here", el("span", {}, line(one.file, one.line), one.threads ? `, ${threadsOf(one.threads)}` : "", this.ways(here, this.app.laneOf(n)))],
      ["place", one.place || one.buffer || this.told(one)],
      one.other && ["other access", el("span", {}, line(one.other.file, one.other.line), `, ${one.other.op.replace(/^ptx\./, "")} ${DOES[one.other.did] || one.other.did}${(one.other.threads || []).length ? `, ${threadsOf(one.other.threads)}` : ""}`, this.ways(other, null))],
      one.operation && !one.other && ["operation", one.operation], ["given", this.given(one)], ["allowed", one.allowed || ""], ["try", one.hint || ""],
      one.remedy && !one.hint && ["remedy", remedyOf(one.remedy)], ["numbers", numbers],
      one.count > 1 && ["found", `${number(one.count)} times at these lines`], one.follows > 0 && ["follows", `${number(one.follows)} more findings come from this one`],
      one.choice && ["shown by", `another order of the run, --replay ${one.choice}; this page shows the first order`]),
    one.kind === "deadlock" || one.kind === "livelock" ? this.graph() : this.drawing(one, n));
  }

  /** The report's own words, where they say more than the lines and threads above. */
  given(one) {
    return (one.kind === "races" && one.other) || one.kind === "deadlock" ? "" : one.given || "";
  }

  /** The m-barriers that the line tells. */
  told(one) {
    const names = new Set(this.app.data.rows.filter((row) => row[3] === one.line).flatMap((row) => row[4]));
    return names.size ? `m-barriers of ${[...names].join(" and ")}` : "";
  }

  ways(place, lane) {
    if (!place) return "";
    return el("span", { class: "ways" }, " ", link("in the Timeline", () => this.app.inTimeline(place)), " ",
      this.app.data.stepped.length && this.stepped(place) ? link("in Step", () => this.app.inStep(place, lane)) : null);
  }

  stepped(place) {
    const [stream] = place[0] >= 0 ? place : this.app.issueOf(place[1]) || [-1], one = this.app.data.streams[stream];
    return one && this.app.data.stepped.some((each) => each.cta === one.cta && each.warp === one.warp);
  }

  graph() {
    this.graphs.push(new WaitGraph(this.app));
    return this.graphs[this.graphs.length - 1].node;
  }

  // The drawing: both warps, from above to below in the simulator's order

  drawing(one, n) {
    const sides = this.sides(one, n);
    if (!sides.length) return el("span", {});
    const columns = [...new Set(sides.map((side) => side.stream))], x = columns.map((_, k) => 60 + 430 * k);
    const items = columns.flatMap((stream, column) => this.around(stream, sides.filter((side) => side.stream === stream)).map((item) => ({ ...item, column })));
    items.sort((a, b) => a.order - b.order || a.column - b.column);
    const nodes = new Map(), width = 900, height = 60 + 24 * items.length, parts = [], here = items.findIndex((item) => item.access && item.access.role === "here");
    items.forEach((item, k) => { item.x = x[item.column]; item.y = 44 + 24 * k + (here >= 0 && k > here && one.other ? 16 : 0); nodes.set(item.key, item); });
    columns.forEach((stream, column) => {
      const s = this.app.data.streams[stream];
      parts.push(svg("text", { x: x[column], y: 16, "font-weight": "600" }, `CTA ${s.cta}, warp ${s.warp} (${s.role})`),
        svg("line", { x1: x[column], y1: 26, x2: x[column], y2: height - 8, stroke: "currentColor", "stroke-opacity": 0.3 }));
    });
    for (const side of sides) if (side.operation !== undefined) parts.push(this.underWay(nodes, side, height));
    parts.push(...this.edges(items, nodes), ...items.map((item) => this.dot(item)), ...this.lack(one, sides, nodes));
    return el("div", { class: "wide" }, svg("svg", { width, height: height + 6, viewBox: `0 0 ${width} ${height + 6}`, role: "img", "aria-label": "what orders the two accesses" }, parts),
      el("p", { class: "hint" }, "From above to below: the simulator's order. Green lines: who let whom go on. Red: what the finding is about; dashed, what nothing orders."));
  }

  /** The events that the finding is about; of an operation that which issued it. */
  sides(one, n) {
    const { here, other } = this.app.placesOf(n), made = [];
    const add = (place, words, role) => {
      if (!place) return;
      const issue = place[0] >= 0 ? place : this.app.issueOf(place[1]);
      if (issue) made.push({ stream: issue[0], k: issue[1], words, role, operation: place[0] < 0 ? place[1] : undefined });
    };
    const name = one.other && one.other.op.replace(/^ptx\./, "");
    if (one.other) add(other, other && other[0] < 0 ? name : `${name} ${DOES[one.other.did] || one.other.did} (line ${one.other.line})`, "other");
    add(here, here && here[0] < 0 ? one.operation || "an operation" : one.other ? `this access (line ${one.line})` : `here (line ${one.line})`, "here");
    return made;
  }

  /** Events of order of a warp around some of its events, and those themselves. */
  around(stream, sides) {
    const one = this.app.data.streams[stream], own = new Map(sides.map((side) => [side.k, side]));
    const items = one.kind.map((kind, k) => ({ k, kind, line: one.line[k], order: one.a[k], words: this.app.data.words[one.word[k]], key: `${stream},${k}`, access: own.get(k) }))
      .filter((item) => item.access || SYNCS.has(item.kind));
    const places = items.flatMap((item, n) => (item.access ? [n] : [])), first = Math.min(...places), last = Math.max(...places);
    const found = items.slice(Math.max(0, first - BEFORE), last + BEHIND + 1), between = last - first - MOST_BETWEEN;
    if (between > 0) found.splice(first - Math.max(0, first - BEFORE) + MOST_BETWEEN / 2, between, { key: "", order: items[first + MOST_BETWEEN / 2].order, words: `... ${between} more`, kind: "" });
    for (const side of sides) {
      const op = side.operation === undefined ? null : this.operation(side.operation);
      if (op && !op.open) found.push({ key: `-1,${side.operation}`, order: op.b, kind: "done", words: `${op.words}: complete`, place: [-1, side.operation] });
      if (op) side.words = `issues ${side.words}${op.open ? ", still under way" : ""} (line ${op.line})`;
    }
    return found;
  }

  operation(n) {
    for (const unit of this.app.data.units) {
      const k = unit.unit === "unit" ? unit.number.indexOf(n) : -1;
      if (k >= 0) return { words: this.app.data.words[unit.word[k]], b: unit.b[k], line: unit.line[k], open: unit.open.includes(k) };
    }
    return { words: "", b: 0, line: 0, open: true };
  }

  dot(item) {
    const place = item.place || item.key.split(",").map(Number), words = item.access ? `▶ ${item.access.words}` : `${item.words}${item.line ? ` (line ${item.line})` : ""}`;
    const go = () => item.key && this.app.inTimeline(place);
    const node = svg("g", { style: "cursor:pointer", tabindex: 0, role: "button", "data-key": item.key, class: item.access ? "access" : "event" },
      svg("circle", { cx: item.x, cy: item.y - 4, r: item.access ? 6 : item.key ? 4 : 0, fill: item.access ? "var(--critical)" : item.kind === "done" ? "var(--unit)" : "var(--issue)" }),
      svg("text", { x: item.x + 12, y: item.y, ...(item.access ? { "font-weight": 600 } : {}) }, words.length > 72 ? `${words.slice(0, 70)}…` : words), svg("title", {}, words));
    node.addEventListener("click", go);
    node.addEventListener("keydown", (event) => { if (event.key === "Enter") go(); });
    return node;
  }

  /** How long an operation was under way. */
  underWay(nodes, side, height) {
    const from = nodes.get(`${side.stream},${side.k}`), to = nodes.get(`-1,${side.operation}`);
    return svg("line", { x1: from.x - 10, y1: from.y - 4, x2: from.x - 10, y2: to ? to.y - 4 : height - 4, stroke: "var(--unit)", "stroke-width": 5, ...(to ? {} : { "stroke-dasharray": "9 3" }) });
  }

  lack(one, sides, nodes) {
    const [from, to] = sides.map((side) => (side.operation !== undefined && nodes.get(`-1,${side.operation}`)) || nodes.get(`${side.stream},${side.k}`));
    if (!from || !to || from === to) return [];
    const bend = from.column === to.column ? `C${from.x - 56},${from.y + 10} ${to.x - 56},${to.y - 20}` : `C${from.x + (to.x - from.x) / 2},${from.y + 16} ${from.x + (to.x - from.x) / 2},${to.y - 12}`;
    const step = one.remedy ? `${STEPS[one.remedy.step] || "a step"} is missing` : "nothing orders the two";
    return [svg("path", { d: `M${from.x},${from.y - 4} ${bend} ${to.x},${to.y - 4}`, fill: "none", stroke: "var(--critical)", "stroke-width": 2, "stroke-dasharray": "6 4", class: "lacks" }),
      svg("text", { x: to.x + 12, y: to.y + 13, style: "fill:var(--critical)" }, `no path from the other access to here: ${step}`)];
  }

  /** Edges that there are: meetings, and waits with what let them go on. */
  edges(items, nodes) {
    return items.flatMap((to) => {
      const [stream, k] = to.key.split(",").map(Number), cause = stream >= 0 ? this.app.data.streams[stream].cause[k] : null;
      const from = cause && cause.length ? nodes.get(cause.join(",")) : null;
      return from && from !== to ? [svg("line", { x1: from.x, y1: from.y - 4, x2: to.x, y2: to.y - 4, stroke: "var(--issue)", "stroke-width": 1.5, class: "orders" })] : [];
    });
  }

  needed(rows) {
    if (!rows.length) return el("span", {});
    return el("div", { class: "card" }, el("h2", {}, "what if a line were deleted"), el("div", { class: "wide" }, el("table", { id: "needed" },
      el("tr", {}, el("th", {}, "line"), el("th", { class: "words" }, "statement"), el("th", { class: "words" }, "without it")),
      rows.map((row) => el("tr", {}, el("td", {}, link(String(row.line), () => this.app.showLine(row.line))), el("td", { class: "words" }, row.text),
        el("td", { class: "words" }, row.needed ? `needed: ${row.finding}` : "redundant: nothing is found without it"))))));
  }
}

function remedyOf(one) {
  const [first, last] = one.where || [], where = last ? `, between line ${first} and line ${last}` : first ? `, before line ${first}` : "";
  return `${STEPS[one.step] || "a change"}${one.scope ? ` ${SCOPES[one.scope] || one.scope}` : ""}${where}${one.code ? `: ${one.code}` : ""}${one.why ? `; ${one.why}` : ""}`;
}

function threadsOf(threads) {
  if (!threads || !threads.length) return "";
  const span = (name, range) => (range ? ` ${name}${range[0] === range[1] ? ` ${range[0]}` : `s ${range[0]} to ${range[1]}`}` : "");
  const [one] = threads, more = threads.length > 1 ? ` and ${threads.length - 1} more` : "";
  return `CTA ${one.cta.join(", ")},${span("warp", one.warps)}${one.lanes ? "," : ""}${span("lane", one.lanes)}${more}`;
}
