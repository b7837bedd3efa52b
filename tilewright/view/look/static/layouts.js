/* Layouts: our notation and CuTe's, places of elements, the algebra, and wavefronts of shared memory. No page is needed. */

const flat = (tree) => (Array.isArray(tree) ? tree.flatMap(flat) : [tree]);
const product = (list) => list.reduce((total, each) => total * each, 1);
const ceilDiv = (a, b) => Math.ceil(a / b);

class LayoutProblem extends Error {}

// Notation

/** A tree of numbers: ``((8,2),4)`` as [[8, 2], 4]; a number may have an axis behind an @. */
function parseTree(text) {
  const tokens = text.match(/-?\d+(@\w+)?|[(),]|\S/g) || [];
  let at = 0;
  const value = () => {
    const token = tokens[at++];
    if (token === "(") {
      const list = [];
      while (tokens[at] !== ")") {
        if (at >= tokens.length) throw new LayoutProblem(`a bracket is open in ${text}`);
        list.push(value());
        if (tokens[at] === ",") at++;
        else if (tokens[at] !== ")") throw new LayoutProblem(`a comma or a bracket is missing in ${text}`);
      }
      at++;
      return list;
    }
    const found = /^(-?\d+)(?:@(\w+))?$/.exec(token || "");
    if (!found) throw new LayoutProblem(`${token || "the end"} is no number in ${text}`);
    return found[2] ? { stride: Number(found[1]), axis: found[2] } : Number(found[1]);
  };
  const tree = value();
  if (at !== tokens.length) throw new LayoutProblem(`something follows ${text}`);
  return tree;
}

/** Pairs of extent and stride of ``shape:stride``. */
function parsePairs(text) {
  const halves = text.split(":");
  if (halves.length > 2) throw new LayoutProblem(`one colon stands between shape and stride: ${text}`);
  const shape = parseTree(halves[0]);
  const stride = halves.length === 2 ? parseTree(halves[1]) : compact(shape);
  if (!sameShape(shape, stride)) throw new LayoutProblem(`shape and stride differ in their form: ${text}`);
  if (flat(shape).some((extent) => !(extent > 0))) throw new LayoutProblem(`extents are positive numbers: ${text}`);
  return { shape, stride };
}

function sameShape(a, b) {
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  return !Array.isArray(a) || (a.length === b.length && a.every((each, k) => sameShape(each, b[k])));
}

/** The strides of a shape without gaps, first extent fastest, as CuTe has them. */
function compact(shape, first = { at: 1 }) {
  if (Array.isArray(shape)) return shape.map((each) => compact(each, first));
  const own = first.at;
  first.at *= shape;
  return own;
}

/** A layout of a text: ours, ``S[(8,4):(4@laneid,1)] + R[2:4@laneid] + 3@laneid``, a swizzle, or CuTe's. */
function parseLayout(text) {
  const clean = text.trim();
  const composed = /^ComposeLayout\((SwizzleLayout\([^)]*\)),\s*(.*)\)$/.exec(clean);
  if (composed) return { ...parseLayout(composed[2]), swizzle: parseSwizzle(composed[1]) };
  const parts = clean.split(/\s+o\s+/);
  const swizzle = parts.length > 1 || /^Sw/.test(parts[0]) ? parseSwizzle(parts[0]) : null;
  if (swizzle) {
    if (parts.length === 1) return { kind: "cute", shape: [swizzle.period], stride: [1], swizzle, offset: 0 };
    const offset = parts.length === 3 ? Number(parts[1].replace("_", "")) : 0;
    if (!Number.isInteger(offset)) throw new LayoutProblem(`the offset is no number: ${parts[1]}`);
    return { ...parseLayout(parts[parts.length - 1]), swizzle, offset };
  }
  if (clean.startsWith("S[")) return parseOurs(clean);
  const { shape, stride } = parsePairs(clean);
  return { kind: "cute", shape, stride, swizzle: null, offset: 0 };
}

