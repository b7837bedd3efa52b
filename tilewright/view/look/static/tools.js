/* Elements, colours, numbers, and data that comes packed. */

/** An element with attributes ("on..." are listeners) and children. */
function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children.flat(Infinity));
  return made;
}

function bytesOf(text) {
  return Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
}

async function inflated(text) {
  const stream = new Blob([bytesOf(text)]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function number(value) {
  return Number(value).toLocaleString("en", { maximumFractionDigits: 1 });
}

function byteWords(n) {
  if (n < 1024) return `${n} bytes`;
  return n < 1 << 20 ? `${number(n / 1024)} KiB` : `${number(n / (1 << 20))} MiB`;
}

/** Words that do something: by mouse, and by keyboard. */
function link(words, does, attributes = {}) {
  return el("button", { type: "button", class: "link", onclick: does, ...attributes }, words);
}

/** The last part of the page's address: what is looked at. A notebook's frame has none; there it is only remembered. */
const address = {
  text: "",
  read() {
    return new URLSearchParams(this.text || location.hash.slice(1));
  },
  write(values) {
    const asked = new URLSearchParams(Object.entries(values).filter(([, value]) => value !== "" && value !== null && value !== undefined));
    try {
      history.replaceState(null, "", `#${asked}`);
    } catch {
      this.text = String(asked);
    }
  },
};

/** A table of facts: pairs of a name and text or an element. */
function facts(...pairs) {
  return el("dl", {}, pairs.filter((pair) => pair && pair[1] !== "" && pair[1] !== undefined)
    .map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

/** Distinct fills for wavefronts, told apart by colour-blind people too: hue and lightness change together. */
const WAVES = ["#0072b2", "#e69f00", "#009e73", "#56b4e9", "#d55e00", "#f0e442", "#5b5b5b", "#cc79a7"];

function waveFill(n) {
  return WAVES[n % WAVES.length];
}

function inkOn(hex) {
  const [r, g, b] = [1, 3, 5].map((k) => parseInt(hex.slice(k, k + 2), 16));
  return r * 0.3 + g * 0.59 + b * 0.11 > 140 ? "#000" : "#fff";
}
