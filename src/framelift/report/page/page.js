"use strict";
// The data of one report, or of several with their names, is in #data; every view is made from it.  No network, no library.
const DATA = JSON.parse(document.getElementById("data").textContent);
const ALL = DATA.reports || [{name: DATA.name, report: DATA}];
let R, byId;  // the report that is shown, its functions by id
function choose(number) {
  R = ALL[number].report;
  byId = Object.fromEntries(R.functions.map(f => [f.id, f]));
  document.getElementById("footer").textContent = Object.entries(R.versions).map(([k, v]) => `${k} ${v}`).join(" · ");
}
const main = document.getElementById("main");
const esc = s => String(s).replace(/[&<>"]/g, c => ({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"}[c]));
// code stands between backticks
const words = text => esc(text).replace(/`([^`]+)`/g, "<code>$1</code>");
const ms = s => s >= 1 ? s.toFixed(2) + " s" : (s * 1e3).toFixed(1) + " ms";
const many = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;
const link = id => `#/function/${encodeURIComponent(id)}`;
const PHASES = ["rehearse", "graph", "backend", "entry", "guards"];

// The source line with the expression marked.  Its caret line says where: "   ^^^^".
function code(source) {
  if (!source || !source.caret) return "";
  const [line, caret = ""] = source.caret.split("\n"), from = caret.indexOf("^"), to = caret.lastIndexOf("^") + 1;
  return `<pre>${from < 0 ? esc(line) : `${esc(line.slice(0, from))}<mark>${esc(line.slice(from, to))}</mark>${esc(line.slice(to))}`}</pre>`;
}
// A long path by its end; the whole one is in the title.
const short = file => { const parts = file.split("/"); return file.length > 40 && parts.length > 3 ? "…/" + parts.slice(-2).join("/") : file; };
const spot = s => `<span title="${esc(s.path)}">${esc(short(s.file))}:${s.line}</span>`;
const at = s => s ? `<span class=dim>${spot(s)} in ${esc(s.function)}</span>` : "";
const named = id => byId[id] ? `<a href="${link(id)}" title="${esc(id)}">${esc(byId[id].name)}</a>` : esc(id);
const ofBreak = id => { const b = R.breaks.find(one => one.id === id); return `<a href="#/breaks">${b && b.source ? `${esc(b.reason)} at ${esc(short(b.source.file))}:${b.source.line}` : esc(id)}</a>`; };

function breakCard(b) {
  const from = b.provenance.map(l => `<li>${esc(l.text)}${l.source ? ` <span class=dim>${spot(l.source)}</span> <code>${esc(l.source.expression)}</code>` : ""}</li>`).join("");
  const stack = b.stack.map(s => `${esc(s.file)}:${s.line} in ${esc(s.function)}\n    ${esc(s.caret.split("\n")[0])}`).join("\n");
  return `<article class="card bad" id="${esc(b.id)}"><h3>${esc(b.sentence)} <span class=tag>${esc(b.reason)}</span></h3>
    ${at(b.source)}${code(b.source)}
    ${b.inner ? `<p class=dim>below it ${spot(b.inner)} in ${esc(b.inner.function)}: <code>${esc(b.inner.expression)}</code></p>` : ""}
    ${from ? `<details open><summary>Where the value comes from</summary><ol>${from}</ol></details>` : ""}
    ${b.callers.length ? `<p class=dim>Called at ${b.callers.map(s => `${spot(s)} in ${esc(s.function)}: <code>${esc(s.expression)}</code>`).join("<br>")}</p>` : ""}
    ${b.loops.map(s => `<p class=dim>In a loop (${spot(s)}) whose steps run eagerly because of it.</p>`).join("")}
    <p class=fix>Fix: ${words(b.fix)}</p>
    <p class=dim>Cost: ${esc(b.cost)} (${b.functions.map(named).join(", ")}) · ${esc(b.page)}</p>
    ${b.example ? `<details><summary>Example: <code>broken</code> has such a break, <code>fixed</code> has none</summary><pre>${esc(b.example)}</pre></details>` : ""}
    ${stack ? `<details><summary>Stack</summary><pre>${stack}</pre></details>` : ""}</article>`;
}

