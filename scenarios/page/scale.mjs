// The statistics page with 1, 15 and 200 backends, in headless Chromium.
//
//   node scenarios/page/scale.mjs target/debug/tidegate 28490
//
// Takes four ports for each edge, one edge after the other. With SCREENSHOTS=folder pictures are left there.

import assert from "node:assert/strict";

import { Edge } from "./edge.mjs";
import { Harness } from "./harness.mjs";
import { Browser } from "./webdriver.mjs";

const [program, port] = [process.argv[2], Number(process.argv[3])];
if (!program || !port) {
  console.error("usage: scale.mjs <program> <first of twelve free ports>");
  process.exit(2);
}

const [ESCAPE, ENTER, TAB] = ["\uE00C", "\uE007", "\uE004"];
const browser = await Browser.start({});
const page = new Harness(browser);
const test = (name, body) => page.check(name, body);
const text = (selector) => browser.run("return document.querySelector(arguments[0])?.textContent ?? ''", selector);
const names = () => browser.run("return [...document.querySelectorAll('.backends .fold')].map((e) => e.textContent)");
const until = (what, script, ...args) => browser.until(what, script, ...args);

// Pixels that the page may be high, by its width.
const HEIGHTS = { 1: { 390: 3000, 1360: 1500, 1920: 1400 }, 15: { 390: 3200, 1360: 1700, 1920: 1600 }, 200: { 390: 5500, 1360: 3300, 1920: 3200 } };

async function everySize(backends, edge) {
  await test(`${backends} backends fit at every size, light and dark`, async () => {
    for (const scheme of ["light", "dark"]) {
      await page.scheme(scheme);
      for (const [width, most] of Object.entries(HEIGHTS[backends])) {
        await page.size(Number(width), 900);
        await page.open(edge.page);
        await until("charts are drawn", "return document.querySelector('.tile.requests .top-value').textContent");
        const { wide, high } = await browser.run("const e = document.documentElement; return { wide: e.scrollWidth - e.clientWidth, high: e.scrollHeight }");
        assert.ok(wide <= 0, `${wide} pixels too wide at ${width}`);
        assert.ok(high <= most, `${high} pixels high at ${width}`);
        const cut = await browser.run(`return [...document.querySelectorAll(".tile b, .line .rate, .line .failing, .times b")].filter((e) => e.scrollWidth > e.clientWidth + 1 && e.clientWidth).map((e) => e.textContent)`);
        assert.deepEqual(cut, [], `numbers that are cut at ${width}`);
        await page.picture(`${backends}-${width}-${scheme}`);
      }
    }
    await page.scheme("light");
    await page.size(1360, 900);
    await page.open(edge.page);
  });
}

async function small(edge) {
  await everySize(1, edge);
  await test("a page that is looked at makes no traffic", async () => {
    await until("the page has asked several times", "return page.vitals.track.length >= 1 && poller.second > 3");
    const seen = await browser.run("return page.last.now");
    await until("it asked again and again", "return page.last.now >= arguments[0] + 4", seen);
    assert.equal(await browser.run("return page.vitals.track.peak(['r', ...ANSWER_COLUMNS])"), 0);
    assert.equal(await browser.run("return page.vitals.track.sum('bytes')"), 0);
  });
  await test("a single request is drawn", async () => {
    await edge.send("/b1/", 1);
    const marks = `document.querySelector(".tile.requests .bar.c2").getAttribute("d")`;
    await until("a bar", `return (${marks} || "").split("M").length === 2`);
    await until("its time, as a dash", `return /^M[\\d.,]+h0.6$/.test(document.querySelector(".backends .line.p50").getAttribute("d"))`);
    const times = await browser.run("return [...document.querySelectorAll('.figures .axis')][0].children.length");
    assert.equal(times, 3);
    assert.equal(await text(".figures .top-value"), "5");
  });
  await test("what HTTP does is told", async () => {
    await edge.send("/b1/missing", 40);
    await edge.send("/b1/", 39);
    await until("half of it was 404", "return /^50 %/.test(document.querySelector('.tile.errors .c4').textContent)");
    assert.equal(await browser.run("return document.querySelector('.tile.errors').dataset.kind"), "wary");
    await edge.send("/b1/broken", 10);
    await until("5xx are worse", "return document.querySelector('.tile.errors').dataset.kind === 'bad'");
    assert.match(await browser.run("return document.querySelector('.backends .mix').ariaLabel"), /4xx.*5xx/);
    await until("from where to where", "return /web to b1/.test(document.querySelector('.flow-plot').getAttribute('aria-label'))");
  });
  await test("arrow keys read single steps, with all values", async () => {
    await browser.run("document.querySelector('.backends .figures .plot').focus()");
    await browser.press(["\uE012"]);
    const said = await text(".readout");
    for (const word of ["2xx", "half within", "99 % within", "sessions"]) assert.ok(said.includes(word), said);
    await browser.run("document.activeElement.blur()");
    assert.ok(!(await page.visible(".readout")));
  });
  await test("the edge remembers what was before the page", async () => {
    await page.open(edge.page);
    await until("the past of the charts", "return page.vitals.track.sum('c4') >= 40");
    await browser.press(["w"]);
    await until("ten minutes", "return timeline.window === 600 && timeline.step === 5 && page.vitals.track.sum('c4') >= 40");
    await page.picture("ten-minutes");
    await browser.press(["w", "w"]);
    await until("a minute again", "return timeline.window === 60");
    assert.match(await text(".changes"), /Process \d+ started/);
  });
  await test("the CSV counts what the page asks for, as HAProxy's does", async () => {
    const [head, front] = (await (await fetch(`${edge.page};csv`)).text()).split("\n").map((line) => line.split(","));
    assert.ok(Number(front[head.indexOf("req_tot")]) > 4);
  });
}

