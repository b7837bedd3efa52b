/* The explorer of layouts: what is asked stands in the page's fragment, so that a link is a question with its answer. */

const EXAMPLES = [
  ["a fragment of mma.sync", { l: "S[(8,4,2):(4@laneid,1@laneid,1)]", shape: "8,8" }],
  ["thread-value layout of CuTe", { l: "((4,8),2):((16,1),8)", op: "tv", shape: "8,8" }],
  ["rows of 128 bytes, a column is read", { l: "S[(64,64):(64,1)]", bits: "16", access: "column", width: "2" }],
  ["the same with a swizzle", { l: "Sw<3,3,3> o 0 o (64,64):(64,1)", bits: "16", access: "rows", width: "16" }],
  ["A o B", { l: "(6,2):(8,2)", op: "compose", b: "(4,3):(3,1)" }],
  ["complement", { l: "(2,2):(1,6)", op: "complement", b: "24" }],
  ["divide into tiles", { l: "16:3", op: "divide", b: "4:1" }],
];
const FIELDS = { l: "S[(8,4,2):(4@laneid,1@laneid,1)]", shape: "", op: "show", b: "", bits: "16", access: "none", width: "16" };
const OPS = { show: "the layout", tv: "threads and values to elements", compose: "A o B", complement: "complement of A below a number",
  divide: "A divided by the tile B", coalesce: "A, neighbours joined" };
const ACCESSES = { none: "no access", row: "lane l: column l of row 0", column: "lane l: row l of column 0", rows: "lane l: the first bytes of row l", linear: "lane l: element l" };
const MOST_CELLS = 64 * 64;

class ExplorerView {
  constructor(app) {
    this.app = app;
    this.fields = {};
    const input = (name, words, attributes = {}) => {
      this.fields[name] = el("input", { id: `field-${name}`, type: "text", spellcheck: "false", oninput: () => this.changed(), ...attributes });
      return el("label", {}, words, " ", this.fields[name]);
    };
    const choice = (name, words, table) => {
      this.fields[name] = el("select", { id: `field-${name}`, onchange: () => this.changed() }, Object.entries(table).map(([value, text]) => el("option", { value }, text)));
      return el("label", {}, words, " ", this.fields[name]);
    };
    this.answer = el("div", { id: "answer" });
    const buffers = (app.data.buffers || []).filter((one) => one.layout && !/[a-z]\w*:|[,(][a-z_]\w*[,)]/.test(one.layout.replace(/@\w+/g, "")));
    this.node = el("div", {},
      el("div", { class: "bar" }, el("select", { id: "examples", "aria-label": "examples", onchange: (event) => this.set(EXAMPLES[Number(event.target.value)][1]) },
        el("option", { value: "" }, "examples ..."), EXAMPLES.map(([name], n) => el("option", { value: n }, name))),
      buffers.length ? el("select", { id: "buffers", "aria-label": "buffers of the kernel", onchange: (event) => {
        const one = buffers[Number(event.target.value)];
        this.set({ l: one.layout, shape: one.shape.join(","), bits: String(one.bits) });
      } }, el("option", { value: "" }, "buffers of the kernel ..."), buffers.map((one, n) => el("option", { value: n }, one.name))) : null,
      el("button", { type: "button", id: "copy-link", onclick: () => this.copy() }, "copy the link")),
      el("div", { class: "card" }, el("label", {}, "A ", el("span", { class: "hint" }, "ours, S[(8,4):(4@laneid,1)], or CuTe's, (8,4):(1,8), Sw<3,4,3> o 0 o (8,64):(64,1)")),
        this.long(input("l", "")), el("div", { class: "bar" }, choice("op", "show", OPS), input("b", "B", { size: 18 }), input("shape", "shape", { size: 10, placeholder: "its own" })),
        el("div", { class: "bar" }, choice("access", "access", ACCESSES), input("bits", "bits of an element", { size: 3 }), input("width", "bytes of a lane", { size: 3 }))),
      this.answer);
    this.read();
  }

  long(label) {
    label.querySelector("input").classList.add("long");
    return label;
  }