function recompileCard(r) {
  const rows = r.changes.filter(c => c[0] || c[1]).map(c => `<span class=old>- ${esc(c[0])}</span>\n<span class=new>+ ${esc(c[1])}</span>`).join("\n");
  return `<article class="card ${r.settled ? "" : "warn"}" id="${esc(r.id)}"><h3>${r.origin ? `<code>${esc(r.origin)}</code> changed` : `Changed: ${esc(r.what)}`}, ${many(r.times, "recompile")}${r.origin ? ` <span class=tag>${esc(r.what)}</span>` : ""}${r.settled ? " <span class=tag>symbolic since then</span>" : ""}</h3>
    <p class=dim>${r.functions.map(named).join(", ")} · ${ms(r.seconds)}${r.result_of ? ` · result of ${ofBreak(r.result_of)}` : ""}</p>
    ${rows ? `<pre class=diff>${rows}</pre>` : `<p>${esc(r.sentence)}</p>`}${at(r.source)}${code(r.source)}<p class=fix>Fix: ${words(r.fix)}</p></article>`;
}

function refusalCard(r) {
  return `<article class="card bad"><h3>${esc(r.name)}: ${many(r.calls, "call")} ran eagerly <span class=tag>${esc(r.why)}</span></h3>${at(r.source)}
    ${r.sentence ? `<p>Last: ${esc(r.sentence)}</p>` : ""}<p class=fix>Fix: ${words(r.fix)}</p></article>`;
}

function constantRows(list) {
  return `<div class=scroll><table class=stack><tr><th>value<th>specialized on<th>kind<th>read by<th>what a change does</tr>${list.map(s => `<tr><td><code>${esc(s.origin)}</code><td data-h="specialized on"><code>${esc(s.value)}</code><td data-h=kind>${esc(s.kind)}
    <td data-h="read by">${s.source ? `<code>${esc(s.source.expression)}</code><br>${at(s.source)}` : ""}<td class=dim>${esc(s.how)}</tr>`).join("")}</table></div>`;
}

function functionRows(list) {
  return `<div class=scroll><table class=stack><tr><th>function<th class=n>captures<th class=n>operations<th class=n>guards<th class=n>calls served<th class=n>time<th>state</tr>${list.map(f => {
    const sum = key => f.captures.reduce((n, c) => n + c[key], 0);
    const broken = f.captures.some(c => c.status === "broken");
    return `<tr><td><a href="${link(f.id)}">${esc(f.name)}</a>${f.root ? " <span class=tag>root</span>" : f.library ? " <span class=tag>torch</span>" : ""}<br><span class=dim>${spot(f.source)}</span><td class=n data-h=captures>${f.captures.length}
      <td class=n data-h=operations>${sum("operations")}<td class=n data-h=guards>${sum("guards")}<td class=n data-h="calls served">${f.hits}<td class=n data-h=time>${ms(sum("seconds"))}<td data-h=state>${broken ? "<span class=bad-text>broken</span>" : "<span class=ok>captured</span>"}</tr>`;
  }).join("")}</table></div>`;
}

function timeRows(list) {
  const most = Math.max(1e-9, ...list.map(t => t.own));
  return `<div class=scroll><table class=stack><tr><th>function<th class=n>calls<th class=n>own<th><th class=n>with what it calls</tr>${list.map(t => `<tr><td class="${t.library ? "dim" : ""}">${esc(t.name)}<br><span class=dim>${spot(t.source)}</span>
    <td class=n data-h=calls>${t.calls}<td class=n data-h=own>${ms(t.own)}<td class=share><div class=bar><i class=p-rehearse style="left:0;width:${100 * t.own / most}%"></i></div><td class=n data-h="with what it calls">${ms(t.total)}</tr>`).join("")}</table></div>`;
}