async function middle(edge) {
  await everySize(15, edge);
  await test("trouble comes first and is summed up", async () => {
    await until("the sum", "return document.querySelector('.tile.health b').textContent === '10 down'");
    assert.match(await text(".tile.health"), /of 120 servers.*See b10 and b12/);
    assert.deepEqual((await names()).slice(0, 3), ["b10", "b12", "b1"]);
    assert.match(await text(".card .about"), /none of 8 up/);
    assert.match(await text(".changes"), /b12\/s1 is DOWN/);
    assert.match(await text(".servers"), /127\.0\.0\.1:/, "addresses are shown");
    assert.match(await browser.run("return document.title"), /^\(10 down\)/);
  });
  await test("only problems, by keyboard, and nothing found is said", async () => {
    await browser.press(["x"]);
    await until("two are left", "return document.querySelectorAll('.card').length === 2");
    await browser.press([ESCAPE]);
    await until("all are back", "return document.querySelectorAll('.card').length === 17");
    await browser.press(["/", ..."down"]);
    await until("by state", "return document.querySelectorAll('.card').length === 2");
    await browser.press([ESCAPE, "/", ..."b7"]);
    await until("by name", "return document.querySelectorAll('.card').length === 1");
    await browser.press([..."77"]);
    await until("nothing", "return /Nothing matches “b777”/.test(document.querySelector('.board .empty').textContent)");
    await browser.press([TAB]);
    await browser.press([ESCAPE]);
    await until("all are back again", "return document.querySelectorAll('.card').length === 17");
  });
  await test("a line unfolds and folds by keyboard", async () => {
    await browser.press(["j", "j", "j"]);
    assert.equal(await browser.run("return document.activeElement.textContent"), "b1");
    await browser.press([ENTER]);
    await until("charts and all servers", "return document.activeElement.closest('.card').querySelectorAll('.servers tbody tr').length === 8 && document.activeElement.closest('.card').querySelectorAll('.figures .plot').length === 3");
    await page.picture("unfolded");
    await browser.press([ENTER]);
    await until("folded", "return !document.activeElement.closest('.card').querySelector('.servers')?.getClientRects().length");
  });
  await test("ending sessions asks first", async () => {
    await browser.run("window.posts = 0; const before = window.fetch; window.fetch = (u, o) => { if (o?.method === 'POST') window.posts++; return before(u, o); }");
    await browser.run("document.querySelector('.manage').click()");
    await browser.run("document.querySelector('#actions [value=shutdown]').click()");
    await until("a question", "return /End all sessions/.test(document.querySelector('#confirm')?.textContent)");
    assert.equal(await browser.run("return document.activeElement.value"), "no", "the harmless answer has the focus");
    assert.equal(await browser.run("return window.posts"), 0);
    await page.picture("question");
    await browser.run("document.querySelector('#confirm [value=yes]').click()");
    await until("it is done", "return window.posts === 1 && /done/.test(document.querySelector('#actions .said').textContent)");
    await browser.press([ESCAPE]);
    await until("it is among the changes", "return /all sessions ended/.test(document.querySelector('.changes').textContent)");
  });
  await test("columns of the tables stand below each other, under names that stay", async () => {
    await browser.press(["t"]);
    await until("the tables", "return document.querySelectorAll('.classic').length === 17");
    const places = () => browser.run(`return [...document.querySelectorAll(".classic thead")].map((head) => [...head.querySelectorAll("th")].map((th) => Math.round(th.getBoundingClientRect().left)).join()).filter((line, index, all) => all.indexOf(line) === index).length`);
    assert.equal(await places(), 1, "every head has its columns at the same places");
    const left = "Math.round(document.querySelector('.classic tr.server th').getBoundingClientRect().left)";
    await browser.run("document.querySelector('.sheet').scrollLeft = 500");
    await until("it scrolls", "return document.querySelector('.sheet').scrollLeft === 500");
    assert.ok((await browser.run(`return ${left}`)) <= 40, "the name stays at the left");
    assert.equal(await browser.run("const e = document.documentElement; return e.scrollWidth - e.clientWidth"), 0);
    await page.picture("table-scrolled");
  });
  await test("the tables are filtered by state, too", async () => {
    const shown = "[...document.querySelectorAll('.classic tr.server')].filter((row) => row.getClientRects().length)";
    await browser.press(["/", ..."down"]);
    await until("what is down", `return ${shown}.length === 10 && ${shown}.every((row) => row.classList.contains("bad"))`);
    await browser.press([ESCAPE, "x"]);
    await until("what has problems", `return ${shown}.length === 10`);
    await browser.press([ESCAPE, "/", ..."nonsense"]);
    await until("nothing", "return /Nothing matches “nonsense”/.test(document.querySelector('#table .empty').textContent)");
    await browser.press([ESCAPE]);
    await browser.run("const section = document.querySelector('.classic:has(form)'); section.querySelector('input[name=s]').click(); section.querySelector('select').value = 'shutdown'; section.querySelector('[type=submit]').click()");
    await until("it asks here as well", "return /End all sessions/.test(document.querySelector('#confirm')?.textContent)");
    await browser.press([ESCAPE]);
    await browser.press(["t"]);
  });
}

