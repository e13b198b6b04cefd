import { highlightTree } from '@lezer/highlight'
import { expect, test } from 'vitest'
import { COLOURS, loadLanguage } from '../src/views/view/languages'

/** A file of each language, and a word of it that has a colour of its own. */
const SAMPLES: [name: string, code: string, word: string][] = [
  ['main.c', 'return 0;', 'return'],
  ['main.cpp', 'class Point {};', 'class'],
  ['main.cs', 'public class Point {}', 'class'],
  ['style.css', 'body { color: red }', 'color'],
  ['Dockerfile', 'FROM debian', 'FROM'],
  ['main.go', 'func main() {}', 'func'],
  ['index.html', '<p class="x">text</p>', 'p'],
  ['Main.java', 'class Main {}', 'class'],
  ['main.js', 'const a = 1', 'const'],
  ['data.json', '{"a": true}', 'true'],
  ['main.kt', 'fun main() {}', 'fun'],
  ['main.lua', 'local a = 1', 'local'],
  ['notes.md', '# Title', 'Title'],
  ['index.php', '<?php echo "text";', 'echo'],
  ['main.py', 'def main(): pass', 'def'],
  ['main.rb', 'def main; end', 'def'],
  ['main.rs', 'fn main() {}', 'fn'],
  ['run.sh', 'if true; then echo; fi', 'if'],
  ['query.sql', 'SELECT 1', 'SELECT'],
  ['main.swift', 'func main() {}', 'func'],
  ['settings.toml', 'a = true', 'true'],
  ['main.ts', 'interface A {}', 'interface'],
  ['data.xml', '<a b="c"/>', 'b'],
  ['data.yaml', 'a: true', 'a'],
]

async function listColouredWords(name: string, code: string): Promise<string[]> {
  const support = await loadLanguage(name)
  if (!support) throw new Error(`${name} has no language`)
  const words: string[] = []
  highlightTree(support.language.parser.parse(code), COLOURS, (from, to) => words.push(code.slice(from, to)))
  return words
}

test('the editor has colours for 20 languages at least', () => {
  expect(SAMPLES.length).toBeGreaterThanOrEqual(20)
})

test.each(SAMPLES)('%s has colours', async (name, code, word) => {
  expect((await listColouredWords(name, code)).map((text) => text.trim())).toContain(word)
})

test('a text of no language has none', async () => {
  expect(await loadLanguage('letter.txt')).toBeNull()
})
