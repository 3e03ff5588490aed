"use strict";
// Documents are shown with textContent alone: nothing in them is read as markup.
const $ = (id) => document.getElementById(id);
const number = (value) => value == null ? "" : typeof value === "boolean" ? String(value) : Math.abs(value) >= 1e6 || Number.isInteger(value) ? value.toLocaleString("en-US", {maximumFractionDigits: 0}) : String(+value.toPrecision(4));
const state = {view: "documents", outcome: "", stage: "", reason: "", words: "", ranges: {}, facets: {}, sort: "", descending: false, page: 0};
let summary;

function make(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "class") made.className = value;
    else if (value != null && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child != null));
  return made;
}

async function ask(path, values = {}) {
  const answer = await fetch(path + "?" + new URLSearchParams(values));
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}

function trouble(error) { $("trouble").textContent = error ? String(error.message || error) : ""; }

function query(changed = {}) {
  const now = {...state, ...changed};
  const ranges = Object.entries(now.ranges).map(([name, [low, high]]) => [name, low ?? -1e308, high ?? 1e308]);
  return {outcome: now.outcome, stage: now.stage, reason: now.reason, words: now.words, ranges: JSON.stringify(ranges), facets: JSON.stringify(Object.entries(now.facets)),
          sort: now.sort, descending: now.descending, page: now.page};
}

function highlighted(text, words) {
  const parts = make("div", {class: "text"});
  if (!words) { parts.textContent = text; return parts; }
  const low = text.toLowerCase(), wanted = words.toLowerCase();
  let from = 0;
  for (let at = low.indexOf(wanted); at >= 0 && low.length === text.length; at = low.indexOf(wanted, from)) {
    parts.append(text.slice(from, at), make("mark", {}, text.slice(at, at + wanted.length)));
    from = at + wanted.length;
  }
  parts.append(text.slice(from));
  return parts;
}

// A long name of a stage is made of those of its rules: where the reason is one of them, that is enough.
const LONG = 40;
function by(one) {
  if (!one.reason || one.reason === one.stage) return one.stage;
  return one.stage.length > LONG ? one.reason : `${one.stage} (${one.reason})`;
}
function fateOf(one) { return one.outcome === "kept" ? "kept" : `${one.outcome} by ${by(one)}`; }

function tools(one, ...more) {
  const box = make("div", {class: "tools"}, ...more);
  const note = make("input", {placeholder: "note", "aria-label": "note", value: one.mark.note || ""});
  const put = async (mark) => {
    try {
      const answer = await fetch("/api/mark", {method: "POST", headers: {"X-Dcurate": "explore"}, body: JSON.stringify({n: one.n, mark, note: note.value})});
      if (!answer.ok) throw new Error(await answer.text());
      one.mark = await answer.json();
      for (const button of box.querySelectorAll("button[data-mark]")) button.classList.toggle("on", button.dataset.mark === one.mark.mark);
      trouble();
    } catch (error) { trouble(error); }
  };
  for (const mark of summary.marks)
    box.append(make("button", {"data-mark": mark, class: one.mark.mark === mark ? "on" : "", onclick: () => put(one.mark.mark === mark ? "" : mark)}, mark));
  note.addEventListener("change", () => { if (one.mark.mark) put(one.mark.mark); });
  box.append(note);
  return box;
}

// The server draws one file after the other, in the order in which they come into view.
const seen = new IntersectionObserver((entries) => entries.filter((entry) => entry.isIntersecting).forEach(async ({target}) => {
  seen.unobserve(target);
  try {
    const address = await ask("/api/picture", {n: target.dataset.n});
    if (address) target.prepend(make("img", {src: address, alt: ""})); else target.classList.add("none");
  } catch (error) { target.classList.add("none"); }
}), {rootMargin: "300px"});

// A document without an id has the place of its row as that, which says less than the name of its file.
function title(one) { return one.file && one.id === one.place ? one.file : one.id; }

function pictured(one) {
  if (!one.file) return null;
  const figure = make("figure", {"data-n": one.n}, title(one) === one.file ? null : make("figcaption", {}, one.file));
  seen.observe(figure);
  return figure;
}

