/* The page: tabs, source, what is selected. A click on a line or a bar marks the same in every view. */

const VIEWS = [["timeline", "Timeline"], ["step", "Step"], ["findings", "Findings"], ["layout", "Layout"]];

class App {
  constructor(data) {
    this.data = data;
    this.line = 0;
    this.views = {};
    this.notice = document.getElementById("notice");
    const recorded = data.streams !== undefined;
    document.getElementById("title").textContent = recorded ? data.kernel : "Layouts";
    this.tabs(recorded);
    this.facts(recorded);
    if (recorded) this.source();
    else document.getElementById("side").remove();
    document.addEventListener("keydown", (event) => this.key(event));
    window.addEventListener("resize", () => this.view && this.view.show());
    document.getElementById("theme").addEventListener("click", () => this.theme(!document.documentElement.classList.contains("dark")));
    window.addEventListener("hashchange", () => this.read(recorded));
    this.read(recorded);
  }

  /** What the address asks for; what it asks for in vain is said. */
  read(recorded) {
    const asked = address.read(), name = asked.get("view"), known = VIEWS.map(([one]) => one).filter((one) => recorded || one === "layout");
    this.notice.textContent = name && !known.includes(name) ? `This page has no view "${name}"; it has ${known.join(", ")}.` : "";
    this.restored = true;
    this.open(known.includes(name) ? name : recorded ? this.data.view : "layout");
    const said = name && this.view.read ? this.view.read(asked) : "";
    if (said) this.notice.textContent = said;
    if (asked.has("line")) this.showLine(Number(asked.get("line")));
    this.restored = false;
  }

  /** What is looked at goes into the address, once it stays for a moment. */
  keep() {
    if (this.restored) return;
    clearTimeout(this.keeping);
    this.keeping = setTimeout(() => address.write({ view: this.name, ...(this.view.state ? this.view.state() : {}), line: this.byLine ? this.line : "" }), 120);
  }

  theme(dark) {
    document.documentElement.classList.toggle("dark", dark);
    if (this.view) this.view.show();
  }

  tabs(recorded) {
    const nav = document.getElementById("tabs");
    for (const [name, words] of recorded ? VIEWS : []) {
      const many = name === "findings" && this.data.findings.length ? ` (${this.data.findings.length})` : "";
      nav.append(el("button", { type: "button", role: "tab", id: `tab-${name}`, onclick: () => this.open(name) }, words + many));
    }
  }

  facts(recorded) {
    const { data } = this, node = document.getElementById("facts");
    if (!recorded) { node.remove(); return; }
    const ctas = new Set(data.streams.map((one) => one.cta)).size;
    const parts = [`${data.target}, grid ${data.grid.join(" x ")}, ${data.threads} threads a CTA`, `${ctas} CTA${ctas === 1 ? "" : "s"} recorded`,
      `about ${number(data.end)} cycles, estimated by the figures of an ${data.gpu}`];
    if (data.left_out) parts.push(`left out: ${data.left_out}`);
    node.textContent = parts.join(" · ");
  }

  open(name) {
    const known = VIEWS.some(([one]) => one === name) ? name : "timeline";
    const made = { timeline: () => new TimelineView(this), step: () => new StepView(this), findings: () => new FindingsView(this),
      layout: () => new ExplorerView(this) };
    this.views[known] = this.views[known] || made[known]();
    this.view = this.views[known];
    this.name = known;
    document.getElementById("view").replaceChildren(this.view.node);
    for (const tab of document.querySelectorAll("[role=tab]")) tab.setAttribute("aria-selected", String(tab.id === `tab-${known}`));
    this.view.show();
    if (!this.restored) { this.notice.textContent = ""; this.keep(); }
  }

  key(event) {
    if (["INPUT", "TEXTAREA", "SELECT"].includes(event.target.tagName)) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const tab = VIEWS[Number(event.key) - 1];
    if (tab && this.data.streams) this.open(tab[0]);
    else if (event.key === "/" && this.views.timeline && this.name === "timeline") { event.preventDefault(); this.views.timeline.search.focus(); }
    else if (event.target.tagName !== "CANVAS" && this.view.key) this.view.key(event);
  }

  describe(parts) {
    const node = document.getElementById("detail");
    if (node) node.replaceChildren(...parts.filter((part) => part));
  }

  // Source

