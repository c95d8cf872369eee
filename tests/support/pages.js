// For Chrome.walk (pages.py): notes what gets the focus and how that is seen; window.walked() says what is wrong.
const controls = "a, button, input:not([type=hidden]), select, textarea, summary, [tabindex]";
const wanted = [...document.querySelectorAll(controls)]
  .filter((one) => one.checkVisibility({visibilityProperty: true}) && one.getClientRects().length && !one.disabled
    && (one.matches("textarea") || !one.closest(".CodeMirror")));
const named = (one) => one.outerHTML.slice(0, 120);
const parse = (text) => {
  const [r, g, b, a = 1] = text.match(/[\d.]+/g).map(Number);
  return text.startsWith("color(") ? [r * 255, g * 255, b * 255, a] : [r, g, b, a];
};
const over = (top, under) => [0, 1, 2].map((n) => top[n] * top[3] + under[n] * (1 - top[3])).concat(1);
const paper = (one) => parse(getComputedStyle(one).backgroundColor);
const ground = (one) => one ? over(paper(one), ground(one.parentElement)) : [255, 255, 255, 1];
const light = (colour) => {
  const linear = (n) => n <= 0.03928 ? n / 12.92 : ((n + 0.055) / 1.055) ** 2.4;
  const [r, g, b] = colour.slice(0, 3).map((n) => linear(n / 255));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ratio = (one, two) => (Math.max(light(one), light(two)) + 0.05) / (Math.min(light(one), light(two)) + 0.05);
const seen = [], wrong = new Set();
const look = (target) => {
  const one = target.closest(".CodeMirror") || target, style = getComputedStyle(one), back = ground(one.parentElement);
  const wide = parseFloat(style.outlineWidth), room = wide + parseFloat(style.outlineOffset);
  if (style.outlineStyle === "none" || wide < 2) return wrong.add(`no ring: ${named(one)}`);
  const contrast = ratio(over(parse(style.outlineColor), back), back);
  if (contrast < 3) wrong.add(`a ring of ${contrast.toFixed(1)} to 1: ${named(one)}`);
  const rect = one.getBoundingClientRect();
  for (let box = one.parentElement; box && box !== document.body; box = box.parentElement) {
    if (getComputedStyle(box).overflowX === "visible") continue;
    const at = box.getBoundingClientRect();
    const x = rect.left - at.left - box.clientLeft + box.scrollLeft;
    const y = rect.top - at.top - box.clientTop + box.scrollTop;
    const least = Math.min(x, y, box.scrollWidth - x - rect.width, box.scrollHeight - y - rect.height);
    if (least < room - 0.5) wrong.add(`a ring that is cut off by ${(room - least).toFixed(1)}: ${named(one)}`);
  }
};
for (const one of wanted) {
  if (!one.matches("select, textarea, input:not([type=checkbox], [type=file])")) continue;
  const field = one.closest(".CodeMirror") || one, back = ground(field.parentElement);
  const contrast = ratio(over(parse(getComputedStyle(field).borderTopColor), back), back);
  if (contrast < 3) wrong.add(`an edge of ${contrast.toFixed(1)} to 1: ${named(one)}`);
}
document.addEventListener("focusin", (event) => { seen.push(event.target); look(event.target); });
// What comes in by itself would take the nodes away that are counted.
Object.defineProperty(document, "visibilityState", {get: () => "hidden"});
window.walked = () => {
  const turns = [...new Set(seen)].map((one) => wanted.indexOf(one)).filter((n) => n >= 0);
  const first = turns.indexOf(Math.min(...turns)), order = [...turns.slice(first), ...turns.slice(0, first)];
  order.forEach((n, at) => { if (at && n < order[at - 1]) wrong.add(`out of its turn: ${named(wanted[n])}`); });
  wanted.forEach((one, n) => { if (!turns.includes(n)) wrong.add(`never reached: ${named(one)}`); });
  return [...wrong];
};
return wanted.length;
