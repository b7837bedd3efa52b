/* The timeline: a row for each warp, unit and m-barrier; bars on the simulator's order or on estimated cycles. */

const ROW = 22, HEAD = 24, LABEL = 170;
/** As much of a text as fits. */
function fitted(pen, text, width) {
  if (pen.measureText(text).width <= width) return text;
  const most = Math.floor((width / pen.measureText(text).width) * text.length) - 1;
  return most > 3 ? `${text.slice(0, most)}…` : "";
}

const FILL = { stretch: "stretch", wait: "wait", meet: "meet", issue: "issue", signal: "issue", commit: "issue",
  fence: "critical", operation: "unit", phase: "phase", mark: "fore", measured: "meet" };

class TimelineView {
  constructor(app) {
    this.app = app;
    this.data = app.data;
    this.units = "cycles";
    this.cta = String(app.data.streams.length ? app.data.streams[0].cta : 0);
    this.found = [];
    this.at = -1;
    this.build();
  }

  build() {
    const ctas = [...new Set(this.data.streams.map((one) => one.cta))];
    this.ctas = el("select", { id: "cta", onchange: () => { this.cta = this.ctas.value; this.rows(); this.fit(); } },
      ctas.map((cta) => el("option", { value: cta }, `CTA ${cta}`)), ctas.length > 1 ? el("option", { value: "all" }, "all CTAs") : null);
    this.unit = el("select", { id: "units", onchange: () => { this.units = this.unit.value; this.fit(); } },
      el("option", { value: "cycles" }, `estimated cycles (figures of an ${this.data.gpu})`),
      el("option", { value: "order" }, "steps: the simulator's order"));
    this.search = el("input", { id: "search", type: "search", placeholder: "search  /", "aria-label": "search bars",
      oninput: () => this.find(), onkeydown: (event) => { if (event.key === "Enter") this.nextFound(event.shiftKey ? -1 : 1); } });
    this.count = el("span", { class: "hint" });
    this.path = el("input", { type: "checkbox", id: "critical", onchange: () => this.draw() });
    this.canvas = el("canvas", { tabindex: "0", role: "img", "aria-label": "timeline; arrow keys move, plus and minus zoom" });
    this.stage = el("div", { class: "stage" }, this.canvas);
    this.node = el("div", {}, el("div", { class: "bar" }, this.ctas, this.unit,
      el("button", { type: "button", id: "zoom-in", onclick: () => this.zoom(0.5) }, "+"),
      el("button", { type: "button", id: "zoom-out", onclick: () => this.zoom(2) }, "−"),
      el("button", { type: "button", id: "fit", onclick: () => this.fit() }, "all"),
      el("label", {}, this.path, " critical path"), this.search, this.count), this.stage, this.legend(),
      el("p", { class: "hint" }, "Wheel or ", el("kbd", {}, "+"), " ", el("kbd", {}, "-"), " zooms, drag or ", el("kbd", {}, "←"), " ",
        el("kbd", {}, "→"), " moves, ", el("kbd", {}, "↑"), " ", el("kbd", {}, "↓"), " changes the row, ", el("kbd", {}, "n"), " ",
        el("kbd", {}, "p"), " the bar, ", el("kbd", {}, "c"), " goes to the cause, ", el("kbd", {}, "0"), " shows all, ",
        el("kbd", {}, "1"), "–", el("kbd", {}, "4"), " changes the view."), this.compared());
    this.listen();
    this.rows();
  }

  /** Where the GPU waited, and whether its marks came in the same order. */
  compared() {
    const { measured, differs, waits, measured_unit: unit } = this.data;
    if (!measured) return el("span", {});
    return el("div", { class: "card", id: "measured" }, el("h2", {}, `marks on the clock (${unit})`),
      el("p", {}, differs.length ? `in another order than in the simulator: ${differs.join("; ")}` : "each warp's marks came in the simulator's order"),
      el("div", { class: "wide" }, el("table", {}, el("tr", {}, ["from", "to", "times", `${unit} in all`].map((name) => el("th", {}, name))),
        waits.slice(0, 12).map((row) => el("tr", {}, row.map((value) => el("td", {}, typeof value === "number" ? number(value) : value)))))));
  }

  legend() {
    const names = { stretch: "executes", wait: "waits", meet: "at a barrier", issue: "issues, signals", unit: "operation under way",
      phase: "phase of an m-barrier", critical: "fence; critical path" };
    return el("div", { class: "legend" }, Object.entries(names).map(([name, words]) =>
      el("span", {}, el("i", { style: `background:var(--${name})` }), words)));
  }

