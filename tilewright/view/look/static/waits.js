/* A deadlock drawn: who waits, for what, and who would have told it. */

class WaitGraph {
  constructor(app) {
    this.app = app;
    this.data = app.data;
    this.waits = this.grouped();
    this.lines = svg("svg", { class: "over", "aria-hidden": "true" });
    const head = ["who waits", "for what", "who would tell it"].map((words) => el("div", { class: "head" }, words));
    this.node = el("div", { class: "waits", role: "group", "aria-label": "who waits for what" }, this.lines, head, this.waits.map((one) => this.row(one)));
  }

  /** Warps that wait at one line for one thing, together. */
  grouped() {
    const found = new Map();
    this.data.streams.forEach((one, stream) => {
      for (const k of one.open) {
        const key = [one.kind[k], one.line[k], one.word[k], ...one.at[k], one.cta].join();
        if (!found.has(key)) found.set(key, { number: found.size + 1, kind: one.kind[k], line: one.line[k], at: one.at[k], words: this.data.words[one.word[k]], cta: one.cta, members: [] });
        found.get(key).members.push([stream, k]);
      }
    });
    return [...found.values()];
  }

  /** The group in which a warp waits; null where it has ended. */
  groupOf(stream) {
    return this.waits.find((one) => one.members.some(([own]) => own === stream)) || null;
  }

  warps(streams) {
    const by = new Map();
    for (const n of streams) { const { cta, warp } = this.data.streams[n]; by.set(cta, [...(by.get(cta) || []), warp]); }
    return [...by].map(([cta, warps]) => `CTA ${cta}, warp${warps.length > 1 ? "s" : ""} ${ranges(warps)}`).join("; ");
  }

  row(one) {
    const [stream, k] = one.members[0], thing = one.kind === "meet" ? this.meeting(one) : this.phase(one);
    one.left = el("div", { class: "box", id: `waits-${one.number}` }, el("b", { class: "flag" }, String(one.number)), ` ${this.warps(one.members.map(([own]) => own))} `,
      el("div", {}, `waits at `, link(`line ${one.line}`, () => this.app.showLine(one.line)), " ", link("in the Timeline", () => this.app.inTimeline([stream, k]))));
    one.middle = el("div", { class: "box thing" }, thing.words.map((words) => el("div", {}, words)));
    one.tellers = thing.tellers;
    one.right = el("div", { class: "tellers" }, thing.tellers.length ? thing.tellers.map((teller) => this.teller(teller)) : el("div", { class: "box nobody" }, thing.nobody));
    return [one.left, one.middle, one.right];
  }

  teller(one) {
    const near = one.streams.length || !one.row ? null : this.nearest(one.row);
    const waits = near ? [near] : [...new Set(one.streams.map((stream) => this.groupOf(stream)).filter(Boolean))];
    const ended = one.streams.filter((stream) => !this.groupOf(stream));
    one.waits = waits;
    one.node = el("div", { class: waits.length ? "box" : "box nobody" }, one.line ? link(`line ${one.line}`, () => this.app.showLine(one.line)) : "", one.line ? `: ${one.words}` : one.words,
      one.streams.length ? el("div", {}, this.warps(one.streams)) : null,
      waits.length ? el("div", {}, near ? "the nearest wait before it: " : "waits itself: ", waits.map((group) => [el("b", { class: "flag" }, String(group.number)), " "])) : null,
      ended.length ? el("div", {}, ended.length === one.streams.length ? "has ended" : `${this.warps(ended)} ended`) : null);
    return one.node;
  }

  /** Of those who wait, who is the least before a row of the kernel. */
  nearest(row) {
    const at = (group) => { const [stream, k] = group.members[0]; return this.data.streams[stream].row[k]; };
    return this.waits.filter((group) => at(group) < row).sort((a, b) => at(b) - at(a))[0] || null;
  }

  // What is waited for

