"""Checks of a page in a browser: text that can be read on its background, and words and columns that are all there."""

from __future__ import annotations

from typing import Any

from dcurate_testing.browser import Browser

#: Contrast that WCAG 2 asks of text (level AA).
CONTRAST = 4.5
#: Size of a phone in CSS pixels.
PHONE = (390, 844)

_TEXTS = """
const texts = [];
for (const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT); walk.nextNode();) {
  const node = walk.currentNode, of = node.parentElement;
  const seen = of.checkVisibility({visibilityProperty: true}) && !of.closest("title, style, script");
  if (seen && node.data.trim()) texts.push(node);
}
"""

#: The red, green, blue and alpha of any CSS colour, found by painting it.
_FAINT = """(() => {
%s
const paint = new OffscreenCanvas(1, 1).getContext("2d", {willReadFrequently: true});
const rgba = (colour) => {
  paint.clearRect(0, 0, 1, 1); paint.fillStyle = colour; paint.fillRect(0, 0, 1, 1);
  const [r, g, b, a] = paint.getImageData(0, 0, 1, 1).data;
  return [r, g, b, a / 255];
};
const over = ([r, g, b, a], [R, G, B]) => [r * a + R * (1 - a), g * a + G * (1 - a), b * a + B * (1 - a)];
const light = (colour) => {
  const [r, g, b] = colour.map((one) => (one /= 255) <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const behind = (of) => {
  const colour = rgba(getComputedStyle(of).backgroundColor);
  return colour[3] === 1 ? colour : over(colour, of.parentElement ? behind(of.parentElement) : [255, 255, 255]);
};
return texts.map((node) => {
  const of = node.parentElement, style = getComputedStyle(of), back = behind(of).slice(0, 3);
  const ink = over(rgba(of.closest("svg") ? style.fill : style.color), back);
  const [low, high] = [light(ink), light(back)].sort((a, b) => a - b);
  return [(high + 0.05) / (low + 0.05), node.data.trim().slice(0, 40)];
}).filter(([contrast]) => contrast < %s);
})()"""

_BROKEN = """(() => {
%s
const broken = [];
for (const node of texts) for (const {0: word, index} of node.data.matchAll(/[\\p{L}\\p{N}_]{2,24}/gu)) {
  const range = document.createRange();
  range.setStart(node, index); range.setEnd(node, index + word.length);
  const lines = new Set([...range.getClientRects()].filter((one) => one.width > 0).map((one) => Math.round(one.top)));
  if (lines.size > 1) broken.push(word);
}
return broken;
})()"""

_OUTSIDE = """(() => {
const wide = document.documentElement.clientWidth;
return [...document.querySelectorAll("td, th, li, h1, h2, h3, p, svg, b")].filter((one) => {
  const {left, right, width} = one.getBoundingClientRect();
  return width > 1 && !one.closest(".runs, pre") && (right > wide + 1 || left < -1);
}).map((one) => (one.innerText ?? one.tagName).slice(0, 60));
})()"""


def faint(browser: Browser) -> list[Any]:
    """Texts with less contrast than `CONTRAST`, each after its contrast."""
    found: list[Any] = browser.value(_FAINT % (_TEXTS, CONTRAST))
    return found


def broken(browser: Browser) -> list[str]:
    """Words that begin on one line and end on the next."""
    found: list[str] = browser.value(_BROKEN % _TEXTS)
    return found


def outside(browser: Browser) -> list[str]:
    """What lies beyond the edges of the window."""
    found: list[str] = browser.value(_OUTSIDE)
    return found
