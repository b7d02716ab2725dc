// Drives the cluster's page as a person would, in headless Chromium.
//
//   node scenarios/cluster-page/page.mjs 'http://127.0.0.1:7379/#token=...'     (as `tidegate cluster page` says)
//
// The cluster has two groups with a replica each; whoever runs it sees to traffic. With SCREENSHOTS=folder pictures are left there.

import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { Browser } from "../page/webdriver.mjs";

const [link] = process.argv.slice(2);
if (!link) {
  console.error("usage: page.mjs <link to the cluster's page>");
  process.exit(2);
}

const [ESCAPE, ENTER] = ["\uE00C", "\uE007"];
const browser = await Browser.start({ width: 1440, height: 1000 });
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

const size = (width, height) => browser.devtools("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile: false });
const scheme = (value) => browser.devtools("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value }] });
const background = () => browser.run("return getComputedStyle(document.body).backgroundColor");
const dialogText = () => browser.run("return document.querySelector('dialog[open]')?.textContent || ''");

async function open(address = link) {
  await browser.open(address);
  await browser.until("the cluster is drawn", "return typeof page !== 'undefined' && page.live && document.querySelectorAll('.topology .address').length > 0");
}

async function picture(name) {
  if (!process.env.SCREENSHOTS) return;
  await mkdir(process.env.SCREENSHOTS, { recursive: true });
  const { data } = await browser.devtools("Page.captureScreenshot", { format: "png", captureBeyondViewport: true });
  await writeFile(join(process.env.SCREENSHOTS, `${name}.png`), Buffer.from(data, "base64"));
}

try {
  await size(1440, 1000);
  await scheme("light");
  await open();

  await check("groups, servers, slots and events are there", async () => {
    await browser.until("commands are counted", "return /[1-9]/.test(document.querySelector('.commands-tile b').textContent)");
    assert.equal(await browser.run("return document.querySelectorAll('.topology .address').length"), 4);
    assert.equal(await browser.run("return document.querySelectorAll('.group-head').length"), 2);
    const heads = await browser.run("return [...document.querySelectorAll('.panel:not([hidden]) h2')].map((one) => one.textContent)");
    assert.deepEqual(heads, ["Groups and servers", "Slots on their way", "Slots", "Proxies", "Events"]);
    const text = await browser.run("return document.querySelector('#live').textContent");
    for (const wrong of ["undefined", "NaN", "[object", "null"]) assert.ok(!text.includes(wrong), wrong);
    assert.match(text, /the cluster begins/);
  });

  await check("the token leaves the address", async () => {
    assert.equal(await browser.run("return location.hash"), "");
    assert.equal(await browser.run("return document.querySelector('#token').textContent"), "Token given");
  });

  await check("a slot tells whose it is", async () => {
    await browser.run("document.querySelector('.map').focus(); page.map.point(9000, 10)");
    const text = await browser.run("return document.querySelector('.readout').textContent");
    assert.match(text, /Slot 9000.*group 2/);
    await browser.run("readout.hide()");
  });

  await check("everything works by keyboard", async () => {
    const light = await background();
    await browser.press("d");
    assert.notEqual(await background(), light);
    await browser.press("d");
    await browser.press("?");
    assert.match(await dialogText(), /Rebalance/);
    await browser.press(ESCAPE);
    await browser.until("the list is closed", "return document.querySelector('dialog[open]') === null");
    await browser.press("l");
    assert.equal(await browser.run("return page.map.by"), "load");
    await browser.press("l");
    await browser.press("p");
    assert.equal(await browser.run("return document.querySelector('#pause').textContent"), "Go on");
    await browser.press("p");
  });

  await check("a move shows its plan, is done, and is undone", async () => {
    await browser.run("actions.plan({ title: 'Move', yes: 'Move slots', method: 'POST', path: '/api/migrations', body: { first: 0, last: 20, group: 2 } })");
    await browser.until("the plan is shown", "return /21 slots move/.test(document.querySelector('dialog[open]')?.textContent || '')");
    await picture("plan");
    await browser.run("document.querySelector('dialog[open] button[value=yes]').click()");
    await browser.until("the slots have moved", "return page.live.groups[1].slots === 8213 && page.live.moves.length === 0");
    const epoch = await browser.run("return page.live.changes.find(({ what }) => what.includes('are to move')).epoch");
    await browser.run("actions.undo(arguments[0])", epoch);
    await browser.until("the plan is shown", "return document.querySelector('dialog[open] button[value=yes]')");
    await browser.run("document.querySelector('dialog[open] button[value=yes]').click()");
    await browser.until("they are back", "return page.live.groups[0].slots === 8192 && page.live.moves.length === 0");
  });

  await check("a refusal is shown", async () => {
    await browser.run("actions.plan({ title: 'Remove group 1', yes: 'Remove', method: 'DELETE', path: '/api/groups/1' })");
    await browser.until("the reason is shown", "return /still has to do with 8192 slots/.test(document.querySelector('#said').textContent)");
  });

  await check("what the policy has wait is confirmed and dismissed here", async () => {
    const waiting = "document.querySelector('.waiting')";
    const button = (name) => `${waiting}.querySelector('button[name=${name}]')`;
    assert.equal(await browser.run(`return ${waiting}.hidden`), true);
    await browser.press("y");
    await browser.until("the policy is shown", "return document.querySelector('#policy[open] #policy-restart')");
    await picture("policy");
    await browser.run("const restart = document.querySelector('#policy-restart'); restart.value = 'ask'; restart.dispatchEvent(new Event('change'))");
    await browser.until("a restart is asked about", "return page.live.policy.restart === 'ask'");
    await browser.press(ESCAPE);
    const replica = "page.live.groups[1].servers.find(({ role }) => role === 'replica')";
    process.kill(await browser.run(`return ${replica}.pid`), "SIGKILL");
    await browser.until("its restart waits", `return ${button("confirm")} && /has ended by itself/.test(${waiting}.textContent)`);
    assert.match(await browser.run("return document.title"), /^\(1 to confirm\)/);
    for (const [width, height] of [[390, 844], [1440, 1000]]) {
      for (const colours of ["light", "dark"]) {
        await size(width, height);
        await scheme(colours);
        await open();
        await browser.until("it is shown", `return ${button("confirm")}`);
        const wide = await browser.run("return document.documentElement.scrollWidth - window.innerWidth");
        assert.ok(wide <= 0, `${wide} px too wide`);
        await picture(`waits-${width}-${colours}`);
      }
    }
    await scheme("light");
    await browser.run(`${button("dismiss")}.click()`);
    await browser.until("it is dismissed", `return /dismissed: it stays undone/.test(${waiting}.textContent) && !${button("dismiss")}`);
    assert.equal(await browser.run(`return ${replica}.state`), "down");
    // By keyboard, and without the token: it is asked for, and then it is done.
    const token = await browser.run("const token = client.token; client.token = ''; return token");
    await browser.press("c");
    assert.equal(await browser.run("return document.activeElement.name"), "confirm");
    await browser.run("document.activeElement.click()");
    await browser.until("the token is asked for", "return document.querySelector('#ask-token[open]')");
    await browser.run("document.querySelector('#token-text').value = arguments[0]; document.querySelector('#ask-token button[value=yes]').click()", token);
    await browser.until("it runs again", `return ${replica}.state === 'up' && ${replica}.pid && ${waiting}.hidden`);
    await browser.run("actions.act({ title: 'Policy', yes: '', method: 'POST', path: '/api/policy', body: { action: 'restart', mode: 'auto' } })");
    await browser.until("all is as before", "return page.live.policy.restart === 'auto'");
  });

  await check("without the token it is asked for", async () => {
    await browser.run("client.token = ''; actions.rebalance()");
    await browser.until("it is asked for", "return document.querySelector('#ask-token[open]')");
    await browser.press(ESCAPE);
  });

  await check("three hundred servers are drawn", async () => {
    await browser.run(`
      page.setPaused(true);
      const live = structuredClone(page.live), one = live.groups[0];
      live.groups = Array.from({ length: 100 }, (_, at) => ({ ...one, id: at + 1, slots: 163, ranges: [[at * 163, at * 163 + 162]], master: "10.0.0." + at + ":0",
        servers: [0, 1, 2].map((n) => ({ ...one.servers[0], role: n ? "replica" : "master", address: "10.0.0." + at + ":" + n })) }));
      page.take(live);`);
    assert.equal(await browser.run("return document.querySelectorAll('.topology .address').length"), 300);
    await picture("300-servers");
    await browser.run("page.setPaused(false)");
    await browser.until("the real ones are back", "return document.querySelectorAll('.topology .address').length === 4");
  });

  for (const [width, height] of [[390, 844], [1440, 1000]]) {
    for (const colours of ["light", "dark"]) {
      await check(`nothing is cut off at ${width} px, ${colours}`, async () => {
        await size(width, height);
        await scheme(colours);
        await open();
        const wide = await browser.run("return document.documentElement.scrollWidth - window.innerWidth");
        assert.ok(wide <= 0, `${wide} px too wide`);
        // Neither a figure nor a menu is hidden or beyond the edge.
        const away = await browser.run(`
          const outside = (box) => !box.width || box.left < 0 || box.right > document.documentElement.clientWidth;
          return [...document.querySelectorAll(".topology tbody :is(td, button, .address)")]
            .filter((e) => outside(e.getBoundingClientRect())).map((e) => e.className + " " + e.textContent)`);
        assert.deepEqual(away, []);
        await picture(`${width}-${colours}`);
      });
    }
  }

  await check("a server's menu opens by keyboard on a small screen", async () => {
    await size(390, 844);
    await open();
    await browser.run("document.querySelector('.topology tr:not(.group-head) .more-button').focus()");
    await browser.press(ENTER);
    await browser.until("it is open", "return document.querySelector('dialog[open]')");
    await browser.press(ESCAPE);
    await browser.until("it is closed", "return !document.querySelector('dialog[open]')");
    await size(1440, 1000);
  });

  await check("the browser has nothing to complain of but what was refused", async () => {
    const lines = (await browser.console()).filter(({ level }) => level === "SEVERE").map(({ message }) => message);
    assert.deepEqual(lines.filter((line) => !/status of (401|409)/.test(line)), []);
  });
} finally {
  await browser.close();
}
process.exit(failures ? 1 : 0);
