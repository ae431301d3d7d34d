// What the page says when its session has ended or its server answers no more, and how it goes on:
// the end and the report are fetched while they can be had, and the next session's page is loaded
// as soon as there is one at the same address.
const banner = document.getElementById("lost"), me = Math.random().toString(36).slice(2);
const LOST = "✕ NO CONNECTION to the page's server: what is shown is old";
const OTHER = "another session runs here now: open the address that it prints";
const ASK_MS = 500;
const known = new URLSearchParams(location.search).get("token") ?? "";
const asking = `?page=${me}&token=${encodeURIComponent(known)}`;
const NONCE = document.currentScript.nonce;
let gone = false, kept = false;

const endShown = () => find("lamp")?.tags?.[0] ?? "";
function tell(text, href) {
  banner.textContent = text;
  if (!href) return;
  const link = document.createElement("a");
  Object.assign(link, {href, target: "_blank", textContent: "report"});
  banner.append(" · ", link);
}
function showEnd() {  // while the server still answers
  const text = endShown();
  if (gone) return;
  document.body.classList.toggle("ended", text !== "");
  tell(text || LOST);
}
// What a page opens from its memory keeps the page's policy: the report's scripts need its nonce.
async function withNonce(answer) {
  const report = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const script of report.scripts) script.setAttribute("nonce", NONCE);
  const html = `<!doctype html>${report.documentElement.outerHTML}`;
  return new Blob([html], {type: "text/html;charset=utf-8"});
}
async function askForEnd() {
  const answer = await fetch(`/ended.json${asking}`, {cache: "no-store"}).catch(() => null);
  if (answer?.status === 404) location.reload();  // the next session's page
  if (answer?.status === 403 && !kept) tell(OTHER);
  if (!answer?.ok || kept) return;
  const {text, report, over} = await answer.json();
  document.body.classList.replace("lost", "ended");
  tell(over ? text : `${text} · the report is being written`);
  kept = over && !report;
  if (!report) return;
  const page = await fetch(`/report.html${asking}`, {cache: "no-store"}).catch(() => null);
  if (!page?.ok) return;
  kept = true;
  tell(text, URL.createObjectURL(await withNonce(page)));
}
async function ask() {
  await askForEnd().catch(() => {});
  setTimeout(ask, ASK_MS);
}
function connectionLost() {
  if (gone) return;
  gone = true;
  const text = endShown();
  document.body.classList.remove("ended");
  document.body.classList.add(text ? "ended" : "lost");
  tell(text || LOST);
  ask();
}
function followEnd() {
  const lamp = find("lamp");
  if (!lamp) { setTimeout(followEnd, 50); return; }
  lamp.properties.tags.change.connect(showEnd);
  showEnd();
}
followEnd();