function card(one, words = "") {
  const scores = Object.entries(one.numbers || {}).map(([name, value]) => `${name} ${number(value)}`);
  if (one.score != null) scores.unshift(`score ${typeof one.score === "number" ? number(one.score) : JSON.stringify(one.score)}`);
  return make("article", {class: one.outcome},
    make("header", {}, make("h3", {}, title(one)), make("span", {class: "fate"}, fateOf(one)), make("span", {class: "place"}, one.place)),
    pictured(one),
    highlighted(one.text, words),
    scores.length ? make("p", {class: "score"}, scores.join(" · ")) : null,
    tools(one, make("button", {onclick: () => whole(one.n)}, `All ${number(one.characters)} characters`)));
}

async function whole(n) {
  try {
    const one = await ask("/api/document", {n});
    const rows = Object.entries(one.values).map(([name, value]) => make("tr", {}, make("th", {}, name), make("td", {}, typeof value === "string" ? value : JSON.stringify(value))));
    $("whole").replaceChildren(make("button", {onclick: () => $("whole").close()}, "Close"), make("h3", {}, title(one)),
      make("p", {}, make("span", {class: "fate"}, fateOf(one)), ` · ${one.place}`), pictured(one) || "", highlighted(one.text, state.words),
      one.characters > one.text.length ? make("p", {class: "count"}, `the first ${number(one.text.length)} of ${number(one.characters)} characters`) : null,
      make("table", {}, ...rows), tools(one));
    $("whole").showModal();
  } catch (error) { trouble(error); }
}

function paging(more, draw) {
  return make("div", {class: "paging"},
    make("button", {disabled: state.page === 0, onclick: () => { state.page -= 1; draw(); }}, "Previous"),
    make("span", {class: "count"}, `page ${state.page + 1}`),
    make("button", {disabled: !more, onclick: () => { state.page += 1; draw(); }}, "Next"));
}

// What a person asks first, while nothing is filtered.
const FIRST = 6;
function overview() {
  if (state.outcome || state.words || state.page || Object.keys(state.ranges).length || Object.keys(state.facets).length) return null;
  const share = (count) => `${(100 * count / Math.max(1, summary.documents)).toFixed(1)} %`;
  const kept = summary.fates.filter((fate) => fate.outcome === "kept").reduce((sum, fate) => sum + fate.documents, 0);
  const out = summary.fates.filter((fate) => fate.outcome !== "kept");
  const rows = out.map((fate) => {
    const bar = make("i", {class: fate.outcome});
    bar.style.width = `${100 * fate.documents / Math.max(1, out[0].documents)}%`;
    return make("li", {}, make("button", {title: fate.stage, onclick: () => { Object.assign(state, {outcome: fate.outcome, stage: fate.stage, reason: fate.reason, page: 0}); draw(); }},
      make("span", {}, fateOf(fate)), make("span", {class: "share"}, `${number(fate.documents)} · ${share(fate.documents)}`), bar));
  });
  const more = rows.length > FIRST ? make("details", {}, make("summary", {}, `${rows.length - FIRST} more reason${rows.length === FIRST + 1 ? "" : "s"}`), make("ul", {}, ...rows.slice(FIRST))) : null;
  return make("section", {id: "overview"}, make("h2", {}, "What was dropped, and why"),
    make("p", {class: "big"}, `${number(kept)} of ${number(summary.documents)} documents were kept (${share(kept)}).`),
    make("ul", {}, ...rows.slice(0, FIRST)), more);
}

async function documents() {
  const found = await ask("/api/documents", query());
  const count = found.total == null ? "found so far: more than are shown" : `${number(found.total)} document${found.total === 1 ? "" : "s"}`;
  return [overview(), make("p", {class: "count", id: "count"}, count), ...found.documents.map((one) => card(one, state.words)), paging(found.more, draw)];
}

async function compare() {
  const [kept, dropped] = await Promise.all([ask("/api/documents", query({outcome: "kept", stage: "", reason: ""})),
    ask("/api/documents", query({outcome: state.outcome === "quarantined" ? "quarantined" : "dropped"}))]);
  const side = (title, found) => make("section", {}, make("h2", {}, `${title}${found.total == null ? "" : `: ${number(found.total)}`}`), ...found.documents.map((one) => card(one, state.words)));
  return [make("div", {class: "pair"}, side("Kept", kept), side(state.stage ? `Dropped by ${state.stage}` : "Dropped", dropped)), paging(kept.more || dropped.more, draw)];
}

