// The page's keys and its look. Bokeh does everything else.
const root = document.documentElement, saved = localStorage.getItem("hilrt-theme");
if (saved) root.dataset.theme = saved;
const preferred = matchMedia("(prefers-color-scheme: dark)");
const look = () => root.dataset.theme || (preferred.matches ? "dark" : "light");
const find = (name) => window.Bokeh?.documents[0]?.get_model_by_name(name);
const view = (name) => { const model = find(name); return model && Bokeh.index.find_one(model); };

const slim = matchMedia("(max-width: 600px)");
function tellLook() {  // canvas is drawn in colours that the server gives
  const figures = find("figures");
  if (figures) figures.tags = [look(), slim.matches ? "narrow" : "wide"]; else setTimeout(tellLook, 50);
}
for (const query of [preferred, slim]) query.addEventListener("change", tellLook);
tellLook();

const keys = {
  " ": () => { find("pause").active = !find("pause").active; },
  "/": () => view("signals").shadow_el.querySelector("input").focus(),
  "t": () => {
    root.dataset.theme = look() === "dark" ? "light" : "dark";
    localStorage.setItem("hilrt-theme", root.dataset.theme);
    tellLook();
  },
};
// From everywhere, also while something is typed. Where it is not allowed, the button is disabled.
const press = (name) => view(name)?.shadow_el.querySelector("button")?.click();
const commands = { F8: () => press("safe"), F9: () => press("stop") };

function leaveTable(table, event) {  // SlickGrid would go from cell to cell, through all rows
  const ends = table.shadow_el.querySelectorAll('div[tabindex="0"]');
  ends[event.shiftKey ? 0 : ends.length - 1]?.focus();  // the browser goes on from there
  event.stopPropagation();
}

function fitTable() {  // it was made before it had a width: all columns had shrunk to the smallest
  const table = view("table");
  if (!table?.el.clientWidth) { setTimeout(fitTable, 100); return; }
  const given = new Map(table.model.columns.map((column) => [column.field, column.width]));
  for (const column of table.grid.getColumns())
    column.width = given.get(column.field) ?? column.width;
  table.grid.autosizeColumns();
}
addEventListener("resize", fitTable);
fitTable();

const narrow = matchMedia("(max-width: 900px)");  // what is looked at comes first there
const fold = () => { document.getElementById("control").open = !narrow.matches; };
narrow.addEventListener("change", fold);
fold();

function enterTable(grid) {  // arrows and space need a cell to begin with
  if (!grid.getActiveCell() && grid.getDataLength()) grid.setActiveCell(0, 0);
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const path = event.composedPath(), table = view("table");
  const inTable = table != null && path.includes(table.el);
  if (inTable && event.key === "Tab") leaveTable(table, event);
  else if (inTable) enterTable(table.grid);
  const typing = inTable || path.some((e) => /^(INPUT|TEXTAREA|SELECT|BUTTON)$/.test(e.tagName));
  const act = commands[event.key] ?? (typing ? undefined : keys[event.key]);
  if (!act) return;
  event.preventDefault();
  if (!event.repeat) act();
}, true);