function parseSwizzle(text) {
  const cute = /^(?:Sw|Swizzle)\s*<\s*(\d+)\s*,\s*(\d+)\s*,\s*(-?\d+)\s*>$/.exec(text.trim());
  const ours = /^SwizzleLayout\((?:per_element=)?(\d+),\s*(?:swizzle_len=)?(\d+),\s*(?:atom_len=)?(\d+)(,\s*(?:swizzle_inner=)?False)?\)$/.exec(text.trim());
  if (!cute && !ours) throw new LayoutProblem(`no swizzle: ${text}`);
  const [bits, base, shift] = cute ? [Number(cute[1]), Number(cute[2]), Number(cute[3])] : [Number(ours[2]), Number(ours[1]), Number(ours[3]) * (ours[4] ? -1 : 1)];
  if (Math.abs(shift) < bits) throw new LayoutProblem(`a swizzle of ${bits} bits over a distance of ${shift}: its bits overlap`);
  return { bits, base, shift, period: 2 ** (bits + base + Math.abs(shift)) };
}

/** Bits [base + shift, base + shift + bits) go by exclusive or into [base, base + bits); a negative shift the other way. */
function swizzled({ bits, base, shift }, address) {
  const mask = BigInt(2 ** bits - 1), distance = BigInt(Math.abs(shift)), low = BigInt(base), at = BigInt(address);
  const from = shift >= 0 ? (at >> (low + distance)) & mask : (at >> low) & mask;
  return Number(at ^ (shift >= 0 ? from << low : from << (low + distance)));
}

function parseOurs(text) {
  const layout = { kind: "ours", iters: [], replicas: [], offsets: {}, swizzle: null, offset: 0 };
  let rest = text;
  while (rest) {
    const found = /^\s*(?:\+\s*)?(?:([SR])\[([^\]]*)\]|(-?\d+)(?:@(\w+))?)\s*/.exec(rest);
    if (!found) throw new LayoutProblem(`not understood: ${rest}`);
    rest = rest.slice(found[0].length);
    if (found[1]) {
      const { shape, stride } = found[2].includes(":") ? parsePairs(found[2]) : rowMajor(parseTree(found[2]));
      const strides = flat(stride);
      const iters = flat(shape).map((extent, k) => ({ extent, stride: strides[k].stride ?? strides[k], axis: strides[k].axis || "m" }));
      if (found[1] === "S") layout.iters.push(...iters);
      else layout.replicas.push(...iters);
    } else {
      const axis = found[4] || "m";
      layout.offsets[axis] = (layout.offsets[axis] || 0) + Number(found[3]);
    }
  }
  return layout;
}

function rowMajor(shape) {
  const extents = flat(shape);
  return { shape: extents, stride: extents.map((_, k) => product(extents.slice(k + 1))) };
}

// Places

function sizeOf(layout) {
  return layout.kind === "cute" ? product(flat(layout.shape)) : product(layout.iters.map((iter) => iter.extent));
}

/** CuTe: index, first extent fastest, to offset. */
function offsetOf(shape, stride, index) {
  const extents = flat(shape), strides = flat(stride);
  let total = 0, rest = index;
  extents.forEach((extent, k) => {
    const digit = k === extents.length - 1 ? rest : rest % extent;
    rest = Math.floor(rest / extent);
    total += digit * strides[k];
  });
  return total;
}

/** By axis, the place of an index; ours count the last extent fastest, CuTe's the first. */
function placeOf(layout, index) {
  const found = {};
  if (layout.kind === "cute") found.m = offsetOf(layout.shape, layout.stride, index) + (layout.offset || 0);
  else {
    let rest = index;
    for (const { axis } of layout.replicas) found[axis] = 0;
    for (const [axis, at] of Object.entries(layout.offsets)) found[axis] = at;
    for (let k = layout.iters.length - 1; k >= 0; k--) {
      const { extent, stride, axis } = layout.iters[k];
      const digit = k === 0 ? rest : rest % extent;
      rest = Math.floor(rest / extent);
      found[axis] = (found[axis] || 0) + digit * stride;
    }
    if (layout.offset) found.m = (found.m || 0) + layout.offset;
  }
  if (layout.swizzle) found.m = swizzled(layout.swizzle, found.m || 0);
  return found;
}

