/* The timeline: a row for each warp, unit and m-barrier; bars on the simulator's order or on estimated cycles. */

const ROW = 22, HEAD = 24, LABEL = 170, MARK = 5;
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
    this.flags = this.flagged();
    this.build();
  }

  build() {
    const ctas = [...new Set(this.data.streams.map((one) => one.cta))];
    this.ctas = el("select", { id: "cta", "aria-label": "CTA", onchange: () => this.chooseCta(this.ctas.value) },
      ctas.map((cta) => el("option", { value: cta }, `CTA ${cta}`)), ctas.length > 1 ? el("option", { value: "all" }, "all CTAs") : null);
    this.unit = el("select", { id: "units", "aria-label": "units of the axis", onchange: () => { this.units = this.unit.value; this.fit(); } },
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
      el("label", {}, this.path, " critical path"), this.search, this.count,
      this.data.findings.map((one, n) => this.flags.some((flag) => flag.finding === n) ? el("button", { type: "button", class: "finding", onclick: () => this.toFinding(n) }, `finding ${n + 1}`) : null)), this.stage, this.legend(),
      el("p", { class: "hint" }, "Wheel or ", el("kbd", {}, "+"), " ", el("kbd", {}, "-"), " zooms, drag or ", el("kbd", {}, "←"), " ",
        el("kbd", {}, "→"), " moves, ", el("kbd", {}, "↑"), " ", el("kbd", {}, "↓"), " changes the row, ", el("kbd", {}, "n"), " ",
        el("kbd", {}, "p"), " the bar, ", el("kbd", {}, "c"), " goes to the cause, ", this.flags.length ? [el("kbd", {}, "f"), " to the finding, "] : null, el("kbd", {}, "0"), " shows all, ",
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
    const wrong = this.data.findings.length ? [el("span", {}, el("i", { class: "torn" }), this.data.unfinished), this.flags.length ? el("span", {}, el("b", { class: "flag" }, "1"), "where finding 1 is") : null] : null;
    return el("div", { class: "legend" }, Object.entries(names).map(([name, words]) =>
      el("span", {}, el("i", { style: `background:var(--${name})` }), words)), el("span", {}, "▾ mark of T.trace"), wrong);
  }

  /** The bars that findings are about. */
  flagged() {
    return this.data.findings.flatMap((_, n) => Object.entries(this.app.placesOf(n)).filter(([, place]) => place).map(([role, place]) => ({ finding: n, role, place })));
  }

  chooseCta(cta) {
    this.cta = this.ctas.value = String(cta);
    this.rows();
    this.fit();
  }

  /** The rows that are shown. */
  rows() {
    const here = (one) => this.cta === "all" || String(one.cta) === this.cta;
    const tag = (one) => (this.cta === "all" ? `${one.cta}: ` : "");
    this.selected = null;
    const warps = this.data.streams.map((one, n) => ({ bars: one, label: `${tag(one)}warp ${one.warp} · ${one.role}`, stream: n, lanes: 1 }))
      .filter((row) => here(row.bars));
    const clocks = (this.data.measured || []).filter(here).map((one) => ({ bars: this.measured(one), label: `${tag(one)}GPU: warp ${one.warp} (${this.data.measured_unit})`, stream: -3, lanes: 1 }));
    const units = this.data.units.filter(here).map((one) => ({ bars: one, label: `${tag(one)}${one.name}`, stream: -1, lanes: 1 }));
    this.shown = [...warps, ...clocks, ...units.filter((row) => row.bars.unit === "unit"), ...units.filter((row) => row.bars.unit !== "unit")];
    for (const row of this.shown) {
      if (row.stream === -1 && row.bars.unit === "unit") this.pack(row);
      row.open = new Set(row.bars.open || []);
      row.name = row.stream >= 0 ? `w${row.stream}` : row.stream === -1 ? `u${this.data.units.indexOf(row.bars)}` : "";
    }
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
    this.moved();
  }

  /** What is in sight has changed. */
  moved() {
    this.draw();
    this.app.keep();
  }

  zoom(by, around = 0.5) {
    const middle = this.from + (this.to - this.from) * around, size = Math.max(2, (this.to - this.from) * by);
    if (size > (this.whole[1] - this.whole[0]) * 1.5) return;
    this.from = middle - size * around;
    this.to = this.from + size;
    this.moved();
  }

  pan(by) {
    const move = (this.to - this.from) * by;
    this.from += move;
    this.to += move;
    this.moved();
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
    this.drawFlags(pen);
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
    const marks = [];
    for (let k = 0; k < bars.a.length; k++) {
      const [begin, end] = this.span(row, k);
      if (end < this.from || begin > this.to) continue;
      const kind = bars.kind[k], x = this.x(begin), width = Math.max(kind === "stretch" ? 1 : 2, this.x(end) - x);
      const top = y + 2 + (row.lane ? row.lane[k] * size : 0), place = row.stream >= 0 ? `${row.stream},${k}` : row.bars.unit === "unit" ? `-1,${bars.number[k]}` : "";
      const on = this.app.line > 0 && bars.line[k] === this.app.line, hit = searching && this.hits.has(row.name + "." + k);
      pen.globalAlpha = searching && !hit ? 0.18 : 1;
      pen.fillStyle = this.theme[FILL[kind] || "phase"];
      if (kind === "mark") { marks.push([x, top, hit]); continue; }
      if (kind === "wait" || kind === "meet") this.hatched(pen, x, top, width, size);
      else if (kind === "phase" && row.open.has(k)) this.pale(pen, x, top, width, size);
      else pen.fillRect(x, top, kind === "phase" ? Math.max(1, width - 1) : width, Math.max(2, size - 1));
      if (row.open.has(k)) this.torn(pen, x + width, top, size);
      if (width > 46 && row.lanes === 1 && kind !== "wait" && kind !== "meet") {
        pen.fillStyle = kind === "phase" && row.open.has(k) ? this.theme.fore : kind === "phase" || kind === "operation" ? "#000" : "#fff";
        pen.fillText(fitted(pen, this.data.words[bars.word[k]], width - 6), Math.max(x, LABEL) + 3, top + 13);
      }
      if (critical && critical.has(place)) this.framed(pen, this.theme.critical, x, top, width, size);
      if (on) this.framed(pen, this.theme.fore, x, top, width, size);
      if (this.selected && this.selected.row === row && this.selected.k === k) this.framed(pen, this.theme.fore, x - 1, top - 1, width + 2, size + 1);
    }
    for (const [x, top, hit] of marks) this.marked(pen, x, top, searching && !hit);
    pen.globalAlpha = 1;
    pen.restore();
  }

  pale(pen, x, y, width, height) {
    pen.globalAlpha *= 0.3;
    pen.fillRect(x, y, width, height - 1);
    pen.globalAlpha /= 0.3;
    pen.strokeStyle = pen.fillStyle;
    pen.strokeRect(x + 0.5, y + 0.5, Math.max(1, width - 1), height - 2);
  }

  /** A mark stands at the upper edge, so that what begins there with it stays in sight. */
  marked(pen, x, y, pale) {
    pen.globalAlpha = pale ? 0.3 : 1;
    pen.fillStyle = this.theme.fore;
    pen.beginPath();
    pen.moveTo(x - MARK, y - 2);
    pen.lineTo(x + MARK, y - 2);
    pen.lineTo(x, y + MARK);
    pen.fill();
  }

  /** A bar that has no end: its edge is torn. */
  torn(pen, right, y, height) {
    const x = Math.min(right, this.width - 4);
    pen.fillStyle = this.theme.back;
    pen.beginPath();
    pen.moveTo(x + 1, y);
    for (let k = 0; k <= 4; k++) pen.lineTo(x - (k % 2 ? 0 : 4), y + (height * k) / 4);
    pen.lineTo(x + 1, y + height);
    pen.fill();
    pen.strokeStyle = this.theme.critical;
    pen.lineWidth = 1.5;
    pen.beginPath();
    for (let k = 0; k <= 4; k++) pen.lineTo(x - (k % 2 ? 0 : 4), y + (height * k) / 4);
    pen.stroke();
    pen.lineWidth = 1;
  }

  /** The numbers of findings at their bars, and a line between the two accesses of one. */
  drawFlags(pen) {
    const at = new Map();
    for (const { finding, role, place } of this.flags) {
      const found = this.where(place);
      if (!found) continue;
      const [x, y] = this.center(found.row, found.k, role === "here");
      if (x <= LABEL || x > this.width) continue;
      const begin = Math.max(LABEL, this.x(this.span(found.row, found.k)[0])), end = Math.max(begin + 2, this.x(this.span(found.row, found.k)[1]));
      this.framed(pen, this.theme.critical, begin, y - ROW / 2 + 1, Math.min(end, this.width) - begin, ROW - 1);
      if (role === "other" && at.has(finding)) this.dashed(pen, at.get(finding), [x, y]);
      at.set(finding, [x, y]);
      pen.fillStyle = this.theme.critical;
      pen.beginPath();
      pen.arc(x, y - 5, 7, 0, 7);
      pen.fill();
      pen.strokeStyle = this.theme.fore;
      pen.stroke();
      pen.fillStyle = this.theme.back;
      pen.textAlign = "center";
      pen.fillText(String(finding + 1), x, y - 1);
      pen.textAlign = "left";
    }
  }

  dashed(pen, from, to) {
    pen.strokeStyle = this.theme.critical;
    pen.setLineDash([6, 4]);
    pen.beginPath();
    pen.moveTo(...from);
    pen.lineTo(...to);
    pen.stroke();
    pen.setLineDash([]);
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

  /** Selects a place, whichever CTA it is of, with what is around it. */
  reveal([stream, n]) {
    const cta = stream >= 0 ? this.data.streams[stream].cta : this.data.units.find((one) => one.unit === "unit" && one.number.includes(n)).cta;
    if (this.cta !== "all" && this.cta !== String(cta)) this.chooseCta(cta);
    const { row, k } = this.where([stream, n]), [begin, end] = this.span(row, k);
    const size = Math.max((end - begin) * 3, (this.whole[1] - this.whole[0]) / 6);
    this.from = Math.max(this.whole[0], (begin + end - size) / 2);
    this.to = this.from + size;
    this.select(row, k, true);
  }

  flagAt(row, k) {
    return this.flags.find(({ place }) => { const found = this.where(place); return found && found.row === row && found.k === k; });
  }

  toFinding(n) {
    const { here, other } = this.app.placesOf(n);
    this.reveal(here || other);
  }

  /** The first bar of a line. */
  firstOf(line) {
    const found = this.shown.map((row) => [row, row.bars.line.indexOf(line)]).filter(([, k]) => k >= 0).sort(([a, j], [b, k]) => a.bars.a[j] - b.bars.a[k])[0]
      || this.shown.map((row) => [row, row.stream < 0 ? -1 : row.bars.ran.findIndex((n) => this.ranLines(n).has(line))]).find(([, k]) => k >= 0);
    if (found) this.select(...found, true);
  }

  /** The lines of a stretch. */
  ranLines(n) {
    return new Set(n < 0 ? [] : this.data.ran[n][0].map(([row]) => this.data.rows[row][3]));
  }

  state() {
    const near = this.whole && (this.from !== this.whole[0] || this.to !== this.whole[1]), short = (value) => String(Math.round(value * 10) / 10);
    return { cta: this.cta === String(this.data.streams[0].cta) ? "" : this.cta, units: this.units === "cycles" ? "" : this.units,
      span: near ? `${short(this.from)}..${short(this.to)}` : "", at: this.selected ? `${this.selected.row.name}.${this.selected.k}` : "",
      search: this.search.value, critical: this.path.checked ? "yes" : "" };
  }

  /** What an address asks for; gives what it asks for in vain. */
  read(asked) {
    const cta = asked.get("cta"), at = /^([wu]\d+)\.(\d+)$/.exec(asked.get("at") || ""), span = /^(-?[\d.]+)\.\.(-?[\d.]+)$/.exec(asked.get("span") || "");
    if (cta && ![...this.ctas.options].some((one) => one.value === cta)) return `CTA ${cta} is not recorded.`;
    this.unit.value = this.units = asked.get("units") === "order" ? "order" : "cycles";
    this.path.checked = asked.get("critical") === "yes";
    this.search.value = asked.get("search") || "";
    this.chooseCta(cta || this.data.streams[0].cta);
    const row = at && this.shown.find((one) => one.name === at[1]);
    if (row && Number(at[2]) < row.bars.a.length) this.select(row, Number(at[2]));
    if (span && Number(span[1]) < Number(span[2])) [this.from, this.to] = [Number(span[1]), Number(span[2])];
    this.draw();
    return asked.has("at") && !(row && Number(at[2]) < row.bars.a.length) ? `There is no bar ${asked.get("at")}.` : "";
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
      this.moved();
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
      ArrowDown: () => this.changeRow(1), ArrowUp: () => this.changeRow(-1), u: () => this.changeUnits(),
      f: () => this.flags.length && this.toFinding(this.flags[0].finding) }[event.key];
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
      if (row.bars.kind[k] === "mark" && y > top + MARK) continue;
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
    const flag = this.flagAt(row, k), finding = flag && this.data.findings[flag.finding];
    this.app.showLine((flag && (flag.role === "here" ? finding.line : finding.other.line)) || row.bars.line[k] || this.app.line, false);
    this.app.describe(this.describe(row, k));
    this.app.moment(row, k);
    this.draw();
  }

  describe(row, k) {
    const { bars } = row, { data } = this, place = row.stream >= 0 ? bars.cause[k] : [];
    const words = data.words[bars.word[k]], [begin, end] = [bars.c[k], bars.d[k]];
    const to = (at, text) => link(text, () => { const found = this.where(at); if (found) this.select(found.row, found.k, true); });
    const parts = [el("h2", {}, row.label), el("p", {}, words), facts(
      ["kind", bars.kind[k]], ["steps", `${number(bars.a[k])} to ${number(bars.b[k])}`],
      ["cycles", `${number(begin)} to ${number(end)} (${number(end - begin)}, estimated)`],
      ["line", bars.line[k] || ""], place.length && ["let go by", to(place, this.name(place))],
      bars.issued && bars.issued[k].length && ["issued by", to(bars.issued[k], `warp ${bars.by[k]}`)],
      row.open.has(k) && ["end", bars.kind[k] === "phase" ? "not over in what was recorded" : this.data.unfinished],
      ...this.atBarrier(row, k))];
    const flag = this.flagAt(row, k);
    if (flag) parts.splice(1, 0, el("p", { class: "wrong" }, link(`finding ${flag.finding + 1}`, () => { this.app.open("findings"); this.app.view.go(flag.finding); }), `: ${data.findings[flag.finding].message}`));
    if (row.stream >= 0 && data.stepped.some((one) => one.cta === bars.cta && one.warp === bars.warp)) parts.splice(1, 0, el("p", {}, link("in Step", () => this.app.open("step"))));
    const n = row.stream >= 0 ? bars.ran[k] : -1;
    if (n >= 0) parts.push(...this.ran(n));
    else if (bars.row && bars.row[k] >= 0) parts.push(el("pre", { class: "code", style: "white-space:pre-wrap" }, data.rows[bars.row[k]][0]));
    return parts;
  }

  /** Of a wait or a signal the m-barrier and its phase. */
  atBarrier(row, k) {
    const [unit, number] = (row.stream >= 0 && row.bars.kind[k] !== "meet" && row.bars.at[k]) || [], one = this.data.units[unit];
    if (!one) return [];
    const n = one.phase.findIndex((phase) => phase[1] === number);
    if (n < 0) return [];
    const to = () => { const found = this.shown.find((each) => each.bars === one); if (found) this.select(found, n, true); };
    return [["m-barrier", link(`${one.name}: ${this.data.words[one.word[n]]}`, to)]];
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
    const wanted = this.search.value.toLowerCase().trim(), known = new Map();
    this.hits = new Set();
    this.found = [];
    for (const row of wanted ? this.shown : []) {
      const whole = row.label.toLowerCase().includes(wanted);
      row.bars.word.forEach((word, k) => {
        const ran = row.stream >= 0 ? row.bars.ran[k] : -1, key = `${word},${row.bars.line[k]},${ran}`;
        if (!known.has(key)) known.set(key, this.textOf(word, row.bars.line[k], ran).includes(wanted));
        if (whole || known.get(key)) { this.hits.add(`${row.name}.${k}`); this.found.push([row, k]); }
      });
    }
    this.count.textContent = wanted ? `${number(this.found.length)} found` : "";
    this.at = -1;
    this.moved();
  }

  /** All that may be sought at a bar: its words, its line in the source, its statements, the buffers that they touch. */
  textOf(word, line, ran) {
    const { data } = this, [executed, moved] = ran >= 0 ? data.ran[ran] : [[], []];
    const source = (at) => data.files.map((file) => file.lines[at - 1] || "").join(" ");
    const parts = [data.words[word], line ? source(line) : "", ...executed.map(([row]) => `${data.rows[row][0]} ${source(data.rows[row][3])}`), ...moved.map(([site]) => data.sites[site][1])];
    return parts.join(" ").toLowerCase();
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
