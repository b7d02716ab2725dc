// What tests of the page share: checks with a name, pictures, sizes.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const folder = process.env.SCREENSHOTS;
if (folder) mkdirSync(folder, { recursive: true });

export class Harness {
  constructor(browser) {
    this.browser = browser;
    this.failed = 0;
  }

  async check(name, test) {
    try {
      const skipped = await test();
      console.log(`${skipped ? "skip" : "ok  "}  ${name}${skipped ? `: ${skipped}` : ""}`);
    } catch (error) {
      this.failed++;
      console.log(`FAIL  ${name}\n      ${String(error.message).split("\n").join("\n      ")}`);
      await this.picture(`failed-${this.failed}`);
    }
  }

  async picture(name) {
    if (folder) writeFileSync(join(folder, `${name}.png`), await this.browser.screenshot());
  }

  size(width, height) {
    return this.browser.devtools("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile: false });
  }

  scheme(value) {
    return this.browser.devtools("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value }] });
  }

  visible(selector) {
    return this.browser.run("const e = document.querySelector(arguments[0]); return !!e && e.getClientRects().length > 0", selector);
  }

  async open(page) {
    await this.browser.open(page);
    await this.browser.until("cards are there", "return document.querySelectorAll('.card').length > 0");
  }
}
