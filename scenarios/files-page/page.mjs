// Uses the listing of a folder as a person would, in headless Chromium.
//
//   node scenarios/files-page/page.mjs http://127.0.0.1:8080
//
// Serves what scenarios/files-page/run makes. With SCREENSHOTS=folder pictures are left there.

import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";

import { Browser } from "../page/webdriver.mjs";
import { Harness } from "../page/harness.mjs";

const [site] = process.argv.slice(2);
if (!site) {
  console.error("usage: page.mjs <address of the site>");
  process.exit(2);
}

const [DOWN, UP, ENTER, ESCAPE, BACKSPACE] = ["\uE015", "\uE013", "\uE007", "\uE00C", "\uE003"];
const FILES = 18;

async function picture(browser, name) {
  if (!process.env.SCREENSHOTS) return;
  const { data } = await browser.devtools("Page.captureScreenshot", { format: "png", captureBeyondViewport: true });
  await writeFile(join(process.env.SCREENSHOTS, `files-${name}.png`), Buffer.from(data, "base64"));
}

const shown = (browser) =>
  browser.run("return [...document.querySelectorAll('tbody tr:not([hidden]):not(.up) a')].map((link) => link.textContent)");
const active = (browser) => browser.run("return document.activeElement.textContent || document.activeElement.id");

async function withScripts() {
  const browser = await Browser.start({ width: 1440, height: 900 });
  const { check, size, scheme, visible } = bound(new Harness(browser));
  try {
    await check("entries are there, folders first, numbers in their order, and nothing breaks the policy", async () => {
      await browser.open(`${site}/docs/`);
      const names = await shown(browser);
      assert.equal(names.length, FILES + 2);
      assert.deepEqual(names.slice(0, 2), ["guide/", "release notes/"]);
      const chapters = names.filter((name) => name.startsWith("chapter"));
      assert.deepEqual(chapters, ["chapter1.md", "chapter2.md", "chapter10.md"]);
      assert.ok(names.includes("<img src=x onerror=alert(1)>.txt"));
      assert.deepEqual(await browser.console(), []);
    });

    await check("each name leads to its file", async () => {
      const bodies = await browser.run(
        "return [...document.querySelectorAll('tbody tr:not(.up):not(.folder) a')].map((link) => [link.textContent, link.href])",
      );
      for (const [name, url] of bodies) {
        if (name === "large.bin") continue;
        const answer = await fetch(url);
        assert.equal(answer.status, 200, name);
        assert.equal(await answer.text(), `${name}\n`);
      }
    });

    await check("columns sort, and say so", async () => {
      await browser.click("th.size a");
      await browser.untilAt("?sort=size&order=desc");
      assert.equal((await shown(browser))[2], "large.bin");
      assert.equal(await browser.run("return document.querySelector('[aria-sort]').ariaSort"), "descending");
      await browser.click("th.size a");
      await browser.untilAt("?sort=size&order=asc");
      assert.equal((await shown(browser)).at(-1), "large.bin");
      await browser.click("th.date a");
      await browser.untilAt("?sort=date&order=desc");
      assert.equal((await shown(browser))[2], "large.bin");
    });

    await check("a name is found by the keyboard", async () => {
      await browser.open(`${site}/docs/`);
      await browser.press("/chapter");
      await browser.until("three are shown", "return document.getElementById('sum').textContent === '3 of 20 shown'");
      assert.equal((await shown(browser)).length, 3);
      await browser.press("xyz");
      await browser.until("nothing is shown", "return !document.getElementById('none').hidden");
      await browser.press(ESCAPE);
      await browser.until("all are shown", `return document.querySelectorAll('tbody tr[hidden]').length === 0`);
      await browser.press("/");
      await browser.press(`notes.txt`);
      await browser.until("one is shown", "return document.getElementById('sum').textContent.startsWith('1 of')");
      await browser.press(ENTER);
      await browser.untilAt("/docs/notes.txt");
    });

    await check("arrows go from entry to entry, Enter opens, Backspace goes up", async () => {
      await browser.open(`${site}/docs/`);
      await browser.press(DOWN);
      assert.equal(await active(browser), "Parent folder");
      await browser.press(DOWN + DOWN);
      assert.equal(await active(browser), "release notes/");
      await browser.press(UP);
      assert.equal(await active(browser), "guide/");
      await browser.press(ENTER);
      await browser.untilAt("/docs/guide/");
      assert.ok(await browser.run("return document.body.textContent.includes('This folder is empty.')"));
      await browser.press(BACKSPACE);
      await browser.untilAt("/docs/");
      await browser.press(BACKSPACE);
      await browser.untilAt(`${new URL(site).port}/`);
    });

    await check("breadcrumbs lead up", async () => {
      await browser.open(`${site}/docs/release%20notes/`);
      assert.equal(await browser.run("return document.querySelector('[aria-current]').textContent"), "release notes");
      await browser.click("nav li:nth-child(2) a");
      await browser.untilAt("/docs/");
    });

    await check("three thousand entries are filtered at once", async () => {
      await browser.open(`${site}/many/`);
      assert.equal((await shown(browser)).length, 3000);
      await browser.press("/2999");
      await browser.until("one is shown", "return document.getElementById('sum').textContent === '1 of 3000 shown'");
    });

    for (const width of [390, 820, 1440]) {
      for (const value of ["light", "dark"]) {
        await check(`all of it is there at ${width}, ${value}`, async () => {
          await size(width, 900);
          await scheme(value);
          await browser.open(`${site}/docs/`);
          const room = await browser.run("return [document.documentElement.scrollWidth, document.documentElement.clientWidth]");
          assert.ok(room[0] <= room[1], `scrolls sideways: ${room}`);
          const [back] = await browser.run("return getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)");
          assert.equal(back < 128, value === "dark");
          for (const part of ["nav", "#find", "thead", "td.size", "tr:not(.up) td.date", "footer"]) assert.ok(await visible(part), part);
          await picture(browser, `${width}-${value}`);
        });
      }
    }
    await check("nothing was written to the console", async () => {
      // A text has no picture of its own, so the browser asks for the site's.
      const lines = (await browser.console()).filter(({ message }) => !message.includes("/favicon.ico"));
      assert.deepEqual(lines, []);
    });
  } finally {
    await browser.close();
  }
  return failures;
}

async function withoutScripts() {
  const browser = await Browser.start({ width: 1000, height: 900, script: false });
  const { check } = bound(new Harness(browser));
  try {
    await check("it works without scripts", async () => {
      await browser.open(`${site}/docs/`);
      await browser.click("th.size a");
      await browser.untilAt("?sort=size&order=desc");
      await browser.click("tbody tr.folder a");
      await browser.untilAt("/docs/guide/");
    });
  } finally {
    await browser.close();
  }
}

let failures = 0;
function bound(harness) {
  const method = (name) => (...values) => harness[name](...values);
  return {
    size: method("size"),
    scheme: method("scheme"),
    visible: method("visible"),
    check: async (name, test) => {
      await harness.check(name, test);
      failures += harness.failed;
      harness.failed = 0;
    },
  };
}

await withScripts();
await withoutScripts();
process.exit(failures ? 1 : 0);