  /** The rows that are shown. */
  rows() {
    const here = (one) => this.cta === "all" || String(one.cta) === this.cta;
    const tag = (one) => (this.cta === "all" ? `${one.cta}: ` : "");
    const warps = this.data.streams.map((one, n) => ({ bars: one, label: `${tag(one)}warp ${one.warp} · ${one.role}`, stream: n, lanes: 1 }))
      .filter((row) => here(row.bars));
    const clocks = (this.data.measured || []).filter(here).map((one) => ({ bars: this.measured(one), label: `${tag(one)}GPU: warp ${one.warp} (${this.data.measured_unit})`, stream: -3, lanes: 1 }));
    const units = this.data.units.filter(here).map((one) => ({ bars: one, label: `${tag(one)}${one.name}`, stream: -1, lanes: 1 }));
    this.shown = [...warps, ...clocks, ...units.filter((row) => row.bars.unit === "unit"), ...units.filter((row) => row.bars.unit !== "unit")];
    for (const row of this.shown) if (row.stream === -1) this.pack(row);
    this.row = Math.min(this.row || 0, this.shown.length - 1);
    this.find();
  }

  /** Marks that were stamped on a GPU, as bars; on the simulator's order they are counted. */
  measured(one) {
    const word = one.name.map((name) => { let at = this.data.words.indexOf(name); if (at < 0) at = this.data.words.push(name) - 1; return at; });
    return { kind: one.name.map(() => "measured"), word, line: one.line, c: one.c, d: one.d, a: one.c.map((_, k) => k), b: one.c.map((_, k) => k + 1), number: [] };
  }

  /** Operations that overlap lie below each other. */
  pack(row) {
    const ends = [], { a, b } = row.bars;
    row.lane = a.map((begin, k) => {
      let lane = ends.findIndex((end) => end <= begin);
      if (lane < 0 && ends.length < 4) { lane = ends.length; ends.push(0); }
      if (lane < 0) lane = k % 4;
      ends[lane] = Math.max(ends[lane] || 0, b[k]);
      return lane;
    });
    row.lanes = Math.max(1, ends.length);
  }

  span(row, k) {
    const { a, b, c, d } = row.bars;
    return this.units === "cycles" ? [c[k], d[k]] : [a[k], b[k]];
  }

  fit() {
    let first = Infinity, last = 0;
    for (const row of this.shown) {
      for (let k = 0; k < row.bars.a.length; k++) {
        const [x, y] = this.span(row, k);
        first = Math.min(first, x);
        last = Math.max(last, y);
      }
    }
    this.from = Number.isFinite(first) ? first : 0;
    this.to = Math.max(last, this.from + 1) * 1.01;
    this.whole = [this.from, this.to];
    this.draw();
  }

  zoom(by, around = 0.5) {
    const middle = this.from + (this.to - this.from) * around, size = Math.max(2, (this.to - this.from) * by);
    if (size > (this.whole[1] - this.whole[0]) * 1.5) return;
    this.from = middle - size * around;
    this.to = this.from + size;
    this.draw();
  }

  pan(by) {
    const move = (this.to - this.from) * by;
    this.from += move;
    this.to += move;
    this.draw();
  }

  x(value) {
    return LABEL + ((value - this.from) / (this.to - this.from)) * (this.width - LABEL - 6);
  }

  draw() {
    if (!this.node.isConnected) return;
    const ratio = window.devicePixelRatio || 1, canvas = this.canvas;
    this.width = this.stage.clientWidth - 2;
    this.height = HEAD + this.shown.length * ROW + 8;
    canvas.style.height = `${this.height}px`;
    canvas.width = this.width * ratio;
    canvas.height = this.height * ratio;
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.font = "12px system-ui, sans-serif";
    this.theme = Object.fromEntries(["fore", "faint", "line", "soft", "back", ...Object.values(FILL)].map((name) => [name, colour(name)]));
    const critical = this.path.checked ? new Set(this.data.critical.map(String)) : null;
    this.axis(pen);
    this.shown.forEach((row, n) => this.drawRow(pen, row, n, critical));
    this.arrow(pen);
  }

