// Runs cache-tests against a cache, and compares what comes out with a list. To be run in the suite's folder.

import fs from 'fs'
import { runTests, getResults } from './test-engine/client/runner.mjs'
import { determineTestResult, resultTypes } from './test-engine/lib/results.mjs'
import suites from './tests/index.mjs'

const { TEST, VERBOSE, RESULTS, EXPECTED } = process.env
const chosen = suites
  .map(suite => ({ ...suite, tests: suite.tests.filter(test => !TEST || test.id === TEST) }))
  .filter(suite => suite.tests.length > 0)
if (TEST) chosen.forEach(suite => suite.tests.forEach(test => { test.dump = true }))
await runTests(chosen, false, process.argv[2])
const results = getResults()
if (RESULTS) fs.writeFileSync(RESULTS, `${JSON.stringify(results, null, 2)}\n`)

const lines = fs.existsSync(EXPECTED) ? fs.readFileSync(EXPECTED, 'utf8').split('\n') : []
const expected = new Map(lines.filter(line => line && !line.startsWith('#')).map(line => line.split('\t')))
const passed = new Set([resultTypes.pass, resultTypes.yes])
const names = new Map(Object.entries(resultTypes).map(([name, type]) => [type, name]))
const count = {}
let surprises = 0
for (const suite of chosen) {
  for (const test of suite.tests.filter(test => !test.browser_only)) {
    const kind = test.kind || 'required'
    const result = determineTestResult(suites, test.id, results, !TEST)
    const word = names.get(result)
    count[kind] ??= {}
    count[kind][word] = (count[kind][word] || 0) + 1
    const why = Array.isArray(results[test.id]) ? results[test.id][1] : word
    const known = expected.get(test.id)
    if (passed.has(result)) {
      if (known && !TEST) console.log(`PASSED although listed: ${test.id}`)
    } else if (!known || TEST) {
      // What is only asked about is no failure.
      if (kind !== 'check') surprises = 1
      console.log(`${kind === 'check' ? 'NO      ' : 'FAILED  '} ${test.id} (${kind}, ${word}): ${why}`)
    } else if (VERBOSE) {
      console.log(`expected ${test.id} (${kind}, ${word}): ${known}`)
    }
  }
}
for (const [kind, words] of Object.entries(count)) {
  console.log(`${kind.padEnd(9)} ${Object.entries(words).map(([word, number]) => `${word} ${number}`).join(', ')}`)
}
process.exit(surprises)