  phase(one) {
    const [unit, number_] = one.at, barrier = this.data.units[unit];
    if (!barrier) return { words: [one.words], tellers: [], nobody: "nothing that was recorded would end it" };
    const found = barrier.phase.findLast((phase) => phase[1] === number_), [, , came, wanted, nbytes, announced] = found || [0, 0, 0, 0, 0, 0];
    const words = [el("b", {}, barrier.name), number_ < 0 ? "the phase before the first" : `phase ${number_}, of parity ${number_ % 2}`, `${came} of ${wanted} arrivals came`];
    if (announced || nbytes) words.push(`${byteWords(nbytes)} of ${byteWords(announced)} announced came`);
    const base = barrier.name.replace(/\[.*/, ""), lines = new Map();
    this.data.rows.forEach((row, n) => { if (row[4].includes(base)) lines.set(row[3], [...(lines.get(row[3]) || []), n]); });
    const tellers = [...lines].map(([line, rows]) => this.tells(line, rows, unit, base));
    return { words, tellers, nobody: "no line of the kernel tells it" };
  }

  /** A line that tells an m-barrier of this name, and the warps that have come there. */
  tells(line, rows, unit, base) {
    const streams = [], counts = { own: 0, others: 0 }, own = this.data.units[unit];
    const kin = (n) => n !== undefined && (this.data.units[n].name || "").replace(/\[.*/, "") === base;
    this.data.streams.forEach((one, stream) => {
      let here = 0;
      one.line.forEach((at, k) => {
        if (at !== line || !["signal", "issue"].includes(one.kind[k])) return;
        if (one.kind[k] === "issue" || kin(one.at[k][0])) here += 1;
        if (one.kind[k] === "signal") counts[one.at[k][0] === unit ? "own" : "others"] += 1;
      });
      if (here) streams.push(stream);
    });
    const is_copy = this.data.units.some((one) => one.unit === "unit" && one.row.some((row) => rows.includes(row)));
    const issued = this.data.units.filter((one) => one.unit === "unit").flatMap((one) => one.row.map((row, k) => [row, k, one]))
      .filter(([row, k, one]) => rows.includes(row) && one.tells[k].some(([cta, address]) => cta === own.cta && address === own.address)).length;
    const times = is_copy ? `its bytes come from here, ${issued} operation${issued === 1 ? "" : "s"} so far` : counts.own ? `would arrive; did so ${counts.own} time${counts.own === 1 ? "" : "s"}` : "would arrive; never did for this one";
    return { line, words: streams.length ? times : "would tell it; nobody has come here", streams, row: Math.max(...rows) };
  }

  meeting(one) {
    const [scope, cta, barrier, came] = this.data.meetings[one.at[0]] || ["cta", one.cta, 0, one.members.length];
    const inside = this.data.streams.map((each, n) => [each, n]).filter(([each]) => each.cta === cta || scope === "cluster");
    const missing = inside.filter(([each]) => !each.kind.some((kind, k) => kind === "meet" && each.at[k][0] === one.at[0]));
    const likely = scope === "cta" || scope === "cluster" ? missing : missing.filter(([each]) => each.kind.some((kind, k) => kind === "meet" && this.data.words[each.word[k]].includes(`barrier ${barrier} `)));
    const words = [el("b", {}, scope === "cta" && barrier === 0 ? "the barrier of the CTA" : `barrier ${barrier} (${scope})`), `${came} warp${came === 1 ? " has" : "s have"} come`];
    const by = new Map();
    for (const [, n] of likely) { const group = this.groupOf(n); by.set(group, [...(by.get(group) || []), n]); }
    return { words, tellers: [...by].map(([, streams]) => ({ line: 0, words: "has not come", streams })), nobody: "no other warp of those that were recorded has come to it" };
  }

  // Lines, once the boxes have their places

  /** From each teller that waits itself to where it waits. */
  connect() {
    if (!this.node.isConnected) return;
    const box = this.node.getBoundingClientRect(), parts = [];
    this.lines.setAttribute("width", box.width);
    this.lines.setAttribute("height", box.height);
    const at = (node, right) => { const own = node.getBoundingClientRect(); return [(right ? own.right : own.left) - box.left, (own.top + own.bottom) / 2 - box.top]; };
    const arrow = (from, to, attributes) => parts.push(svg("path", { d: `M${from[0]},${from[1]} C${(from[0] + to[0]) / 2},${from[1]} ${(from[0] + to[0]) / 2},${to[1]} ${to[0]},${to[1]}`, fill: "none", "stroke-width": 2, "marker-end": "url(#tip)", ...attributes }));
    parts.push(svg("defs", {}, svg("marker", { id: "tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 6, markerHeight: 6, orient: "auto" }, svg("path", { d: "M0,0 L8,4 L0,8 z", fill: "var(--critical)" }))));
    for (const one of this.waits) {
      arrow(at(one.left, true), at(one.middle, false), { stroke: "var(--wait)", class: "awaits" });
      for (const teller of one.tellers) {
        arrow(at(teller.node, false), at(one.middle, true), { stroke: "var(--faint)", "stroke-dasharray": "3 4", class: "would-tell" });
        for (const group of teller.waits) this.back(parts, at(teller.node, true), group, box);
      }
    }
    this.lines.replaceChildren(...parts);
  }

  /** Around the right, below, and up on the left. */
  back(parts, from, group, box) {
    const own = group.left.getBoundingClientRect(), y = Math.max(...[group.left, group.middle, group.right].map((node) => node.getBoundingClientRect().bottom)) - box.top + 7, x = own.left - box.left + 18 + 8 * (group.number % 4);
    parts.push(svg("path", { d: `M${from[0]},${from[1]} h7 V${y} H${x} V${own.bottom - box.top + 1}`, fill: "none", stroke: "var(--critical)", "stroke-width": 1.5, "marker-end": "url(#tip)", class: "waits-itself" }));
  }
}

/** ``0 to 3, 7``. */
function ranges(numbers) {
  const parts = [];
  for (const n of [...numbers].sort((a, b) => a - b)) {
    const last = parts[parts.length - 1];
    if (last && last[1] === n - 1) last[1] = n;
    else parts.push([n, n]);
  }
  return parts.map(([a, b]) => (a === b ? String(a) : `${a} to ${b}`)).join(", ");
}