  axis(pen) {
    const size = this.to - this.from, rough = size / Math.max(2, this.width / 110);
    const power = 10 ** Math.floor(Math.log10(rough)), step = Math.max(1, [1, 2, 5, 10].map((m) => m * power).find((m) => m >= rough));
    pen.fillStyle = this.theme.faint;
    pen.strokeStyle = this.theme.line;
    pen.textAlign = "center";
    for (let at = Math.ceil(this.from / step) * step; at < this.to; at += step) {
      const x = this.x(at);
      if (x < LABEL) continue;
      pen.fillText(number(at), x, 15);
      pen.beginPath();
      pen.moveTo(x, HEAD);
      pen.lineTo(x, this.height);
      pen.stroke();
    }
  }

  drawRow(pen, row, n, critical) {
    const y = HEAD + n * ROW, { bars } = row, size = (ROW - 4) / row.lanes;
    if (n === this.row) {
      pen.fillStyle = this.theme.soft;
      pen.fillRect(0, y, this.width, ROW);
    }
    pen.fillStyle = this.theme.fore;
    pen.textAlign = "left";
    pen.fillText(row.label, 6, y + 15, LABEL - 12);
    pen.save();
    pen.beginPath();
    pen.rect(LABEL, y, this.width - LABEL, ROW);
    pen.clip();
    const searching = this.search.value !== "";
    for (let k = 0; k < bars.a.length; k++) {
      const [begin, end] = this.span(row, k);
      if (end < this.from || begin > this.to) continue;
      const kind = bars.kind[k], x = this.x(begin), width = Math.max(kind === "stretch" ? 1 : 2, this.x(end) - x);
      const top = y + 2 + (row.lane ? row.lane[k] * size : 0), place = row.stream >= 0 ? `${row.stream},${k}` : row.bars.unit === "unit" ? `-1,${bars.number[k]}` : "";
      const on = this.app.line > 0 && bars.line[k] === this.app.line, hit = searching && this.hits.has(bars.word[k]);
      pen.globalAlpha = searching && !hit ? 0.18 : 1;
      pen.fillStyle = this.theme[FILL[kind] || "phase"];
      if (kind === "wait" || kind === "meet") this.hatched(pen, x, top, width, size);
      else pen.fillRect(x, top, width, Math.max(2, size - 1));
      if (width > 46 && row.lanes === 1 && kind !== "wait" && kind !== "meet") {
        pen.fillStyle = kind === "phase" || kind === "operation" ? "#000" : "#fff";
        pen.fillText(fitted(pen, this.data.words[bars.word[k]], width - 6), Math.max(x, LABEL) + 3, top + 13);
      }
      if (critical && critical.has(place)) this.framed(pen, this.theme.critical, x, top, width, size);
      if (on) this.framed(pen, this.theme.fore, x, top, width, size);
      if (this.selected && this.selected.row === row && this.selected.k === k) this.framed(pen, this.theme.fore, x - 1, top - 1, width + 2, size + 1);
    }
    pen.globalAlpha = 1;
    pen.restore();
  }

  /** Waits differ from work by their pattern, too. */
  hatched(pen, x, y, width, height) {
    pen.globalAlpha *= 0.35;
    pen.fillRect(x, y, width, height);
    pen.globalAlpha /= 0.35;
    pen.strokeStyle = pen.fillStyle;
    pen.lineWidth = 1;
    pen.strokeRect(x + 0.5, y + 0.5, Math.max(1, width - 1), height - 1);
    pen.beginPath();
    for (let at = x + 4; at < Math.min(x + width, this.width); at += 7) {
      pen.moveTo(at, y + height);
      pen.lineTo(Math.min(at + 5, x + width), y);
    }
    pen.stroke();
  }

  framed(pen, ink, x, y, width, height) {
    pen.strokeStyle = ink;
    pen.lineWidth = 2;
    pen.strokeRect(x, y, width, Math.max(2, height - 1));
    pen.lineWidth = 1;
  }

  /** From what let a wait go on to the wait. */
  arrow(pen) {
    const place = this.selected && this.selected.row.stream >= 0 ? this.data.streams[this.selected.row.stream].cause[this.selected.k] : null;
    const from = place && place.length ? this.where(place) : null;
    if (!from) return;
    const to = this.center(this.selected.row, this.selected.k, true), at = this.center(from.row, from.k, true);
    pen.strokeStyle = this.theme.critical;
    pen.lineWidth = 2;
    pen.beginPath();
    pen.moveTo(...at);
    pen.bezierCurveTo(at[0] + 30, at[1], to[0] - 30, to[1], ...to);
    pen.stroke();
    pen.beginPath();
    pen.arc(...to, 3, 0, 7);
    pen.stroke();
    pen.lineWidth = 1;
  }

