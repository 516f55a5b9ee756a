// Runs the files that the arguments name, or all *.test.mjs beside this one: node run.mjs [FILE…]. Ends with
// `N passed, N failed`.
import { readdirSync } from "node:fs";
import { basename, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { closeBrowser, complaintsOfNoTest, counts, endAll, WalkEnded } from "./harness.mjs";

const here = import.meta.dirname;
const named = process.argv.slice(2).map((it) => resolve(it));
const files = named.length > 0
  ? named
  : readdirSync(here).filter((it) => it.endsWith(".test.mjs")).sort().map((it) => resolve(here, it));
// Whoever ends this ends what it started, too.
for (const signal of ["SIGINT", "SIGTERM"])
  process.once(signal, () => endAll().then(closeBrowser).finally(() => process.exit(1)));
for (const file of files) {
  console.log(`# ${basename(file)}`);
  try {
    await (await import(pathToFileURL(file).href)).default();
    const wrong = complaintsOfNoTest();
    if (wrong.length > 0) throw new Error(`while no test ran, pages complained: ${wrong.join("; ")}`);
  } catch (error) {
    if (!(error instanceof WalkEnded)) {
      counts.failed += 1;
      console.log(`FAIL ${basename(file)}\n${error.stack ?? error}`);
    }
  } finally {
    await endAll();
  }
}
await closeBrowser();
console.log(`${counts.passed} passed, ${counts.failed} failed`);
process.exit(counts.failed === 0 ? 0 : 1);