  /** The lines with how often warps executed them, as a stripe. */
  source() {
    const heat = this.heat(), node = document.getElementById("source");
    this.lines = new Map();
    this.data.files.forEach((file, number) => {
      const used = new Set(this.data.rows.filter((row) => row[2] === number).map((row) => row[3]));
      if (!used.size) return;
      node.append(el("h2", {}, file.name));
      const most = Math.max(1, ...heat.values());
      file.lines.forEach((text, at) => {
        const line = at + 1, warm = heat.get(`${number}:${line}`) || 0;
        const row = el("div", { class: "row code", title: warm ? `${number_(warm)} executions by warps` : "", onclick: () => this.showLine(line) },
          el("span", { style: warm ? `background:var(--stretch);opacity:${0.15 + 0.85 * Math.sqrt(warm / most)}` : "" }),
          el("span", { class: "n", "data-n": line }), el("span", { class: "text" }, text || " "));
        if (!this.lines.has(line)) this.lines.set(line, []);
        this.lines.get(line).push(row);
        node.append(row);
      });
    });
    const first = node.querySelector("[title]:not([title=''])");
    if (first) node.scrollTop = first.offsetTop - node.offsetTop - 60;
    this.describe([el("p", { class: "hint" }, "Click a bar, a line, a thread or a byte: the same is marked in every view.")]);
  }

  heat() {
    const heat = new Map();
    for (const stream of this.data.streams) {
      for (const n of stream.ran) {
        for (const [row, times] of n >= 0 ? this.data.ran[n][0] : []) {
          const key = `${this.data.rows[row][2]}:${this.data.rows[row][3]}`;
          heat.set(key, (heat.get(key) || 0) + times);
        }
      }
    }
    return heat;
  }

  showLine(line, scroll = true) {
    if (!this.lines) return;
    for (const row of this.lines.get(this.line) || []) row.classList.remove("on");
    this.line = line;
    const rows = this.lines.get(line) || [];
    for (const row of rows) row.classList.add("on");
    const pane = document.getElementById("source");
    if (rows.length) pane.scrollTop = rows[0].offsetTop - pane.offsetTop - pane.clientHeight / 2;
    this.byLine = scroll;
    this.keep();
    if (scroll) {
      this.describe(this.lineFacts(line));
      if (this.view.lineShown) this.view.lineShown(line);
    }
  }

  lineFacts(line) {
    const rows = this.data.rows.map((row, n) => [row, n]).filter(([row]) => row[3] === line);
    const found = this.data.findings.filter((one) => one.line === line || (one.other && one.other.line === line));
    return [el("h2", {}, `line ${line}`), rows.length ? null : el("p", { class: "hint" }, "nothing is executed here"),
      ...found.map((one) => el("p", { class: "wrong" }, one.message)),
      rows.length ? el("p", {}, link("first time in the Timeline", () => { this.open("timeline"); this.views.timeline.firstOf(line); }), " ", link("in Step", () => { this.open("step"); this.views.step.lineShown(line); })) : null,
      el("table", {}, rows.map(([row]) => el("tr", {}, el("td", {}, row[1]), el("td", { class: "words" }, row[0].slice(0, 200)))))];
  }

  /** A moment that was selected in the timeline: the steps go there. */
  moment(row, k) {
    if (row.stream < 0) return;
    const { cta, warp } = this.data.streams[row.stream];
    this.views.step = this.views.step || new StepView(this);
    this.views.step.goTo(cta, warp, row.bars.a[k]);
  }

  /** Both accesses of each finding, as places: those of the finding's own moment. */
  placesOf(n) {
    const [here, other] = this.data.moments[n] || [];
    return { here: here || null, other: other || null };
  }

  laneOf(n) {
    const lane = (this.data.moments[n] || [])[2];
    return lane >= 0 ? lane : null;
  }

  inTimeline(place) {
    this.open("timeline");
    this.views.timeline.reveal(place);
  }

  /** The statement of a place; of an operation that which issued it. lane: which is marked. */
  inStep(place, lane) {
    this.open("step");
    this.views.step.reveal(place, lane);
  }

  /** The event that issued an operation. */
  issueOf(n) {
    for (const unit of this.data.units) {
      const at = unit.unit === "unit" ? unit.number.indexOf(n) : -1;
      if (at >= 0) return unit.issued[at].length ? [...unit.issued[at], -1] : null;
    }
    return null;
  }
}

const number_ = number;

async function start(packed, stepped) {
  const dark = window.matchMedia && window.matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.classList.toggle("dark", dark);
  try {
    const data = await inflated(packed);
    data.stepped = (await Promise.all(stepped.map(inflated))).filter((one) => one.row.length);
    window.look = new App(data);
    document.documentElement.dataset.ready = "yes";
  } catch (error) {
    document.getElementById("view").append(el("p", { class: "wrong" }, `this page could not be drawn: ${error.message}`));
    throw error;
  }
}