// Compile time as a flame chart: captures in their order, below them their phases, below "rehearse" the program's
// functions by who calls them.  A function that is called several times there, such as a layer, is one block: × 12.
function flame() {
  const blocks = [], total = R.seconds || 1e-9;
  let left = 0;
  const all = R.functions.flatMap(f => f.captures.map(c => ({f, c}))).filter(x => x.c.seconds > 0);
  all.sort((a, b) => a.c.phases[0].start - b.c.phases[0].start);
  for (const {f, c} of all) {
    blocks.push({row: 0, from: left, width: c.seconds, kind: "capture", text: f.name, title: `${f.name}, capture ${c.id.split("#").pop()}: ${ms(c.seconds)}`});
    let at = left;
    for (const p of c.phases) {
      blocks.push({row: 1, from: at, width: p.seconds, kind: PHASES.includes(p.name) ? p.name : "other", text: p.name, title: `${p.name}: ${ms(p.seconds)}`});
      if (p.name === "rehearse" && p === c.phases.find(one => one.name === "rehearse")) {
        const ends = [at];  // where the next block of each depth begins
        for (const s of c.spans) {
          const from = ends[s.depth];
          ends[s.depth] = from + s.total; ends[s.depth + 1] = from;
          blocks.push({row: 2 + s.depth, from, width: s.total, kind: s.library ? "library" : "user", text: s.name + (s.calls > 1 ? ` × ${s.calls}` : ""),
            title: `${s.name} (${s.place}): ${many(s.calls, "call")}, ${ms(s.total)}, ${ms(s.own)} of it its own`});
        }
      }
      at += p.seconds;
    }
    left += c.seconds;
  }
  return {blocks, total};
}
function drawFlame(from = 0, to = flame().total) {
  const {blocks} = flame(), span = to - from, part = x => 100 * (x - from) / span;
  const seen = blocks.filter(b => b.from + b.width > from && b.from < to && b.width / span > 0.002);
  const box = document.getElementById("flame");
  box.style.height = `${1.45 * (1 + Math.max(0, ...seen.map(b => b.row)))}rem`;
  box.innerHTML = seen.map(b => { const l = Math.max(0, part(b.from)), r = Math.min(100, part(b.from + b.width));
    return `<button type=button class="p-${b.kind}" style="left:${l}%;width:${r - l}%;top:${1.45 * b.row}rem" title="${esc(b.title)}" data-from="${b.from}" data-to="${b.from + b.width}">${r - l > 3 ? esc(b.text) : ""}</button>`; }).join("");
  box.querySelectorAll("button").forEach(b => b.onclick = () => drawFlame(+b.dataset.from, +b.dataset.to));
}

function timeline() {
  const legend = Object.entries(R.phases).map(([n, s]) => `<span><i class="p-${PHASES.includes(n) ? n : "other"}"></i>${esc(n)} ${ms(s)}</span>`).join("");
  return `<div class=legend>${legend}<span><i class=p-user></i>your functions</span><span><i class=p-library></i>functions of libraries</span></div>
    ${R.seconds ? "<p class=dim>A block is as wide as the time it took; click it to look closer. × 12: twelve calls from the same place, shown as one.</p><div id=flame></div>" : "<p class=dim>Nothing was captured.</p>"}
    <p><button id=all type=button>All of it</button> <button id=trace type=button>Download as Chrome trace</button></p>
    ${R.times.length ? `<h2>Rehearsing time by function</h2>${timeRows(R.times.slice(0, 40))}` : ""}`;
}

function chromeTrace() {
  const events = R.functions.flatMap(f => f.captures.flatMap(c => c.phases.map(p => ({name: `${p.name}: ${f.name}`, cat: p.name, ph: "X", ts: p.start * 1e6, dur: p.seconds * 1e6, pid: 1, tid: 1, args: {capture: c.id}}))));
  return JSON.stringify({traceEvents: events, displayTimeUnit: "ms"});
}

