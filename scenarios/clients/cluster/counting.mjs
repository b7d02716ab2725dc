// What a client of the cluster does here: it counts in many keys, remembers what was acknowledged, and reports.
import readline from "node:readline";

export const keys = Array.from({ length: 200 }, (_, number) => `count:${number}`);
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Works until told to stop: `increase` counts in a key, `look` gives a key's value. */
export async function serve(what, increase, look) {
    const acknowledged = new Map();
    let done = 0;
    let errors = [];
    let isOver = false;
    const report = (more) => {
        console.log(JSON.stringify({ done, errors, ...more }));
        done = 0;
        errors = [];
    };
    const loop = async (own) => {
        while (!isOver) {
            for (const key of own) {
                try {
                    const value = Number(await increase(key));
                    // A count never goes back: what was acknowledged is there.
                    if (value <= (acknowledged.get(key) ?? 0)) errors.push(`LOST ${key}: ${value} after ${acknowledged.get(key)}`);
                    acknowledged.set(key, value);
                    done++;
                } catch (error) {
                    errors.push(String(error).slice(0, 300));
                    await pause(10);
                }
            }
        }
    };
    const loops = [0, 1, 2, 3].map((place) => loop(keys.filter((_, index) => index % 4 === place)));
    for await (const line of readline.createInterface({ input: process.stdin })) {
        if (line.trim() === "stop") break;
        report({});
    }
    isOver = true;
    await Promise.all(loops);
    const lost = [];
    for (const [key, value] of acknowledged) if (Number(await look(key)) < value) lost.push(key);
    if (lost.length > 0) console.error("lost:", lost);
    report({ what });
    process.exit(lost.length > 0 ? 1 : 0);
}