/** The shape whose coordinates a layout takes, unless another one is given. */
function ownShape(layout) {
  if (layout.kind === "ours") return layout.iters.map((iter) => iter.extent);
  return Array.isArray(layout.shape) ? layout.shape.map((mode) => product(flat(mode))) : [layout.shape];
}

/** By axis, the places of all coordinates of a shape, the last one fastest. */
function tableOf(layout, shape = ownShape(layout)) {
  const count = product(shape), axes = {};
  if (count > 1 << 20) throw new LayoutProblem(`${count} elements are too many to look at`);
  if (count !== sizeOf(layout)) throw new LayoutProblem(`${shape.join(" x ")} are ${count} elements, the layout has ${sizeOf(layout)}`);
  for (let k = 0; k < count; k++) {
    let index = k;
    if (layout.kind === "cute") {
      let rest = k, each = 1, digits = [];
      for (let d = shape.length - 1; d >= 0; d--) { digits[d] = rest % shape[d]; rest = Math.floor(rest / shape[d]); }
      index = digits.reduce((total, digit, d) => { const at = total + digit * each; each *= shape[d]; return at; }, 0);
    }
    for (const [axis, at] of Object.entries(placeOf(layout, index))) (axes[axis] = axes[axis] || new Array(count).fill(0))[k] = at;
  }
  return axes;
}

// The algebra, on CuTe's layouts

function writeTree(tree) {
  return Array.isArray(tree) ? `(${tree.map(writeTree).join(",")})` : String(tree);
}

function write({ shape, stride, swizzle, offset }) {
  const own = `${writeTree(shape)}:${writeTree(stride)}`;
  return swizzle ? `Sw<${swizzle.bits},${swizzle.base},${swizzle.shift}> o ${offset || 0} o ${own}` : own;
}

function layoutOf(pairs) {
  if (pairs.length === 0) return { kind: "cute", shape: 1, stride: 0, swizzle: null, offset: 0 };
  const one = pairs.length === 1;
  return { kind: "cute", shape: one ? pairs[0][0] : pairs.map((pair) => pair[0]), stride: one ? pairs[0][1] : pairs.map((pair) => pair[1]), swizzle: null, offset: 0 };
}

function pairsOf(layout) {
  const strides = flat(layout.stride);
  return flat(layout.shape).map((extent, k) => [extent, strides[k]]);
}

/** Neighbouring extents that count on as one, and no extents of 1. */
function coalesced(layout) {
  const made = [];
  for (const [extent, stride] of pairsOf(layout)) {
    const last = made[made.length - 1];
    if (extent === 1) continue;
    if (last && last[0] * last[1] === stride) last[0] *= extent;
    else made.push([extent, stride]);
  }
  return layoutOf(made);
}

/** A o B: what B counts, through A. steps: what was done, in words. */
function composition(a, b, steps = []) {
  const modes = Array.isArray(b.shape) ? b.shape.map((shape, k) => layoutFrom(shape, b.stride[k])) : null;
  if (modes) {
    const parts = modes.map((mode) => composition(a, mode, steps));
    return { kind: "cute", shape: parts.map((part) => part.shape), stride: parts.map((part) => part.stride), swizzle: a.swizzle, offset: a.offset || 0 };
  }
  const inner = pairsOf(coalesced(a)), made = [];
  let restShape = b.shape, restStride = b.stride;
  if (restStride === 0) return withSwizzle(layoutOf([[restShape, 0]]), a);
  for (const [extent, stride] of inner.slice(0, -1)) {
    if (extent % restStride && restStride % extent) throw new LayoutProblem(`a stride of ${restStride} neither divides ${extent} nor is a multiple of it: A o B is no layout`);
    const taken = Math.min(Math.max(1, Math.floor(extent / restStride)), restShape);
    if (restShape % taken) throw new LayoutProblem(`${restShape} elements do not fill ${taken} at a time: A o B is no layout`);
    if (taken !== 1) {
      made.push([taken, restStride * stride]);
      steps.push(`${b.shape}:${b.stride} takes ${taken} of ${extent}:${stride} by ${restStride}: ${taken}:${restStride * stride}`);
    } else if (restStride > 1) steps.push(`${b.shape}:${b.stride} steps over all ${extent} of ${extent}:${stride}`);
    restShape /= taken;
    restStride = ceilDiv(restStride, extent);
  }
  if (restShape !== 1 || made.length === 0) {
    const last = inner.length ? inner[inner.length - 1][1] : 0;
    made.push([restShape, restStride * last]);
    steps.push(`the rest, ${restShape}:${restStride}, goes through the last stride ${last}: ${restShape}:${restStride * last}`);
  }
  return withSwizzle(layoutOf(made), a);
}

