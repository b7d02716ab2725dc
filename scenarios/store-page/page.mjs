// Drives the store's page as a person would, in headless Chromium.
//
//   node scenarios/store-page/page.mjs http://127.0.0.1:8379/
//
// Whoever runs it sees to traffic. With SCREENSHOTS=folder pictures are left there. Needs node 20, chromedriver and Chromium.

import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { Browser } from "../page/webdriver.mjs";

const [page] = process.argv.slice(2);
if (!page) {
  console.error("usage: page.mjs <address of the store's page>");
  process.exit(2);
}

const ESCAPE = "\uE00C";
const browser = await Browser.start({ width: 1360, height: 1000 });
let failures = 0;

async function check(name, test) {
  try {
    await test();
    console.log(`ok   ${name}`);
  } catch (error) {
    failures++;
    console.log(`FAIL ${name}: ${error.message}`);
  }
}

const size = (width, height) =>
  browser.devtools("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile: false });
const scheme = (value) =>
  browser.devtools("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value }] });
const background = () => browser.run("return getComputedStyle(document.body).backgroundColor");
const pressed = () => browser.run("return document.querySelector('#windows [aria-pressed=true]').value");

async function open() {
  await browser.open(page);
  await browser.until("figures are there", "return document.querySelector('.tile b').textContent !== '–' && timeline.end > 0");
}

async function picture(name) {
  if (!process.env.SCREENSHOTS) return;
  await mkdir(process.env.SCREENSHOTS, { recursive: true });
  const { data } = await browser.devtools("Page.captureScreenshot", { format: "png", captureBeyondViewport: true });
  await writeFile(join(process.env.SCREENSHOTS, `${name}.png`), Buffer.from(data, "base64"));
}

try {
  await size(1360, 1000);
  await scheme("light");
  await open();

  await check("tiles, panels and curves have figures", async () => {
    await browser.until("commands are drawn", "return document.querySelector('.commands-tile .bar.commands').getAttribute('d')");
    const tiles = await browser.run("return [...document.querySelectorAll('.tile b')].map((one) => one.textContent)");
    assert.equal(tiles.length, 6);
    assert.ok(tiles.every((text) => /\d/.test(text)), tiles.join());
    const heads = await browser.run("return [...document.querySelectorAll('.panel h2')].map((one) => one.textContent)");
    assert.deepEqual(heads, ["Memory and disk", "Commands", "Clients", "Log and checkpoint", "Slow commands", "Keys"]);
    const text = await browser.run("return document.querySelector('#live').textContent");
    for (const wrong of ["undefined", "NaN", "[object", "null"]) assert.ok(!text.includes(wrong), wrong);
  });

  await check("a second tells its values", async () => {
    await browser.run(`
      const plot = document.querySelector(".commands-tile .plot");
      const box = plot.getBoundingClientRect();
      plot.dispatchEvent(new PointerEvent("pointermove", { clientX: box.right - 3, clientY: box.top + 10, bubbles: true }));`);
    const text = await browser.run("const r = document.querySelector('.readout'); return r.hidden ? '' : r.textContent");
    for (const word of [/\d\d:\d\d:\d\d/, /Commands/, /Memory/, /To clients/]) assert.match(text, word);
    await browser.run("readout.hide()");
  });

  await check("everything works by keyboard", async () => {
    const light = await background();
    await browser.press("d");
    assert.notEqual(await background(), light);
    await browser.press("d");
    assert.equal(await background(), light);
    for (const expected of ["600", "3600", "60"]) {
      await browser.press("w");
      assert.equal(await pressed(), expected);
      await browser.until("the window is drawn", "return timeline.window === Number(arguments[0])", expected);
    }
    await browser.press("?");
    assert.ok(await browser.run("return document.querySelector('dialog[open]') !== null"));
    await browser.press(ESCAPE);
    await browser.until("the list is closed", "return document.querySelector('dialog[open]') === null");
    await browser.press("p");
    const end = await browser.run("return timeline.end");
    assert.equal(await browser.run("return document.querySelector('#pause').textContent"), "Go on");
    await browser.press("p");
    await browser.until("it goes on", "return timeline.end > arguments[0]", end);
  });

  for (const [width, height] of [[390, 844], [1360, 1000], [1920, 1080]]) {
    for (const colours of ["light", "dark"]) {
      await check(`nothing is cut off at ${width} px, ${colours}`, async () => {
        await size(width, height);
        await scheme(colours);
        await open();
        const wide = await browser.run("return document.documentElement.scrollWidth - window.innerWidth");
        assert.ok(wide <= 0, `${wide} px too wide`);
        await picture(`${width}-${colours}`);
      });
    }
  }

  await check("the browser has nothing to complain of", async () => {
    const lines = (await browser.console()).filter(({ level }) => level === "SEVERE");
    assert.deepEqual(lines.map(({ message }) => message), []);
  });
} finally {
  await browser.close();
}
process.exit(failures ? 1 : 0);