  read() {
    const asked = address.read();
    const own = asked.has("l") ? FIELDS : { ...FIELDS, ...EXAMPLES[0][1] };
    for (const [name, value] of Object.entries(own)) if (this.fields[name]) this.fields[name].value = asked.get(name) ?? value;
    this.draw();
  }

  set(values) {
    for (const [name, value] of Object.entries({ ...FIELDS, ...values })) if (this.fields[name]) this.fields[name].value = value;
    this.changed();
  }

  changed() {
    this.draw();
    address.write({ view: "layout", ...this.state() });
  }

  state() {
    return Object.fromEntries(Object.entries(this.fields).filter(([name, field]) => field.value !== FIELDS[name] || name === "l").map(([name, field]) => [name, field.value]));
  }

  copy() {
    const link = location.href;
    if (navigator.clipboard) navigator.clipboard.writeText(link).catch(() => {});
  }

  show() { this.draw(); }

  draw() {
    this.answer.replaceChildren();
    try {
      this.explain();
    } catch (problem) {
      if (!(problem instanceof LayoutProblem)) throw problem;
      this.answer.append(el("p", { class: "wrong", role: "alert" }, problem.message));
    }
  }

  explain() {
    const value = (name) => this.fields[name].value.trim(), a = parseLayout(value("l")), op = value("op"), steps = [];
    let shown = a;
    if (op === "compose") shown = composition(this.cute(a), this.cute(parseLayout(value("b"))), steps);
    if (op === "complement") shown = complement(this.cute(a), this.count(value("b")), steps);
    if (op === "divide") shown = divided(this.cute(a), this.cute(parseLayout(value("b"))), steps);
    if (op === "coalesce") shown = coalesced(this.cute(a));
    this.answer.append(facts(["result", shown.kind === "cute" ? write(shown) : value("l")], ["elements", sizeOf(shown)]));
    if (steps.length) this.answer.append(el("ol", {}, steps.map((step) => el("li", {}, step))));
    const shape = value("shape") && (shown === a || op === "coalesce") ? value("shape").split(/[x,]/).map((text) => this.count(text)) : ownShape(shown);
    if (op === "tv") this.threads(a, shape);
    else this.table(shown, shape);
    if (value("access") !== "none") this.banks(shown, shape);
  }

  count(text) {
    const found = Number(text);
    if (!Number.isInteger(found) || found < 1) throw new LayoutProblem(`a positive number is needed here, not "${text}"`);
    return found;
  }

  cute(layout) {
    if (layout.kind === "cute") return layout;
    if (layout.replicas.length || layout.iters.some((iter) => iter.axis !== "m")) throw new LayoutProblem("the algebra is for layouts on memory: no axes, no replicas");
    return { kind: "cute", shape: layout.iters.map((iter) => iter.extent).reverse(), stride: layout.iters.map((iter) => iter.stride).reverse(), swizzle: layout.swizzle, offset: layout.offset };
  }

  /** A table of two dimensions: the last one goes right. */
  table(layout, shape) {
    const places = tableOf(layout, shape), axes = Object.keys(places), columns = shape.length > 1 ? shape[shape.length - 1] : Math.min(shape[0], 32);
    const count = product(shape), rows = Math.ceil(count / columns), cut = rows * columns > MOST_CELLS;
    const first = places[axes.find((axis) => axis !== "m") || axes[0]];
    const cells = (r) => Array.from({ length: Math.min(columns, 64) }, (_, c) => {
      const k = r * columns + c;
      if (k >= count) return el("td", {}, "");
      const fill = waveFill(first[k] % 8);
      return el("td", { style: `background:${fill};color:${inkOn(fill)}`, title: axes.map((axis) => `${axis} ${places[axis][k]}`).join(", ") },
        axes.length === 1 ? String(places[axes[0]][k]) : axes.map((axis) => places[axis][k]).join(":"));
    });
    this.answer.append(el("h2", {}, `places (${axes.join(":")}) of ${shape.join(" x ")}`), el("div", { class: "wide" }, el("table", { id: "places" },
      el("tr", {}, el("th", {}, ""), Array.from({ length: Math.min(columns, 64) }, (_, c) => el("th", {}, c))),
      Array.from({ length: Math.min(rows, 64) }, (_, r) => el("tr", {}, el("th", {}, r), cells(r))))),
    cut ? el("p", { class: "hint" }, "cut: the first 64 rows and columns") : "");
  }

