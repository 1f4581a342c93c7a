// Keys, copying and permanent links. Everything can be read without it.

const rows = () => [...document.querySelectorAll("[data-row]")];
const live = document.querySelector(".live");
const help = document.querySelector("dialog.help");

let here = null;

function say(text) {
  live.textContent = text;
  setTimeout(() => { if (live.textContent === text) live.textContent = ""; }, 4000);
}

function choose(row) {
  here?.classList.remove("here");
  here = row;
  row.classList.add("here");
  (row.querySelector("td.what a") ?? row).focus({ preventScroll: true });
  row.scrollIntoView({ block: "nearest", behavior: "instant" });
  showInLanes(row);
}

function showInLanes(row) {
  document.querySelector(".lanes g.here")?.classList.remove("here");
  if (!row.id) return;
  const link = document.querySelector(`.lanes a[href="#${CSS.escape(row.id)}"]`);
  if (!link) return;
  link.querySelector("g").classList.add("here");
  bringAlong(link);
}

function bringAlong(cell) {
  const track = cell.closest(".track");
  const at = cell.getBoundingClientRect();
  const seen = track.getBoundingClientRect();
  if (at.left < seen.left || at.right > seen.right) track.scrollLeft += at.left - seen.left - seen.width / 2;
}

function step(by) {
  const all = rows();
  if (!all.length) return;
  const at = all.indexOf(here);
  choose(all[Math.min(all.length - 1, Math.max(0, at < 0 ? (by > 0 ? 0 : all.length - 1) : at + by))]);
}

// What was out of sight gets its true height only when it comes into sight: look again until it stays.
function bringIn(row, frames = 30, still = 0) {
  const before = row.getBoundingClientRect().top;
  row.scrollIntoView({ block: row.offsetHeight < innerHeight ? "center" : "start", behavior: "instant" });
  const stays = Math.abs(row.getBoundingClientRect().top - before) < 2 ? still + 1 : 0;
  if (frames && stays < 4) requestAnimationFrame(() => bringIn(row, frames - 1, stays));
}

function goTo(id) {
  const found = document.getElementById(id);
  if (!found) return false;
  choose(found);
  bringIn(found);
  if (location.hash !== `#${id}`) history.pushState(null, "", `#${id}`);
  return true;
}

let suspect = -1;

const keys = {
  j: () => step(1),
  k: () => step(-1),
  d: () => {
    const found = document.querySelector(".step.decisive");
    if (found) goTo(found.id);
    else lead(document.querySelector("a[data-decisive]"));
  },
  s: () => {
    const all = [...document.querySelectorAll("a[data-suspect]")];
    if (!all.length) return;
    suspect = (suspect + 1) % all.length;
    lead(all[suspect]);
  },
  "/": () => document.querySelector("input[type=search]")?.focus(),
  "?": () => help.showModal(),
  Enter: () => {
    if (!here || document.activeElement !== here) return false;
    const folded = here.querySelector("details");
    if (folded) folded.open = !folded.open;
    else here.querySelector("a")?.click();
  },
};

document.addEventListener("keydown", (pressed) => {
  const typing = pressed.target.closest?.("input:not([type=checkbox]), select, textarea, dialog[open]");
  if (pressed.ctrlKey || pressed.metaKey || pressed.altKey || typing) return;
  const act = Object.hasOwn(keys, pressed.key) ? keys[pressed.key] : null;
  if (act && act() !== false) pressed.preventDefault();
});

function lead(link) {
  const href = link?.getAttribute("href");
  if (href?.startsWith("#")) follow(href);
  else if (href) location.assign(href);
}

// A step of another part of a long run: go to that part.
function follow(hash) {
  const id = decodeURIComponent(hash.slice(1));
  if (!id || goTo(id)) return;
  const number = /step-(\d+)$/.exec(id);
  const list = document.querySelector(".steps");
  if (!number || !list) return;
  const most = Number(list.dataset.most);
  const from = Math.floor(Number(number[1]) / most) * most;
  const now = Number(list.dataset.first);
  if (from !== now) location.assign(`?from=${from}#${id}`);
}

document.addEventListener("click", (clicked) => {
  const link = clicked.target.closest?.('a[href^="#"]');
  if (link && /step-\d+$/.test(link.getAttribute("href"))) {
    clicked.preventDefault();
    follow(link.getAttribute("href"));
    return;
  }
  const button = clicked.target.closest?.("button[data-act]");
  if (button?.dataset.act === "help") help.showModal();
  if (button?.dataset.act === "copy") copy(button);
});

async function copy(button) {
  try {
    const { from, json } = button.dataset;
    const text = from ? await (await fetch(from)).text() : document.getElementById(json).textContent;
    await navigator.clipboard.writeText(text);
    say("Copied as OTLP-JSON");
  } catch {
    say("The browser did not let us copy: open the OTLP-JSON instead");
  }
}

document.querySelectorAll(".lanes g.decisive").forEach(bringAlong);
addEventListener("hashchange", () => follow(location.hash));
if (location.hash) follow(location.hash);