const what = {rule: 0, low: "", high: ""};
async function threshold() {
  if (!summary.rules.length) return [make("p", {}, "The run has no rule with a threshold, or its records do not say.")];
  const rule = summary.rules[what.rule];
  const input = (name) => make("label", {}, name === "low" ? "keep scores from" : "to", make("input", {id: name, type: "number", step: "any", value: what[name], onchange: (event) => { what[name] = event.target.value; draw(); }}));
  const select = make("select", {id: "rule", onchange: (event) => { Object.assign(what, {rule: +event.target.value, low: "", high: ""}); draw(); }},
    ...summary.rules.map((one, place) => make("option", {value: place, selected: place === what.rule}, `${one.stage}: ${one.rule} ${one.keeps.join(" and ")}`)));
  const head = make("div", {class: "what"}, make("label", {}, "rule", select), input("low"), input("high"));
  if (what.low === "" && what.high === "") return [head, make("p", {class: "count"}, `The run kept ${rule.keeps.join(" and ")}. Give another threshold to see what it would do; no text is read again.`)];
  const found = await ask("/api/threshold", {stage: rule.stage, column: rule.column, low: what.low, high: what.high});
  const gone = found.known_of_kept ? `${number(found.gone)} of ${number(found.kept)} kept documents would be dropped.` : "Kept documents have no column with this score: run with score_field= (or Annotate) to see which would be dropped.";
  const side = (title, rows) => make("section", {}, make("h2", {}, title), ...rows.map((one) => card(one)));
  return [head, make("p", {class: "big", id: "back"}, `${number(found.back)} of ${number(found.dropped)} documents that ${rule.stage} dropped would be kept.`), make("p", {class: "big", id: "gone"}, gone),
    make("p", {class: "count"}, "Those that come back still have to pass the rules after this one."),
    make("div", {class: "pair"}, side("Would be kept", found.examples_back), found.examples_gone.length ? side("Would be dropped", found.examples_gone) : null)];
}

async function groups() {
  const found = await ask("/api/groups", {page: state.page});
  if (!found.total) return [make("p", {}, "No groups of duplicates: deduplicate with report_path= to have them written, or give --groups PATH.")];
  const rows = found.groups.map((one) => make("tr", {}, make("td", {}, make("button", {onclick: () => group(one.kept)}, "Side by side")), make("td", {}, one.kept), make("td", {}, `${number(one.members.length)} documents`)));
  return [make("p", {class: "count"}, `${number(found.total)} groups, the largest first`), make("table", {}, ...rows), paging(found.more, draw)];
}

async function group(kept) {
  try {
    const found = await ask("/api/group", {kept});
    const side = (one) => make("section", {}, make("h2", {}, one.stays ? "stays" : `goes${one.similarity == null ? "" : `, similarity ${number(one.similarity)}`}`),
      one.text == null ? make("p", {class: "count"}, `${one.id}: its text is not among the documents here (deduplicate with id_field= so that groups have the ids of your documents)`) : card(one));
    $("view").replaceChildren(make("button", {onclick: draw}, "All groups"), make("div", {class: "pair"}, ...found.documents.map(side)));
  } catch (error) { trouble(error); }
}

async function marks() {
  const text = await (await fetch("/marks.jsonl")).text();
  const rows = text.split("\n").filter(Boolean).map((line) => JSON.parse(line));
  if (!rows.length) return [make("p", {}, "No marks yet. Mark a document with the buttons below it; marks are kept with the records of the run.")];
  return [make("p", {}, make("a", {href: "/marks.jsonl", download: "marks.jsonl"}, `Download ${rows.length} marks as JSON Lines`)),
    make("table", {}, ...rows.map((one) => make("tr", {}, make("td", {}, one.mark), make("td", {}, one.id), make("td", {}, fateOf(one)), make("td", {}, one.note))))];
}

const views = {documents, compare, threshold, groups, marks};
let turn = 0;
async function draw() {
  const mine = ++turn;
  for (const button of document.querySelectorAll("nav button")) button.toggleAttribute("aria-current", button.dataset.view === state.view);
  try {
    const made = await views[state.view]();
    if (mine === turn) { $("view").replaceChildren(...made.filter((one) => one != null)); trouble(); }
  } catch (error) { if (mine === turn) trouble(error); }
  sidebar();
}