  /** CuTe's thread-value layouts: from thread and value to the element, and back. */
  threads(layout, shape) {
    if (layout.kind !== "cute" || !Array.isArray(layout.shape) || layout.shape.length !== 2) throw new LayoutProblem("a thread-value layout has two modes, (threads, values)");
    const [threads, values] = ownShape(layout), where = new Map();
    for (let t = 0; t < threads; t++) for (let v = 0; v < values; v++) where.set(offsetOf(layout.shape, layout.stride, t + threads * v), [t, v]);
    const [rows, columns] = shape.length === 2 ? shape : [1, where.size];
    const cell = (r, c) => {
      const found = where.get(r + rows * c), fill = found ? waveFill(found[0] % 8) : "#888888";
      return el("td", { style: `background:${fill};color:${inkOn(fill)}` }, found ? `T${found[0]} V${found[1]}` : "-");
    };
    this.answer.append(el("h2", {}, `who holds each element of ${rows} x ${columns}`), el("div", { class: "wide" }, el("table", { id: "places" },
      Array.from({ length: Math.min(rows, 64) }, (_, r) => el("tr", {}, el("th", {}, r), Array.from({ length: Math.min(columns, 64) }, (__, c) => cell(r, c)))))));
  }

  banks(layout, shape) {
    const bits = this.count(this.fields.bits.value), width = this.count(this.fields.width.value), places = tableOf(layout, shape);
    if (!places.m || Object.keys(places).length > 1) throw new LayoutProblem("banks are of layouts on memory, without other axes");
    const columns = shape[shape.length - 1], rows = product(shape) / columns, how = this.fields.access.value;
    const index = { row: (l) => (l < columns ? l : null), column: (l) => (l < rows ? l * columns : null), rows: (l) => (l < rows ? l * columns : null), linear: (l) => (l < columns * rows ? l : null) }[how];
    const addresses = Array.from({ length: 32 }, (_, lane) => { const at = index(lane); return at === null ? null : (places.m[at] * bits) / 8; });
    const found = wavefronts(addresses.map((at) => (at === null ? null : Math.floor(at))), width);
    this.answer.append(el("h2", { id: "wavefronts" }, `${found.total} wavefronts, ${found.ideal} ideal`), bankTable(addresses, width, found.passes));
  }
}

/** Shared memory as 32 banks: a row for each 128 bytes that are touched, words coloured by the wavefront that serves them. */
function bankTable(addresses, width, passes, onByte = null) {
  const lines = new Map();
  addresses.forEach((at, lane) => {
    if (at === null || passes[lane] < 0) return;
    for (let word = Math.floor(at / 4); word < Math.max((at + width) / 4, Math.floor(at / 4) + 1); word++) {
      const line = Math.floor(word / 32);
      if (!lines.has(line)) lines.set(line, new Map());
      const own = lines.get(line), bank = word % 32;
      own.set(bank, { lanes: [...(own.has(bank) ? own.get(bank).lanes : []), lane], pass: passes[lane] });
    }
  });
  const cell = (line, bank) => {
    const one = lines.get(line).get(bank);
    if (!one) return el("td", {}, "");
    const fill = waveFill(one.pass), words = `bank ${bank}, bytes ${line * 128 + bank * 4}..${line * 128 + bank * 4 + 3}: lanes ${one.lanes.join(", ")}, wavefront ${one.pass}`;
    return el("td", { style: `background:${fill};color:${inkOn(fill)}`, title: words, onclick: onByte ? () => onByte(one.lanes[0]) : null }, one.lanes.length > 1 ? `${one.lanes[0]}+` : one.lanes[0]);
  };
  const order = [...lines.keys()].sort((a, b) => a - b).slice(0, 64);
  return el("div", { class: "wide" }, el("table", { class: "banks" }, el("tr", {}, el("th", {}, "byte \\ bank"), Array.from({ length: 32 }, (_, bank) => el("th", {}, bank))),
    order.map((line) => el("tr", {}, el("th", {}, line * 128), Array.from({ length: 32 }, (_, bank) => cell(line, bank))))));
}