const comments = text => esc(text).replace(/^(\s*#.*)$/gm, "<span class=comment>$1</span>");

// A row per value, its checks in words; a number says how many comparisons each call makes for it and all below it.
function guardTree(c) {
  const rows = c.guard_tree, sums = rows.map(g => g.words), ends = [];
  for (let i = rows.length - 1; i >= 0; i--) {
    let next = i + 1;
    while (next < rows.length && rows[next].depth > rows[i].depth) { sums[i] += sums[next]; next = ends[next]; }
    ends[i] = next;
  }
  const line = i => { const g = rows[i]; return `${esc(g.step)} <span class=dim>${g.checks.map(esc).join("; ")}</span>${g.source ? ` <span class=tag>${esc(g.source)}</span>` : ""}`
    + `<span class=words title="comparisons at each call, here and below">${g.visited ? "<span class=warn-text>in full</span> " : ""}${sums[i] || ""}</span>`; };
  const part = (from, to) => { let html = ""; for (let i = from; i < to; i = ends[i]) html += ends[i] > i + 1
    ? `<details${rows[i].depth < 2 ? " open" : ""}><summary>${line(i)}</summary><div class=below>${part(i + 1, ends[i])}</div></details>` : `<div class=leaf>${line(i)}</div>`; return html; };
  const total = rows.reduce((n, g) => n + g.words, 0);
  return `<p class=dim>Each call makes ${many(total, "comparison")} for these.
    Values without a number are spoken for by a check above them.</p><div class=tree>${part(0, rows.length)}</div>`;
}

function capturePart(c) {
  const phases = c.phases.map(p => `${esc(p.name)} ${ms(p.seconds)}`).join(", ");
  return `<section class=card><h3>${esc(c.id.split("#").pop())}: <span class="${c.status === "broken" ? "bad-text" : "ok"}">${esc(c.status)}</span></h3>
    <p>${many(c.operations, "operation")}, ${many(c.guards, "guard")}, ${c.hits < 0 ? "dropped" : many(c.hits, "call") + " served"} · <span class=dim>${phases}${c.backend ? `, backend ${esc(c.backend)}` : ""}${c.loaded ? ", loaded from disk" : ""}${c.not_kept ? `, not kept on disk: ${esc(c.not_kept)}` : ""}${c.fallbacks.length ? `, compiled as captured, the backend failed otherwise: ${esc(c.fallbacks.join(", "))}` : ""}</span></p>
    ${c.after ? `<p>Resumes after ${ofBreak(c.after)}</p>` : ""}
    ${c.reason ? `<p class=bad-text>Ended by ${ofBreak(c.reason)}</p>` : ""}${c.recompile ? `<p class=warn-text>Recompiled because of <a href="#/recompiles">${esc(c.recompile.split("@")[0])}</a></p>` : ""}
    ${c.resume ? `<details><summary>What it resumes with</summary><pre>${comments(c.resume)}</pre></details>` : ""}
    ${c.graph ? `<details open><summary>Graph</summary><pre>${comments(c.graph)}</pre></details>` : ""}
    ${c.inputs.length ? `<details><summary>${many(c.inputs.length, "input")}</summary><pre>${c.inputs.map(esc).join("\n")}</pre></details>` : ""}
    ${c.rewrites.map(text => `<p class=dim>${esc(text)}</p>`).join("")}
    ${c.generated.length ? `<p>Generated code: ${c.generated.map(file => `<a href="file://${encodeURI(file)}">${esc(short(file))}</a>`).join(", ")}</p>` : ""}
    ${c.entry ? `<details><summary>Entry: the function that runs instead</summary><pre>${comments(c.entry)}</pre></details>` : ""}
    ${c.guard_tree.length ? `<details class=guards data-capture="${esc(c.id)}"><summary>Guards</summary></details>` : ""}</section>`;
}

// Several reports side by side: their figures, then what is not in all of them.  Ids are the same in all processes.
function compare() {
  const sum = (list, key) => list.reduce((n, one) => n + Number(one[key]), 0), captures = r => r.functions.flatMap(f => f.captures);
  const columns = [["calls served", r => r.calls], ["graphs", r => r.graphs], ["captures", r => r.captures], ["loaded", r => sum(captures(r), "loaded")],
    ["breaks", r => r.breaks.length], ["recompiles", r => sum(r.recompiles, "times")], ["ran eagerly", r => sum(r.refusals, "calls")], ["compiling", r => ms(r.seconds)]];
  const rows = ALL.map(one => `<tr><td>${esc(one.name)}${columns.map(([name, of]) => `<td class=n data-h="${name}">${of(one.report)}`).join("")}</tr>`).join("");
  const parts = [["Breaks", r => r.breaks.map(b => [b.id, b.sentence + (b.source ? ` (${short(b.source.file)}:${b.source.line})` : "")])],
    ["Recompiles", r => r.recompiles.map(x => [x.id, x.sentence])], ["Functions", r => r.functions.map(f => [f.id, f.name])], ["No longer compiled", r => r.refusals.map(x => [x.name, x.name])]];
  const differences = parts.map(([title, of]) => {
    const having = new Map();
    ALL.forEach(one => new Map(of(one.report)).forEach((text, id) => having.set(id, [text, [...(having.get(id) || ["", []])[1], one.name]])));
    const some = [...having.values()].filter(([, names]) => names.length < ALL.length);
    return some.length ? `<h2>${title} that not all have</h2><ul>${some.map(([text, names]) => `<li>${esc(text)} <span class=dim>only in ${names.map(esc).join(", ")}</span></li>`).join("")}</ul>` : "";
  }).join("");
  return `<h1>${ALL.length} reports</h1><div class=scroll><table class=stack><tr><th>report${columns.map(([name]) => `<th class=n>${name}`).join("")}</tr>${rows}</table></div>
    ${differences || empty("All have the same breaks, recompiles and functions.")}`;
}

const empty = text => `<p class=ok>${text}</p>`;
const VIEWS = {
  "": () => !R.captures && !R.refusals.length ? `<h1>${esc(R.name)}</h1><p>Nothing was called: no compiled function ran, so there is nothing to report.</p>` : `<h1>${esc(R.name)}</h1><div class=tiles>${[["breaks", R.breaks.length, R.breaks.length ? "bad-text" : "ok"], ["recompiles", R.recompiles.reduce((n, r) => n + r.times, 0), R.recompiles.some(r => !r.settled) ? "warn-text" : "ok"],
    ["graphs", R.graphs], ["operations", R.operations], ["guards", R.guards], ["calls served", R.calls], ["captures", R.captures], ["compiling", ms(R.seconds)]].map(([name, n, style = ""]) => `<div class=tile><b class="${style}">${n}</b><span>${name}</span></div>`).join("")}</div>
    <h2>Breaks</h2>${R.breaks.map(breakCard).join("") || empty("Nothing breaks a graph.")}<h2>Recompiles</h2>${R.recompiles.map(recompileCard).join("") || empty("Nothing was recompiled.")}
    ${R.refusals.length ? `<h2>No longer compiled</h2>${R.refusals.map(refusalCard).join("")}` : ""}<h2>Functions</h2>${functionRows(R.functions)}`,
  breaks: () => `<h1>Breaks</h1>${R.breaks.map(breakCard).join("") || empty("Nothing breaks a graph.")}`,
  recompiles: () => `<h1>Recompiles</h1>${R.recompiles.map(recompileCard).join("") || empty("Nothing was recompiled.")}`,
  constants: () => `<h1>Specialized on</h1>${constantRows(R.specialisations)}`,
  compare,
  functions: () => `<h1>Functions</h1>${functionRows(R.functions)}`,
  timeline: () => `<h1>Compile time</h1>${timeline()}`,
  function: id => { const f = byId[id]; return f ? `<h1>${esc(f.name)}</h1><p class=dim>${esc(f.source.path)}:${f.source.line}</p>${f.captures.map(capturePart).join("")}` : "<p>No such function.</p>"; },
};

function search(text) {
  const has = (...parts) => parts.some(p => p && String(p).toLowerCase().includes(text));
  const breaks = R.breaks.filter(b => has(b.sentence, b.reason, b.fix, b.source && b.source.caret, b.source && b.source.file));
  const recompiles = R.recompiles.filter(r => has(r.origin, r.sentence, r.function));
  const constants = R.specialisations.filter(s => has(s.origin, s.value, s.source && s.source.expression));
  const refusals = R.refusals.filter(r => has(r.name, r.sentence, r.source.file));
  const functions = R.functions.filter(f => has(f.name, f.source.file) || f.captures.some(c => has(c.graph, c.entry)));
  const guards = R.functions.flatMap(f => f.captures.flatMap(c => c.guard_tree.filter(g => has(g.path, g.checks.join(" "))).map(g => [f, g]))).slice(0, 100);
  const part = (title, list, html) => list.length ? `<h2>${title}</h2>${html}` : "";
  const found = part("Breaks", breaks, breaks.map(breakCard).join("")) + part("Recompiles", recompiles, recompiles.map(recompileCard).join("")) + part("No longer compiled", refusals, refusals.map(refusalCard).join("")) + part("Functions", functions, functionRows(functions))
    + part("Constants", constants, constantRows(constants)) + part("Guards", guards, `<div class=tree>${guards.map(([f, g]) => `<div><a href="${link(f.id)}">${esc(f.name)}</a> ${esc(g.path)} <span class=dim>${g.checks.map(esc).join("; ")}</span></div>`).join("")}</div>`);
  return `<h1>Search: ${esc(text)}</h1>${found || "<p class=dim>Nothing found.</p>"}`;
}

function show() {
  const [, view = "", argument = ""] = location.hash.split("/");
  const text = document.getElementById("search").value.trim().toLowerCase();
  main.innerHTML = text ? search(text) : (VIEWS[view] || VIEWS[""])(decodeURIComponent(argument));
  document.querySelectorAll("nav a").forEach(a => a.classList.toggle("here", a.getAttribute("href") === "#/" + view));
  const button = document.getElementById("trace");
  if (button) button.onclick = () => { const a = document.createElement("a"); a.href = URL.createObjectURL(new Blob([chromeTrace()], {type: "application/json"})); a.download = "framelift.trace.json"; a.click(); };
  if (document.getElementById("flame")) { drawFlame(); document.getElementById("all").onclick = () => drawFlame(); }
  // A tree may have thousands of rows: it is made when it is opened.
  document.querySelectorAll("details.guards").forEach(d => d.addEventListener("toggle", () => {
    if (d.open && !d.querySelector(".tree")) d.insertAdjacentHTML("beforeend", guardTree(R.functions.flatMap(f => f.captures).find(c => c.id === d.dataset.capture)));
  }));
}

function theme(name) {
  document.documentElement.dataset.theme = name;
  try { localStorage.setItem("framelift-theme", name); } catch (e) { /* private window */ }
}
let stored = null;
try { stored = localStorage.getItem("framelift-theme"); } catch (e) { /* private window */ }
theme(stored || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
document.getElementById("theme").onclick = () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
document.getElementById("search").oninput = show;
choose(0);
if (ALL.length > 1) {
  const chooser = document.getElementById("reports");
  chooser.innerHTML = ALL.map((one, i) => `<option value="${i}">${esc(one.name)}</option>`).join("");
  chooser.hidden = document.getElementById("compare").hidden = false;
  chooser.onchange = () => { choose(+chooser.value); show(); };
  if (!location.hash) location.hash = "#/compare";
}
window.addEventListener("hashchange", () => { document.getElementById("search").value = ""; show(); scrollTo(0, 0); });
show();
