// Texts whose contrast to what is behind them is less than 4.5 (https://www.w3.org/TR/WCAG22/#contrast-minimum).
(() => {
  const rgb = text => {
    const numbers = text.match(/[\d.]+/g).map(Number);
    return numbers.length > 3 ? numbers : [...numbers, 1];
  };
  const linear = value => (value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  const luminance = colour => {
    const [r, g, b] = colour.slice(0, 3).map(value => linear(value / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const over = (top, under) => [0, 1, 2].map(i => top[i] * top[3] + under[i] * (1 - top[3]));
  const behind = element => {
    const layers = [];
    for (let e = element; e; e = e.parentElement) {
      const colour = getComputedStyle(e).backgroundColor;
      if (!colour.startsWith("rgb")) continue;
      layers.push(rgb(colour));
      if (rgb(colour)[3] === 1) break;
    }
    return layers.reverse().reduce((under, top) => over(top, under), [255, 255, 255]);
  };
  const opacity = element => {
    let all = 1;
    for (let e = element; e; e = e.parentElement) all *= Number(getComputedStyle(e).opacity);
    return all;
  };
  const bad = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const text = walker.currentNode.data.trim();
    if (!text || element.closest("style, script, title, svg")) continue;
    const style = getComputedStyle(element);
    if (style.visibility === "hidden" || !element.getClientRects().length) continue;
    const back = behind(element);
    const [r, g, b, a] = rgb(style.color);
    const [darker, lighter] = [luminance(over([r, g, b, a * opacity(element)], back)), luminance(back)].sort((x, y) => x - y);
    const ratio = (lighter + 0.05) / (darker + 0.05);
    if (ratio < 4.5) bad.push(`${text.slice(0, 30)}: ${ratio.toFixed(2)}, ${style.color} on ${back}`);
  }
  return bad;
})();
