(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const at = id => document.getElementById(id);
  const svg = (name, values) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(values)) element.setAttribute(key, value);
    return element;
  };
  const width = 960, height = 170, step = width / data.counts.length, most = Math.max(...data.counts);
  const tall = count => count ? Math.max(2, height * Math.log1p(count) / Math.log1p(most)) : 0;
  const bars = data.counts.map((count, n) => svg("rect", {x: n * step + .5, width: step - 1, y: height - tall(count), height: tall(count)}));
  const line = svg("line", {y1: 0, y2: height});
  at("bars").append(...bars, line);
  const number = value => Number(value.toPrecision(6)).toString();
  const percent = (part, whole) => {
    const share = 100 * part / whole;
    if (part === 0 || part === whole) return share + " %";
    return (share > 99.95 ? "> 99.9" : share < .05 ? "< 0.1" : share.toFixed(1)) + " %";
  };
  const place = value => {  // across the bars, as these need not be of one width
    let n = 0;
    while (n < bars.length - 1 && value >= data.edges[n + 1]) n++;
    const [low, high] = [data.edges[n], data.edges[n + 1]];
    return (n + Math.min(1, Math.max(0, high > low ? (value - low) / (high - low) : 0))) * step;
  };
  const item = ([score, name, text]) => {
    const row = document.createElement("li"), head = document.createElement("b"), id = document.createElement("span"), body = document.createElement("p");
    head.textContent = number(score); id.textContent = name; body.textContent = text;
    row.append(head, id, body);
    return row;
  };
  const places = data.values.map(value => 1000 * place(value) / width);
  const nearest = (values, wanted) => values.reduce((best, value, n) => Math.abs(value - wanted) < Math.abs(values[best] - wanted) ? n : best, 0);
  let chosen = data.start, keep = data.keep;
  const keeps = (score, limit) => keep === "high" ? score >= limit : score <= limit;
  const show = () => {
    const limit = data.values[chosen], kept = (keep === "high" ? data.above : data.below)[chosen];
    at("share").textContent = percent(kept, data.documents);
    at("amount").textContent = kept.toLocaleString("en") + (kept === 1 ? " document" : " documents");
    at("lost").textContent = (data.documents - kept).toLocaleString("en");
    bars.forEach((bar, n) => bar.setAttribute("class", keeps((data.edges[n] + data.edges[n + 1]) / 2, limit) ? "in" : ""));
    for (const end of ["x1", "x2"]) line.setAttribute(end, place(limit));
    at("slider").value = places[chosen]; at("value").value = number(limit); at("side").value = keep;
    at("rule").textContent = `Filter(lambda score: score${data.struct ? '["score"]' : ""} ${keep === "high" ? ">=" : "<="} ${limit}, ${JSON.stringify(data.column)})`;
    const near = data.examples.map(example => [Math.abs(example[0] - limit), example]).sort((a, b) => a[0] - b[0]).map(pair => pair[1]);
    at("in").replaceChildren(...near.filter(example => keeps(example[0], limit)).slice(0, 5).map(item));
    at("out").replaceChildren(...near.filter(example => !keeps(example[0], limit)).slice(0, 5).map(item));
  };
  at("slider").addEventListener("input", event => { chosen = nearest(places, Number(event.target.value)); show(); });
  at("side").addEventListener("change", event => { keep = event.target.value; show(); });
  at("value").addEventListener("change", event => {
    const wanted = Number(event.target.value);
    if (event.target.value !== "" && !Number.isNaN(wanted))
      chosen = nearest(data.values, wanted);
    show();
  });
  show();
})();
