/* The steps of one warp: statement by statement, forward and back, with lanes, registers, tiles and banks. */

class StepView {
  constructor(app) {
    this.app = app;
    this.all = app.data.stepped;
    this.swizzle = true;
    this.node = el("div", {});
    this.at = 0;
    if (!this.all.length) {
      this.node.append(el("p", { class: "hint" }, "No statements were kept one by one: see RecordingOptions(stepped=, nbytes=)."));
      return;
    }
    this.who = el("select", { id: "who", "aria-label": "warp", onchange: () => this.choose(Number(this.who.value)) },
      this.all.map((one, n) => el("option", { value: n }, `CTA ${one.cta}, warp ${one.warp}${one.whole ? "" : one.start ? " (its last statements)" : " (its first statements)"}`)));
    this.slider = el("input", { id: "slider", type: "range", min: 0, value: 0, style: "flex:1;min-width:140px", "aria-label": "statement", oninput: () => this.to(Number(this.slider.value)) });
    this.place = el("span", { class: "hint" });
    const button = (id, words, by) => el("button", { type: "button", id, onclick: () => this.to(this.at + by) }, words);
    this.body = el("div", {});
    this.node.append(el("div", { class: "bar" }, this.who, button("back", "◀ back", -1), button("forward", "forward ▶", 1),
      el("button", { type: "button", id: "same-line", onclick: () => this.sameLine() }, "this line again"), this.slider, this.place), this.body,
    el("p", { class: "hint" }, el("kbd", {}, "←"), " ", el("kbd", {}, "→"), " step, ", el("kbd", {}, "l"), " goes to the next time that this line runs, ", el("kbd", {}, "s"), " switches the swizzle", this.firstFinding() ? [", ", el("kbd", {}, "f"), " goes to the finding"] : null, "."));
    this.choose(0);
    if (this.firstFinding()) this.toFinding();
  }

  /** The first access of a finding whose statements are here. */
  firstFinding() {
    return this.app.data.findings.flatMap((_, n) => [[this.app.placesOf(n).here, this.app.laneOf(n)], [this.app.placesOf(n).other, null]])
      .find(([place]) => place && this.stepOf(place) !== null);
  }

  toFinding() {
    const found = this.firstFinding();
    if (found) this.reveal(...found);
  }

  /** The number of the warp and of the statement of a place; null where it is not kept. */
  stepOf(place) {
    const [stream, event, step] = place[0] >= 0 ? place : this.app.issueOf(place[1]) || [-1];
    if (stream < 0) return null;
    const { cta, warp, a } = this.app.data.streams[stream], n = this.all.findIndex((one) => one.cta === cta && one.warp === warp);
    if (n < 0) return null;
    const at = step >= 0 ? step - this.all[n].start : this.all[n].seq.findLastIndex((seq) => seq < a[event]);
    return at >= 0 && at < this.all[n].row.length ? [n, at] : null;
  }

  reveal(place, lane) {
    const found = this.all.length ? this.stepOf(place) : null;
    if (!found) return;
    if (lane !== null && lane !== undefined) this.lane = lane;
    this.choose(...found);
  }

  state() {
    return this.all.length ? { warp: `${this.one.cta}.${this.one.warp}`, step: this.at + this.one.start, lane: this.lane ?? "" } : {};
  }

  read(asked) {
    if (!this.all.length || !asked.has("warp")) return "";
    const n = this.all.findIndex((one) => `${one.cta}.${one.warp}` === asked.get("warp")), at = Number(asked.get("step"));
    if (n < 0) return `There are no statements of CTA and warp ${asked.get("warp")}.`;
    if (asked.has("lane")) this.lane = Number(asked.get("lane"));
    this.choose(n, at - this.all[n].start);
    return this.at + this.one.start === at ? "" : `There is no statement ${at} of this warp.`;
  }

  choose(n, at = 0) {
    this.one = this.all[n];
    this.who.value = String(n);
    this.words = this.words || new Map();
    if (!this.words.has(n)) this.words.set(n, new Uint32Array(bytesOf(this.one.words).buffer));
    this.bits = this.words.get(n);
    this.slider.max = String(this.one.row.length - 1);
    this.starts = [0];
    for (const changed of this.one.changed) this.starts.push(this.starts[this.starts.length - 1] + changed.length);
    this.to(at);
  }

