// Drives the statistics page as a person would, in headless Chromium.
//
//   node scenarios/page/page.mjs http://127.0.0.1:8080/stats [http://127.0.0.1:8080/]
//
// The second address is what gets traffic, so that there is something to see; without it the root of the same site does.
// With SCREENSHOTS=folder pictures are left there. Needs node 20, chromedriver and Chromium, and no package.

import assert from "node:assert/strict";

import { Harness } from "./harness.mjs";
import { Browser } from "./webdriver.mjs";

const [page, traffic = new URL("/", process.argv[2] ?? "http://localhost").href] = process.argv.slice(2);
if (!page) {
  console.error("usage: page.mjs <address of the statistics page> [<address that gets traffic>]");
  process.exit(2);
}

const WEIGHT_MAX = 150_000;
const ESCAPE = "\uE00C";
const browser = await Browser.start({ width: 1400, height: 1000 });
const harness = new Harness(browser);
const check = (name, test) => harness.check(name, test);
const picture = (name) => harness.picture(name);
const size = (width, height) => harness.size(width, height);
const scheme = (value) => harness.scheme(value);
const visible = (selector) => harness.visible(selector);
const open = () => harness.open(page);
const background = () => browser.run("return getComputedStyle(document.body).backgroundColor");
const view = () => browser.run("return document.documentElement.dataset.view");
// As many requests as it takes to be seen, a few at a time.
async function load(count) {
  for (let done = 0; done < count; done += 10) {
    await Promise.all(Array.from({ length: 10 }, () => fetch(traffic).then((answer) => answer.arrayBuffer()).catch(() => {})));
  }
}