function layoutFrom(shape, stride) {
  return { kind: "cute", shape, stride, swizzle: null, offset: 0 };
}

function withSwizzle(layout, of) {
  return { ...layout, swizzle: of.swizzle || null, offset: of.offset || 0 };
}

/** The places below ``most`` that a layout leaves out, as a layout that counts the layout's copies. */
function complement(layout, most, steps = []) {
  const pairs = pairsOf(layout).filter(([extent, stride]) => extent > 1 && stride !== 0).sort((a, b) => a[1] - b[1] || a[0] - b[0]);
  const made = [];
  let reach = 1;
  for (const [extent, stride] of pairs) {
    if (stride < reach) throw new LayoutProblem(`${extent}:${stride} lies over places below ${reach}: it has no complement`);
    if (stride % reach) throw new LayoutProblem(`a stride of ${stride} is no multiple of ${reach}: it has no complement`);
    made.push([stride / reach, reach]);
    steps.push(`below ${extent}:${stride}, ${stride / reach} copies fit, ${reach} apart: ${stride / reach}:${reach}`);
    reach = extent * stride;
  }
  made.push([ceilDiv(most, reach), reach]);
  steps.push(`up to ${most}, ${ceilDiv(most, reach)} copies of ${reach} places: ${ceilDiv(most, reach)}:${reach}`);
  return coalesced(layoutOf(made));
}

/** A by tiles B: ((tile), (rest)). */
function divided(a, b, steps = []) {
  const rest = complement(b, sizeOf(a), steps);
  return composition(a, { kind: "cute", shape: [b.shape, rest.shape], stride: [b.stride, rest.stride] }, steps);
}

// Shared memory

/** Which pass of its phase serves each lane; addresses in bytes, null for a lane that takes no part.
    Of 8 and 16 bytes, a load's phases double where partner lanes read one place. */
function wavefronts(addresses, width, { store = false, lanes = 32, phase = 0 } = {}) {
  const unit = Math.max(width, 4), banks = Math.max(1, 128 / unit);
  let size = phase || Math.max(1, Math.min(32, Math.floor(128 / unit)));
  const alike = (step) => addresses.every((at, lane) => at === null || addresses[lane ^ step] === null || at === addresses[lane ^ step]);
  if (!store && !phase && size < 32 && (alike(1) || alike(2))) size *= 2;
  size = Math.min(size, lanes);
  const passes = new Array(32).fill(-1);
  let total = 0, ideal = 0;
  for (let first = 0; first < lanes; first += size) {
    const words = new Map();
    let most = 0;
    for (let lane = first; lane < Math.min(first + size, lanes); lane++) {
      if (addresses[lane] === null) continue;
      const word = Math.floor(addresses[lane] / unit), bank = word % banks;
      if (!words.has(bank)) words.set(bank, []);
      const own = words.get(bank);
      if (!own.includes(word)) own.push(word);
      passes[lane] = total + own.indexOf(word);
      most = Math.max(most, own.length);
    }
    total += most;
    ideal += most > 0 ? 1 : 0;
  }
  return { passes, total, ideal };
}

if (typeof module !== "undefined") {
  module.exports = { parseLayout, tableOf, placeOf, ownShape, sizeOf, composition, complement, divided, coalesced, write, wavefronts, swizzled, parseSwizzle, offsetOf };
}
