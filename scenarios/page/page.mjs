// Drives the statistics page as a person would, in headless Chromium.
//
//   node scenarios/page/page.mjs http://127.0.0.1:8080/stats [http://127.0.0.1:8080/]
//
// The second address is what gets traffic, so that there is something to see; without it the root of the same site does.
// With SCREENSHOTS=folder pictures are left there. Needs node 20, chromedriver and Chromium, and no package.

import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { Browser } from "./webdriver.mjs";

const [page, traffic = new URL("/", process.argv[2] ?? "http://localhost").href] = process.argv.slice(2);
if (!page) {
  console.error("usage: page.mjs <address of the statistics page> [<address that gets traffic>]");
  process.exit(2);
}

const WEIGHT_MAX = 150_000;
const ESCAPE = "\uE00C";
const folder = process.env.SCREENSHOTS;
if (folder) mkdirSync(folder, { recursive: true });

const browser = await Browser.start({ width: 1400, height: 1000 });
let failed = 0;

async function check(name, test) {
  try {
    const skipped = await test();
    console.log(`${skipped ? "skip" : "ok  "}  ${name}${skipped ? `: ${skipped}` : ""}`);
  } catch (error) {
    failed++;
    console.log(`FAIL  ${name}\n      ${String(error.message).split("\n").join("\n      ")}`);
    if (folder) writeFileSync(join(folder, `failed-${failed}.png`), await browser.screenshot());
  }
}

async function picture(name) {
  if (folder) writeFileSync(join(folder, `${name}.png`), await browser.screenshot());
}

const size = (width, height) =>
  browser.devtools("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile: false });
const scheme = (value) =>
  browser.devtools("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value }] });
const background = () => browser.run("return getComputedStyle(document.body).backgroundColor");
const view = () => browser.run("return document.documentElement.dataset.view");
const visible = (selector) =>
  browser.run("const e = document.querySelector(arguments[0]); return !!e && e.getClientRects().length > 0", selector);

async function open() {
  await browser.open(page);
  await browser.until("cards are there", "return document.querySelectorAll('.card').length > 0");
}

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
    const path = `document.querySelector(".tile.requests .stroke").getAttribute("d")`;
    const before = await browser.run(`return ${path}`);
    await load(200);
    await browser.until("the curve moves", `return ${path} !== arguments[0]`, before);
    await browser.until(
      "requests arrive in the curve",
      "return tiles.requests.chart.points.requests.slice(-10).some((value) => value >= 5)",
    );
    await picture("light");
  });

  await check("hovering tells values", async () => {
    await browser.run(`
      const box = document.querySelector(".tile.requests .spark").getBoundingClientRect();
      const at = { clientX: box.right - 3, clientY: box.top + 10, bubbles: true };
      document.querySelector(".tile.requests .spark").dispatchEvent(new PointerEvent("pointermove", at));`);
    const text = await browser.run("const r = document.querySelector('.readout'); return r.hidden ? '' : r.textContent");
    assert.match(text, /request/);
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
    assert.ok(await visible("#table table"));
    await browser.press(["t"]);
    assert.equal(await view(), "live");
    await browser.press(["?"]);
    assert.ok(await browser.run("return document.querySelector('#keys').open"), "the list of keys opens");
    await browser.press([ESCAPE]);
    assert.ok(!(await browser.run("return document.querySelector('#keys').open")), "and closes");
    await browser.press(["/"]);
    assert.equal(await browser.run("return document.activeElement.id"), "filter");
    await browser.press([..."no such name anywhere"]);
    await browser.until("nothing matches", "return [...document.querySelectorAll('.card')].every((card) => card.hidden)");
    await browser.press([ESCAPE]);
    await browser.until("all are back", "return [...document.querySelectorAll('.card')].every((card) => !card.hidden)");
    await browser.press(["p"]);
    assert.equal(await browser.run("return document.getElementById('pause').getAttribute('aria-pressed')"), "true");
    await browser.press(["p"]);
    await browser.press(["j"]);
    assert.ok(await browser.run("return document.activeElement.classList.contains('card')"), "j goes to a card");
  });

  await check("the classic table is one click away", async () => {
    await browser.click("#view-table");
    assert.ok(await visible("#table table"));
    const heads = await browser.run("return [...document.querySelectorAll('#table abbr')].map((a) => a.title.split(':')[0])");
    for (const column of ["qcur", "rate_max", "stot", "bin", "dreq", "wretr", "status", "check_status", "downtime"]) {
      assert.ok(heads.includes(column), column);
    }
    await picture("table");
    await browser.click("#view-live");
    assert.ok(!(await visible("#table table")));
  });

  await check("actions", async () => {
    if ((await browser.run("return document.body.dataset.admin")) !== "1") {
      assert.ok(!(await visible(".manage")), "no button for what is not allowed");
      return "nobody is admin here";
    }
    if (!(await visible(".manage"))) return "there is no server";
    const state = `return document.querySelector(".manage").closest("tr").querySelector(".state .words").textContent`;
    const act = async (name, expected) => {
      await browser.run("document.querySelector('#actions')?.close(); document.querySelector('.manage').scrollIntoView({ block: 'center' })");
      await browser.click(".manage");
      assert.ok(await browser.run("return document.querySelector('#actions').open"));
      if (name === "maint") await picture("actions");
      await browser.click(`#actions button[value="${name}"]`);
      await browser.until(`the server is ${expected}`, state.replace("return ", "return (") + `).startsWith("${expected}")`);
    };
    if ((await browser.run(state)).startsWith("MAINT")) await act("ready", "");
    await browser.until("the server is out of maintenance", state.replace("return ", "return !(") + `).startsWith("MAINT")`);
    const before = await browser.run(state);
    await act("maint", "MAINT");
    assert.match(await browser.run("return document.querySelector('.changes').textContent"), /MAINT/);
    await picture("maintenance");
    await browser.run("document.querySelector('#actions').close()");
    // Whatever the checks will find, it comes back up as it was or on its way there.
    await act("ready", before.startsWith("no check") ? "no check" : "UP");
    await browser.run("document.querySelector('#actions').close()");
  });

  await check("nothing is wider than a small screen", async () => {
    for (const width of [360, 768]) {
      await size(width, 800);
      await browser.until("the layout has settled", "return document.querySelectorAll('.card').length > 0");
      const wide = await browser.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth");
      assert.ok(wide <= 0, `${wide} pixels too wide at ${width}`);
      if (width === 360) await picture("narrow");
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
process.exit(failed ? 1 : 0);
