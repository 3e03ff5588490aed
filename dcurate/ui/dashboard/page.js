// Fills the text parts of the page with what the server says. A part is touched only if it changed.
window.dcurate = (() => {
  const fill = (texts) => {
    const {name: names, html} = texts.data, places = new Map();
    const look = (under) => {
      for (const place of under.querySelectorAll("[data-part]")) {
        const there = places.get(place.dataset.part);
        if (there) there.add(place); else places.set(place.dataset.part, new Set([place]));
      }
    };
    look(document);
    for (let i = 0; i < names.length; i++) {
      if (names[i] === "state") document.body.dataset.state = html[i];
      for (const place of places.get(names[i]) ?? []) {
        if (place.said === html[i] || !place.isConnected) continue;
        place.said = html[i];
        place.innerHTML = html[i];
        look(place);
      }
    }
  };
  const begin = (texts, watch) => {
    fill(texts);
    document.addEventListener("visibilitychange", () => { watch.text = document.hidden ? "hidden" : ""; });
    if (document.hidden) watch.text = "hidden";
  };
  return {fill, begin};
})();