try {
  await size(1400, 1000);
  await scheme("light");
  await open();

  await check("cards and tiles are visible", async () => {
    assert.ok(await visible(".card"), "a card");
    assert.ok(await visible(".tile"), "a tile");
    assert.ok(!(await visible("#table")), "the table is behind the live view");
    assert.ok(!(await visible("#connection")), "no complaint");
  });

  await check("curves move with traffic", async () => {
    const path = `document.querySelector(".tile.requests .bar.c2").getAttribute("d")`;
    const before = await browser.run(`return ${path}`);
    await load(200);
    await browser.until("the curve moves", `return ${path} !== arguments[0]`, before);
    await browser.until(
      "requests arrive in the curve",
      "return page.vitals.track.peak(['r']) >= 5",
    );
    await picture("light");
  });

  await check("hovering tells values", async () => {
    await browser.run(`
      const plot = document.querySelector(".tile.requests .plot");
      const box = plot.getBoundingClientRect();
      plot.dispatchEvent(new PointerEvent("pointermove", { clientX: box.right - 3, clientY: box.top + 10, bubbles: true }));`);
    const text = await browser.run("const r = document.querySelector('.readout'); return r.hidden ? '' : r.textContent");
    for (const word of [/\d\d:\d\d:\d\d/, /2xx/, /half within/, /99 % within/, /sessions/, /sent/]) assert.match(text, word);
  });

  await check("dark follows the system, and the button overrides it", async () => {
    const light = await background();
    await scheme("dark");
    const dark = await background();
    assert.notEqual(dark, light);
    await picture("dark");
    await browser.click("#theme");
    assert.equal(await background(), light, "light by choice on a dark system");
    await browser.open(page);
    await browser.until("cards are there again", "return document.querySelectorAll('.card').length > 0");
    assert.equal(await background(), light, "the choice is remembered");
    await browser.press(["d"]);
    assert.equal(await background(), dark);
    await scheme("light");
    assert.equal(await background(), light, "follows the system again");
  });

  await check("keys", async () => {
    await browser.press(["t"]);
    assert.equal(await view(), "table");
    await browser.until("the tables are there", "return document.querySelector('#table table')?.getClientRects().length > 0");
    await browser.press(["t"]);
    assert.equal(await view(), "live");
    await browser.press(["?"]);
    assert.ok(await visible("#keys"), "the list of keys opens");
    await browser.press([ESCAPE]);
    await browser.until("it closes", "return !document.querySelector('#keys')");
    await browser.press(["/"]);
    assert.equal(await browser.run("return document.activeElement.id"), "filter");
    await browser.press([..."no such name anywhere"]);
    await browser.until("nothing matches", "return !document.querySelector('.card') && /Nothing matches/.test(document.querySelector('.empty').textContent)");
    assert.ok(await visible(".board .empty"), "and that is said");
    await browser.press([ESCAPE]);
    await browser.until("all are back", "return document.querySelectorAll('.card').length > 1 && document.querySelector('.empty').hidden");
    await browser.press(["p"]);
    assert.equal(await browser.run("return document.getElementById('pause').getAttribute('aria-pressed')"), "true");
    await browser.press(["p"]);
    await browser.press(["j"]);
    assert.ok(await browser.run("return document.activeElement.matches('.card .fold')"), "j goes to a card");
  });

  await check("the classic table is one click away", async () => {
    await browser.click("#view-table");
    await browser.until("the tables are there", "return document.querySelector('#table table')?.getClientRects().length > 0");
    const heads = await browser.run("return [...document.querySelectorAll('#table abbr')].map((a) => a.title.split(':')[0])");
    for (const column of ["qcur", "rate_max", "stot", "bin", "dreq", "wretr", "status", "check_status", "downtime"]) {
      assert.ok(heads.includes(column), column);
    }
    await picture("table");
    await browser.click("#view-live");
    assert.ok(!(await visible("#table table")));
  });

  await check("a cache tells how often it answers, and why not", async () => {
    if (!(await browser.run("return page.model.all.some(({ state }) => state.cache)"))) return "there is no cache";
    const slow = new URL("/slow", traffic).href;
    for (let count = 0; count < 10; count++) await (await fetch(slow)).arrayBuffer();
    for (let count = 0; count < 8; count++) await (await fetch(slow, { method: "POST" })).arrayBuffer();
    const card = "[...document.querySelectorAll('.card')].find((card) => card.querySelector('.uncached'))";
    const unfold = "[...document.querySelectorAll('.card')].find((card) => /slow/.test(card.querySelector('.fold').textContent)).querySelector('.fold')";
    if (!(await browser.run(`return !!(${card})`))) await browser.run(`${unfold}.click()`);
    await browser.until("the ratio is there", `return /\\d+ % of/.test((${card})?.textContent ?? "")`);
    await browser.until("a reason is there", `return /method/.test((${card}).querySelector(".uncached tbody").textContent)`);
    await browser.run(`(${card}).scrollIntoView()`);
    await picture("cache");
    const more = `(${card}).querySelector(".uncached .more")`;
    await browser.run(`${more}.focus()`);
    await browser.press([" "]);
    await browser.until("all rows are shown by the keyboard", `return (${card}).querySelectorAll(".uncached tbody tr").length >= 8`);
    await scheme("dark");
    await picture("cache-dark");
    await scheme("light");
  });

  await check("actions", async () => {
    if ((await browser.run("return document.body.dataset.admin")) !== "1") {
      assert.ok(!(await visible(".manage")), "no button for what is not allowed");
      return "nobody is admin here";
    }
    if (!(await visible(".manage"))) return "there is no server";
    const state = `return document.querySelector(".manage").closest("tr").querySelector(".state .words").textContent`;
    const closeActions = async () => {
      await browser.run("document.querySelector('#actions')?.close()");
      await browser.until("the dialog is gone", "return !document.querySelector('#actions')");
    };
    const act = async (name, expected) => {
      await closeActions();
      await browser.run("document.querySelector('.manage').scrollIntoView({ block: 'center' })");
      await browser.click(".manage");
      assert.ok(await visible("#actions"));
      if (name === "maint") await picture("actions");
      await browser.click(`#actions button[value="${name}"]`);
      await browser.until(`the server is ${expected}`, state.replace("return ", "return (") + `).startsWith("${expected}")`);
    };
    if ((await browser.run(state)).startsWith("MAINT")) await act("ready", "");
    await browser.until("the server is out of maintenance", state.replace("return ", "return !(") + `).startsWith("MAINT")`);
    const before = await browser.run(state);
    await act("maint", "MAINT");
    await browser.until("it is among the changes", "return /maintenance/.test(document.querySelector('.changes').textContent)");
    await picture("maintenance");
    await browser.until("the dialog shows the state", "return /MAINT/.test(document.querySelector('#actions .present').textContent)");
    await browser.until("and what would change nothing", "return document.querySelector('#actions [value=maint]').ariaCurrent === 'true'");
    await closeActions();
    // Whatever the checks will find, it comes back up as it was or on its way there.
    await act("ready", before.startsWith("no check") ? "no check" : "UP");
    await closeActions();
  });

  await check("nothing is wider than a small screen", async () => {
    for (const width of [360, 768]) {
      await size(width, 800);
      await browser.until("the layout has settled", "return document.querySelectorAll('.card').length > 0");
      const wide = await browser.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth");
      assert.ok(wide <= 0, `${wide} pixels too wide at ${width}`);
      if (width === 360) await picture("narrow");
    }
    // What a wide line tells of a backend in use, a narrow one tells too.
    await size(390, 800);
    await load(20);
    for (const name of ["rate", "times"]) {
      await browser.until(`${name} is shown`, `return [...document.querySelectorAll(".backends .line .${name}")].some((e) => e.getClientRects().length && !e.classList.contains("none"))`);
    }
    await size(1400, 1000);
  });

  await check("everything has a name", async () => {
    const nameless = await browser.run(`
      const name = (e) => e.getAttribute("aria-label") || e.textContent.trim() || e.labels?.[0]?.textContent || e.title;
      return [...document.querySelectorAll("button, input, select, a, [role=img]")].filter((e) => e.type !== "hidden" && !name(e)).map((e) => e.outerHTML.slice(0, 120))`);
    assert.deepEqual(nameless, []);
  });

  await check("without scripts there is the table", async () => {
    await browser.devtools("Emulation.setScriptExecutionDisabled", { value: true });
    await browser.open(page);
    await browser.devtools("Emulation.setScriptExecutionDisabled", { value: false });
    assert.ok(await visible("#table table"));
    assert.ok(!(await visible("#live")) && !(await visible(".tools")));
    await picture("without-scripts");
    await open();
  });

  await check("the console is silent", async () => {
    const lines = (await browser.console()).filter((line) => line.level === "SEVERE" || line.level === "WARNING");
    assert.deepEqual(lines.map((line) => line.message), []);
  });

  await check("the page is light and loads nothing from elsewhere", async () => {
    const loaded = await browser.run("return performance.getEntriesByType('resource').map((entry) => entry.name)");
    const own = new URL(page).origin;
    assert.deepEqual(loaded.filter((address) => !address.startsWith(own)), []);
    let weight = 0;
    for (const address of new Set([page, ...loaded.filter((name) => name.includes(";asset="))])) {
      weight += (await (await fetch(address)).arrayBuffer()).byteLength;
    }
    assert.ok(weight < WEIGHT_MAX, `${weight} bytes`);
    console.log(`      ${weight} bytes`);
  });
} finally {
  await browser.close();
}
process.exit(harness.failed ? 1 : 0);