function sidebar() {
  $("fates").replaceChildren(...summary.fates.map((fate) => {
    const on = state.outcome === fate.outcome && state.stage === fate.stage && state.reason === fate.reason;
    const show = () => { Object.assign(state, on ? {outcome: "", stage: "", reason: ""} : {outcome: fate.outcome, stage: fate.stage, reason: fate.reason}, {page: 0}); draw(); };
    return make("li", {}, make("button", {class: on ? "on" : "", onclick: show}, make("span", {}, fateOf(fate)), make("span", {}, number(fate.documents))));
  }));
  facets();
}

const MANY = 8;
function facets() {
  $("facets").replaceChildren(...summary.facets.flatMap((facet) => {
    const rows = facet.values.map(({value, documents, kept}) => {
      const on = state.facets[facet.name] === value;
      const show = () => { if (on) delete state.facets[facet.name]; else state.facets[facet.name] = value; state.page = 0; draw(); };
      return make("li", {}, make("button", {class: on ? "on" : "", title: `${number(kept)} of ${number(documents)} kept`, onclick: show}, make("span", {}, value || "(none)"), make("span", {}, number(documents))));
    });
    const more = rows.length > MANY ? make("details", {open: facet.values.slice(MANY).some(({value}) => state.facets[facet.name] === value)}, make("summary", {}, `${rows.length - MANY} more`), make("ul", {}, ...rows.slice(MANY))) : null;
    return [make("h2", {}, facet.name), make("ul", {class: "facet"}, ...rows.slice(0, MANY)), ...(more ? [more] : [])];
  }));
}

function columns() {
  $("columns").replaceChildren(...summary.columns.map((column) => {
    const most = Math.max(1, ...column.kept.map((count, place) => count + column.dropped[place]));
    const bars = column.kept.map((count, place) => {
      const bar = make("i", {}, make("u", {}), make("u", {class: "d"}));
      bar.children[0].style.height = `${100 * count / most}%`;
      bar.children[1].style.height = `${100 * column.dropped[place] / most}%`;
      return bar;
    });
    const end = (place, text) => make("input", {type: "number", step: "any", placeholder: text, "aria-label": `${column.name} ${place ? "to" : "from"}`, onchange: (event) => {
      const range = state.ranges[column.name] || [null, null];
      range[place] = event.target.value === "" ? null : +event.target.value;
      if (range[0] == null && range[1] == null) delete state.ranges[column.name]; else state.ranges[column.name] = range;
      state.page = 0; draw();
    }});
    return make("div", {class: "column"}, make("b", {}, column.name), make("div", {class: "bars", title: `kept below, dropped above${column.wide ? "; scores on a logarithmic scale" : ""}`}, ...bars),
      make("div", {class: "ends"}, end(0, number(column.low)), end(1, number(column.high))));
  }));
  $("sort").replaceChildren(make("option", {value: ""}, "order of the files"),
    ...summary.columns.flatMap((column) => [make("option", {value: `${column.name} up`}, `${column.name}, lowest first`), make("option", {value: `${column.name} down`}, `${column.name}, highest first`)]));
}

async function begin() {
  try {
    summary = await ask("/api/summary");
    document.title = `Explore ${summary.run}`;
    $("run").textContent = summary.run;
    $("output").textContent = `${summary.output}: ${number(summary.documents)} documents`;
    $("missing").textContent = summary.missing.join("; ");
    columns();
    await draw();
  } catch (error) { trouble(error); }
}

for (const button of document.querySelectorAll("nav button")) button.addEventListener("click", () => { Object.assign(state, {view: button.dataset.view, page: 0}); draw(); });
let typing;
$("words").addEventListener("input", (event) => { clearTimeout(typing); typing = setTimeout(() => { Object.assign(state, {words: event.target.value, page: 0}); draw(); }, 250); });
$("sort").addEventListener("change", (event) => { const [name, way] = event.target.value.split(/ (?=up$|down$)/); Object.assign(state, {sort: name || "", descending: way === "down", page: 0}); draw(); });
$("clear").addEventListener("click", () => { Object.assign(state, {outcome: "", stage: "", reason: "", words: "", ranges: {}, facets: {}, sort: "", descending: false, page: 0}); $("words").value = ""; columns(); draw(); });
begin();