  center(row, k, atEnd) {
    const [begin, end] = this.span(row, k);
    return [Math.max(LABEL, this.x(atEnd ? end : begin)), HEAD + this.shown.indexOf(row) * ROW + ROW / 2];
  }

  /** The row and bar of a place: of a stream's event, or of an operation. */
  where([stream, n]) {
    for (const row of this.shown) {
      if (stream >= 0 && row.stream === stream) return { row, k: n };
      if (stream === -1 && row.bars.unit === "unit" && row.bars.number.includes(n)) return { row, k: row.bars.number.indexOf(n) };
    }
    return null;
  }

  // Input

  listen() {
    const { canvas } = this;
    canvas.addEventListener("wheel", (event) => {
      if (event.shiftKey) return;
      event.preventDefault();
      const around = Math.min(1, Math.max(0, (event.offsetX - LABEL) / (this.width - LABEL)));
      if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.pan(event.deltaX / this.width);
      else this.zoom(event.deltaY > 0 ? 1.25 : 0.8, around);
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => { this.drag = { x: event.offsetX, from: this.from, to: this.to, moved: false }; });
    canvas.addEventListener("pointermove", (event) => {
      if (!this.drag) { canvas.title = this.tip(event.offsetX, event.offsetY); return; }
      const by = ((this.drag.x - event.offsetX) / (this.width - LABEL)) * (this.drag.to - this.drag.from);
      this.drag.moved = this.drag.moved || Math.abs(this.drag.x - event.offsetX) > 3;
      [this.from, this.to] = [this.drag.from + by, this.drag.to + by];
      this.draw();
    });
    canvas.addEventListener("pointerup", (event) => {
      if (this.drag && !this.drag.moved) this.click(event.offsetX, event.offsetY);
      this.drag = null;
    });
    canvas.addEventListener("pointerleave", () => { this.drag = null; });
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  key(event) {
    const does = { ArrowLeft: () => this.pan(-0.2), ArrowRight: () => this.pan(0.2), "+": () => this.zoom(0.5), "=": () => this.zoom(0.5),
      "-": () => this.zoom(2), 0: () => this.fit(), n: () => this.step(1), p: () => this.step(-1), c: () => this.toCause(),
      ArrowDown: () => this.changeRow(1), ArrowUp: () => this.changeRow(-1), u: () => this.changeUnits() }[event.key];
    if (!does || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    does();
  }

  changeUnits() {
    this.unit.value = this.units = this.units === "cycles" ? "order" : "cycles";
    this.fit();
  }

  changeRow(by) {
    this.row = Math.min(this.shown.length - 1, Math.max(0, this.row + by));
    this.draw();
  }

  step(by) {
    const row = this.shown[this.row];
    const k = this.selected && this.selected.row === row ? this.selected.k + by : 0;
    if (row && k >= 0 && k < row.bars.a.length) this.select(row, k, true);
  }

  toCause() {
    const row = this.selected && this.selected.row;
    const place = row && (row.stream >= 0 ? row.bars.cause[this.selected.k] : row.bars.issued && row.bars.issued[this.selected.k]);
    const found = place && place.length ? this.where(place) : null;
    if (found) this.select(found.row, found.k, true);
  }

  hit(x, y) {
    const n = Math.floor((y - HEAD) / ROW), row = this.shown[n];
    if (!row) return null;
    let best = null;
    for (let k = 0; k < row.bars.a.length && x >= LABEL; k++) {
      const [begin, end] = this.span(row, k), left = this.x(begin) - 2, right = Math.max(this.x(end), left + 4) + 2;
      const size = (ROW - 4) / row.lanes, top = HEAD + n * ROW + 2 + (row.lane ? row.lane[k] * size : 0);
      if (x >= left && x <= right && (row.lanes === 1 || (y >= top && y <= top + size)) && (!best || right - left <= best.size)) best = { row, k, size: right - left };
    }
    return best || { row, k: -1 };
  }

  tip(x, y) {
    const found = this.hit(x, y);
    return found && found.k >= 0 ? this.data.words[found.row.bars.word[found.k]] : "";
  }

  click(x, y) {
    const found = this.hit(x, y);
    this.canvas.focus();
    if (!found) return;
    this.row = this.shown.indexOf(found.row);
    if (found.k >= 0) this.select(found.row, found.k);
    else this.draw();
  }

  select(row, k, reveal = false) {
    this.selected = { row, k };
    this.row = this.shown.indexOf(row);
    if (reveal) {
      const [begin, end] = this.span(row, k), size = this.to - this.from;
      if (begin < this.from || end > this.to) { this.from = begin - size * 0.3; this.to = this.from + size; }
      const y = HEAD + this.row * ROW;
      if (y < this.stage.scrollTop || y > this.stage.scrollTop + this.stage.clientHeight - ROW) this.stage.scrollTop = y - 60;
    }
    this.app.showLine(row.bars.line[k], false);
    this.app.describe(this.describe(row, k));
    this.app.moment(row, k);
    this.draw();
  }

  describe(row, k) {
    const { bars } = row, { data } = this, place = row.stream >= 0 ? bars.cause[k] : [];
    const words = data.words[bars.word[k]], [begin, end] = [bars.c[k], bars.d[k]];
    const link = (at, text) => el("a", { tabindex: "0", onclick: () => { const to = this.where(at); if (to) this.select(to.row, to.k, true); } }, text);
    const parts = [el("h2", {}, row.label), el("p", {}, words), facts(
      ["kind", bars.kind[k]], ["steps", `${number(bars.a[k])} to ${number(bars.b[k])}`],
      ["cycles", `${number(begin)} to ${number(end)} (${number(end - begin)}, estimated)`],
      ["line", bars.line[k] || ""], place.length && ["let go by", link(place, this.name(place))],
      bars.issued && bars.issued[k].length && ["issued by", link(bars.issued[k], `warp ${bars.by[k]}`)],
      bars.open && bars.open[k] && ["complete", "never in this run"])];
    const n = row.stream >= 0 ? bars.ran[k] : -1;
    if (n >= 0) parts.push(...this.ran(n));
    else if (bars.row && bars.row[k] >= 0) parts.push(el("pre", { class: "code", style: "white-space:pre-wrap" }, data.rows[bars.row[k]][0]));
    return parts;
  }

  name([stream, n]) {
    if (stream < 0) {
      const found = this.where([stream, n]);
      return found ? `${found.row.label}: ${this.data.words[found.row.bars.word[found.k]]}` : `operation ${n}`;
    }
    const one = this.data.streams[stream];
    return `CTA ${one.cta}, warp ${one.warp}: ${this.data.words[one.word[n]]}`;
  }

  /** Statements of a stretch, and what they moved. */
  ran(n) {
    const [executed, moved] = this.data.ran[n], { rows, sites } = this.data;
    const lines = executed.map(([row, times]) => el("tr", { onclick: () => this.app.showLine(rows[row][3]) },
      el("td", {}, `${times}×`), el("td", {}, rows[row][3] || ""), el("td", { class: "words" }, rows[row][0].slice(0, 140))));
    const touched = moved.map(([site, times, , nbytes, passes, ideal, sectors]) => el("tr", {},
      el("td", { class: "words" }, `${sites[site][0]} ${sites[site][3] ? "to" : "from"} ${sites[site][1]}`), el("td", {}, `${times}×`),
      el("td", {}, byteWords(nbytes)), el("td", { class: passes > ideal ? "hot" : "" },
        sites[site][2] === "shared" ? `${passes} wavefronts (${ideal} ideal)` : `${sectors} sectors`)));
    return [el("h2", {}, "statements"), el("div", { class: "wide" }, el("table", {}, lines)),
      touched.length ? el("h2", {}, "memory") : null, touched.length ? el("div", { class: "wide" }, el("table", {}, touched)) : null];
  }

  // Search

  find() {
    const wanted = this.search.value.toLowerCase();
    this.hits = new Set();
    this.found = [];
    if (wanted) {
      this.data.words.forEach((word, n) => { if (word.toLowerCase().includes(wanted)) this.hits.add(n); });
      for (const row of this.shown) row.bars.word.forEach((word, k) => { if (this.hits.has(word)) this.found.push([row, k]); });
    }
    this.count.textContent = wanted ? `${number(this.found.length)} found` : "";
    this.at = -1;
    this.draw();
  }

  nextFound(by) {
    if (!this.found.length) return;
    this.at = (this.at + by + this.found.length) % this.found.length;
    this.select(...this.found[this.at], true);
  }

  show() {
    if (this.from === undefined) this.fit();
    this.draw();
  }

  /** The first bar of a line is selected from elsewhere. */
  lineShown() {
    this.draw();
  }
}