async function large(edge) {
  await everySize(200, edge);
  await test("with 200 backends little is sent and drawn", async () => {
    await edge.send("/b1/", 20);
    await until("the page knows the names", "return page.model.shape");
    const shape = await browser.run("return page.model.shape");
    const now = await browser.run("return page.last.now");
    const poll = await (await fetch(`${edge.page};json;live;since=${now};shape=${shape};changes=999`)).arrayBuffer();
    const nodes = await browser.run("return document.querySelectorAll('*').length");
    console.log(`      ${poll.byteLength} bytes a second, ${nodes} elements`);
    assert.ok(poll.byteLength < 30_000, `${poll.byteLength} bytes`);
    assert.ok(nodes < 3_000, `${nodes} elements`);
  });
  await test("and all of it is found", async () => {
    assert.deepEqual((await names()).slice(0, 3), ["b10", "b12", "b27"]);
    await browser.press(["/", ..."b199"]);
    await until("by name", "return [...document.querySelectorAll('.backends .fold')].map((e) => e.textContent).join() === 'b199'");
    await browser.press([ESCAPE]);
    await browser.click(".backends .more");
    await until("all lines", "return document.querySelectorAll('.backends .card').length === 200");
  });
  await test("the page does not bring the tables, and they come bit by bit", async () => {
    const weight = (await (await fetch(edge.page)).arrayBuffer()).byteLength;
    assert.ok(weight < 10_000, `${weight} bytes`);
    await browser.press(["t"]);
    await until("all tables", "return document.querySelectorAll('.classic').length === 202");
    await until("then those in sight", "return /;rows;open=/.test(performance.getEntriesByType('resource').at(-1).name)");
    assert.equal(await browser.run("return document.querySelectorAll('.classic').length"), 202);
    const bytes = await browser.run("return performance.getEntriesByType('resource').at(-1).transferSize");
    console.log(`      ${bytes} bytes of tables in sight`);
    await browser.press(["/", ..."b199"]);
    await until("all are searched", "return [...document.querySelectorAll('.classic')].filter((e) => !e.hidden).map((e) => e.dataset.proxy).join() === 'b199'");
    await browser.press([ESCAPE, "t"]);
  });
  await test("without scripts one is sent on to the tables", async () => {
    await browser.devtools("Emulation.setScriptExecutionDisabled", { value: true });
    await browser.open(edge.page);
    await browser.untilAt(";tables");
    await browser.devtools("Emulation.setScriptExecutionDisabled", { value: false });
    await until("the tables", "return document.querySelector('#table table')?.getClientRects().length > 0");
    await page.open(edge.page);
  });
}

try {
  await page.size(1360, 900);
  for (const [backends, run, offset] of [[1, small, 0], [15, middle, 4], [200, large, 8]]) {
    const edge = await Edge.start(program, port + offset, backends);
    try {
      await run(edge);
    } finally {
      await browser.open("about:blank");
      await edge.stop();
    }
  }
  await test("the console is silent", async () => {
    const lines = (await browser.console()).filter(({ level }) => level === "SEVERE" || level === "WARNING");
    assert.deepEqual(lines.map(({ message }) => message), []);
  });
} finally {
  await browser.close();
}
process.exit(page.failed ? 1 : 0);