  goTo(cta, warp, seq) {
    const n = (this.all || []).findIndex((one) => one.cta === cta && one.warp === warp);
    if (n < 0) return;
    const own = this.all[n].seq;
    let at = own.findIndex((each) => each >= seq - 1);
    if (at < 0) at = own.length - 1;
    this.choose(n, at);
  }

  to(at) {
    this.at = Math.max(0, Math.min(this.one.row.length - 1, at || 0));
    if (this.app.view === this) { this.draw(); this.app.keep(); }
  }

  key(event) {
    const does = { ArrowRight: () => this.to(this.at + 1), ArrowLeft: () => this.to(this.at - 1), l: () => this.sameLine(), s: () => { this.swizzle = !this.swizzle; this.draw(); }, f: () => this.toFinding(),
      Home: () => this.to(0), End: () => this.to(Infinity) }[event.key];
    if (!does || !this.all.length || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    does();
  }

  sameLine() {
    const line = this.app.data.rows[this.one.row[this.at]][3];
    this.seekLine(line);
  }

  seekLine(line) {
    const { rows } = this.app.data, n = this.one.row.length;
    for (let k = 1; k <= n; k++) {
      const at = (this.at + k) % n;
      if (rows[this.one.row[at]][3] === line) { this.to(at); return; }
    }
  }

  lineShown(line) {
    if (this.all.length) this.seekLine(line);
  }

  show() {
    if (this.all.length) this.draw();
  }

  draw() {
    const { one, at } = this, row = this.app.data.rows[one.row[at]];
    this.slider.value = String(at);
    this.place.textContent = `statement ${number(at + one.start + 1)} of ${number(one.start + one.row.length)}`;
    this.app.showLine(row[3], false);
    const mask = one.lanes[at], on = Array.from({ length: 32 }, (_, lane) => Math.floor(mask / 2 ** lane) % 2 === 1);
    this.body.replaceChildren(el("pre", { class: "code card", id: "statement", style: "white-space:pre-wrap;margin:4px 0" }, row[0]), this.wrong(),
      el("h2", {}, `lanes: ${on.filter(Boolean).length} of 32 take part`), this.lanes(on, this.values(one.value[at])), ...this.accesses(on), ...this.tensor(), ...this.registers());
  }

  /** The findings that are made here, and a way to the moment in the timeline. */
  wrong() {
    const { streams, findings } = this.app.data, stream = streams.findIndex((one) => one.cta === this.one.cta && one.warp === this.one.warp);
    const here = findings.flatMap((one, n) => Object.entries(this.app.placesOf(n)).filter(([, place]) => { const at = place && this.stepOf(place); return at && this.all[at[0]] === this.one && at[1] === this.at; })
      .map(([role]) => el("p", { class: "wrong" }, link(`finding ${n + 1}`, () => { this.app.open("findings"); this.app.view.go(n); }), role === "here" ? `: ${one.message}` : ": the other access")));
    const event = streams[stream].a.findLastIndex((a, k) => a <= this.one.seq[this.at] + (streams[stream].kind[k] === "stretch" ? 1 : 0));
    return el("div", {}, here, link("in the Timeline", () => this.app.inTimeline([stream, Math.max(0, event)])));
  }

  values(kept) {
    if (!kept) return null;
    if (kept.length === 1) return new Array(32).fill(kept[0]);
    return kept.length === 2 ? Array.from({ length: 32 }, (_, lane) => kept[0] + kept[1] * lane) : kept;
  }

  lanes(on, values) {
    const cell = (lane) => el("td", { class: [on[lane] ? "" : "off", lane === this.lane ? "hot" : ""].join(" "), title: `lane ${lane}`, onclick: () => { this.lane = lane; this.draw(); } },
      values ? String(values[lane]) : on[lane] ? "●" : "○");
    const part = (first) => el("tr", {}, el("th", {}, first), Array.from({ length: 8 }, (_, k) => cell(first + k)));
    return el("div", { class: "wide" }, el("table", { id: "lanes" }, [0, 8, 16, 24].map(part)));
  }

  // Memory

  accesses(on) {
    return this.one.touched[this.at].flatMap(([n, ...kept]) => {
      const site = this.app.data.sites[n], [op, buffer, space, write, width] = site;
      const all = kept.length === 2 ? Array.from({ length: 32 }, (_, lane) => kept[0] + kept[1] * lane) : kept;
      const addresses = all.map((at, lane) => (on[lane] ? at : null)), verb = write ? "writes" : "reads";
      if (space !== "shared") {
        const sectors = new Set(addresses.filter((at) => at !== null).flatMap((at) => [Math.floor(at / 32), Math.floor((at + width - 1) / 32)]));
        return [el("h2", {}, `${op} ${verb} ${buffer}: ${width} bytes a lane, ${sectors.size} sectors of global memory`)];
      }
      const rows = op.includes("matri"), shown = this.swizzle ? addresses : this.plain(buffer, addresses);
      const found = wavefronts(shown, width, { store: write, phase: rows ? 8 : 0 });
      const parts = [el("h2", {}, `${op} ${verb} ${buffer}: ${found.total} wavefronts, ${found.ideal} ideal`)];
      if (this.home(buffer)) parts.push(el("label", {}, el("input", { type: "checkbox", id: "swizzle", onchange: () => { this.swizzle = !this.swizzle; this.draw(); }, ...(this.swizzle ? { checked: "" } : {}) }), " with the buffer's layout (off: row by row, without swizzle)"));
      parts.push(bankTable(shown, width, found.passes, (lane) => { this.lane = lane; this.draw(); }));
      return parts;
    });
  }

  home(name) {
    const one = this.app.data.buffers.find((each) => each.name === name && each.places && each.places.m);
    if (!one) return null;
    if (!one.back) {
      one.back = new Map();
      new Int32Array(bytesOf(one.places.m).buffer).forEach((place, k) => one.back.set(place, k));
    }
    return one;
  }

  /** Where the same elements would be, row by row. */
  plain(name, addresses) {
    const one = this.home(name);
    if (!one) return addresses;
    const size = one.bits / 8;
    return addresses.map((at) => {
      const k = at === null ? undefined : one.back.get(Math.floor((at - one.start) / size));
      return k === undefined ? at : one.start + k * size;
    });
  }

  // Tensor memory: 128 lanes by 512 columns of 32 bits

  /** Where tensor memory has been written so far, and what this statement found changed. */
  tensor() {
    const boxes = this.one.tmem.slice(0, this.at + 1);
    if (!boxes.some(Boolean)) return [];
    const now = boxes[this.at], scale = 1.25, parts = [svg("rect", { x: 0, y: 0, width: 512 * scale, height: 128 * scale, fill: "none", stroke: "currentColor", "stroke-opacity": 0.4 })];
    boxes.forEach((box, k) => {
      if (!box) return;
      const [lane, column, lanes, columns] = box, hot = k === this.at;
      parts.push(svg("rect", { x: column * scale, y: lane * scale, width: columns * scale, height: lanes * scale, fill: hot ? "var(--critical)" : "var(--unit)", "fill-opacity": hot ? 0.8 : 0.3 }));
    });
    const map = svg("svg", { width: 512 * scale + 2, height: 128 * scale + 2, role: "img", "aria-label": "tensor memory" }, parts);
    const made = [el("h2", {}, `tensor memory: 128 lanes by 512 columns${now ? `; lanes ${now[0]}..${now[0] + now[2] - 1}, columns ${now[1]}..${now[1] + now[3] - 1} changed` : ""}`), el("div", { class: "wide", id: "tmem" }, map)];
    if (now) {
      const words = new Uint32Array(bytesOf(now[4]).buffer), columns = Math.min(32, now[3]), lanes = Math.min(16, now[2]);
      made.push(el("div", { class: "wide" }, el("table", {}, Array.from({ length: lanes }, (_, r) => el("tr", {}, el("th", {}, now[0] + r),
        Array.from({ length: columns }, (__, c) => el("td", {}, part(words[r * columns + c], { dtype: "float32", bits: 32 }, 0))))))));
    }
    return made;
  }

  // Registers

  /** What all registers hold after the statement, and which of them it changed. */
  held() {
    const held = new Map();
    for (let step = 0; step <= this.at; step++) {
      this.one.changed[step].forEach(([buffer, word], k) => {
        const from = 32 * (this.starts[step] + k);
        held.set(`${buffer},${word}`, { from, hot: step === this.at });
      });
    }
    return held;
  }

  registers() {
    const { buffers } = this.one, held = this.held();
    if (!held.size) return [];
    const changed = this.one.changed[this.at].map(([buffer]) => buffer);
    if (this.buffer === undefined || !buffers[this.buffer]) this.buffer = changed[0] ?? Number([...held.keys()][0].split(",")[0]);
    if (changed.length && !changed.includes(this.buffer) && !this.pinned) [this.buffer] = changed;
    const pick = el("select", { id: "registers", "aria-label": "registers", onchange: () => { this.buffer = Number(pick.value); this.pinned = true; this.draw(); } },
      buffers.map((name, n) => el("option", { value: n, ...(n === this.buffer ? { selected: "" } : {}) }, name)));
    const facts_ = this.app.data.buffers.find((each) => each.name === buffers[this.buffer]) || { bits: 32, dtype: "uint32" };
    const words = [...held.entries()].filter(([key]) => Number(key.split(",")[0]) === this.buffer).map(([key, one]) => [Number(key.split(",")[1]), one]).sort((a, b) => a[0] - b[0]);
    const table = el("table", { id: "register-table" }, el("tr", {}, el("th", {}, "word"), Array.from({ length: 32 }, (_, lane) => el("th", { class: lane === this.lane ? "hot" : "" }, lane))),
      words.slice(0, 64).map(([word, one]) => el("tr", {}, el("th", {}, word), Array.from({ length: 32 }, (_, lane) =>
        el("td", { class: one.hot ? "hot" : "" }, decoded(this.bits[one.from + lane], facts_.dtype))))));
    return [el("h2", {}, "registers ", pick, ` ${facts_.dtype || ""}`), this.tile(facts_, words), el("details", { open: true }, el("summary", { class: "hint" }, "word by word"), el("div", { class: "wide" }, table))];
  }

  /** The fragment as a tile: the elements that this warp holds, at their coordinates. */
  tile(buffer, words) {
    if (!buffer.places || !buffer.places.laneid || buffer.shape.length !== 2 || buffer.bits < 8) return el("span", {});
    const ints = Object.fromEntries(Object.entries(buffer.places).map(([axis, text]) => [axis, new Int32Array(bytesOf(text).buffer)]));
    const wid = ints.warpid || ints.wid_in_wg, own = ints.wid_in_wg ? this.one.warp % 4 : this.one.warp, per = 32 / buffer.bits;
    const [rows, columns] = buffer.shape, at = new Map(words), shown = [];
    for (let r = 0; r < rows && shown.length < 64; r++) {
      const cells = [];
      let some = false;
      for (let c = 0; c < Math.min(columns, 64); c++) {
        const k = r * columns + c, register = ints.m ? ints.m[k] : 0, one = at.get(Math.floor(register / per));
        if ((wid && wid[k] !== own) || !one) { cells.push(el("td", { class: "off" }, "")); continue; }
        some = true;
        const lane = ints.laneid[k], fill = waveFill(lane % 8);
        cells.push(el("td", { class: lane === this.lane ? "hot" : "", style: `border-bottom:3px solid ${fill}`, title: `lane ${lane}, register ${register}`, onclick: () => { this.lane = lane; this.draw(); } },
          part(this.bits[one.from + lane], buffer, register % per)));
      }
      if (some) shown.push(el("tr", {}, el("th", {}, r), cells));
    }
    return shown.length ? el("div", { class: "wide" }, el("table", { id: "tile" }, shown)) : el("span", {});
  }
}

const WORD = new DataView(new ArrayBuffer(4));

function halfFloat(bits) {
  const sign = bits & 0x8000 ? -1 : 1, exponent = (bits >> 10) & 31, fraction = bits & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -14 * (fraction / 1024));
}

function short(value) {
  return Number.isFinite(value) ? String(Number(value.toPrecision(4))) : String(value);
}

/** Element ``k`` of a word. */
function part(word, { dtype, bits }, k) {
  WORD.setUint32(0, word);
  const raw = bits === 32 ? word : (word >>> (bits * k)) & (2 ** bits - 1);
  if (dtype === "float32") return short(WORD.getFloat32(0));
  if (dtype === "float16") return short(halfFloat(raw));
  if (dtype === "bfloat16") { WORD.setUint32(0, raw << 16); return short(WORD.getFloat32(0)); }
  if (dtype.startsWith("int")) return String(raw >= 2 ** (bits - 1) ? raw - 2 ** bits : raw);
  return String(raw);
}

function decoded(word, dtype) {
  const bits = Number((/\d+$/.exec(dtype || "") || ["32"])[0]) || 32;
  if (bits > 32) return `0x${word.toString(16)}`;
  return Array.from({ length: Math.max(1, 32 / bits) }, (_, k) => part(word, { dtype: dtype || "uint32", bits }, k)).join(" ");
}
