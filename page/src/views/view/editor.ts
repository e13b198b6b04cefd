import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from '@codemirror/autocomplete'
import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands'
import { bracketMatching, foldGutter, foldKeymap, indentOnInput, syntaxHighlighting } from '@codemirror/language'
import { highlightSelectionMatches, search, searchKeymap } from '@codemirror/search'
import { Compartment, EditorState, type Extension } from '@codemirror/state'
import {
  drawSelection,
  EditorView,
  highlightActiveLine,
  highlightActiveLineGutter,
  highlightSpecialChars,
  keymap,
  lineNumbers,
} from '@codemirror/view'
import { COLOURS, loadLanguage } from './languages'

const LOOK = EditorView.theme({
  '&': { blockSize: '100%', color: 'var(--text)', backgroundColor: 'var(--page)', fontSize: 'var(--text-sm)' },
  '&.cm-focused': { outline: 'none' },
  '.cm-scroller': { fontFamily: 'ui-monospace, monospace', lineHeight: '1.5' },
  '.cm-content': { caretColor: 'var(--main)' },
  '.cm-cursor': { borderLeftColor: 'var(--main)', borderLeftWidth: '2px' },
  '.cm-gutters': { color: 'var(--quiet)', backgroundColor: 'var(--frame)', borderInlineEnd: '1px solid var(--line)' },
  '.cm-activeLine, .cm-activeLineGutter': { backgroundColor: 'color-mix(in oklch, var(--chosen) 45%, transparent)' },
  '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground': {
    backgroundColor: 'var(--chosen-line)',
  },
  '.cm-selectionMatch': { backgroundColor: 'var(--chosen)' },
  '.cm-searchMatch': { backgroundColor: 'var(--warning-surface)', outline: '1px solid var(--warning)' },
  '.cm-matchingBracket': { backgroundColor: 'var(--success-surface) !important' },
  '.cm-panels': { color: 'var(--text)', backgroundColor: 'var(--frame)', borderColor: 'var(--line)' },
  '.cm-textfield': {
    backgroundColor: 'var(--page)',
    color: 'inherit',
    border: '1px solid var(--line-strong)',
    fontSize: 'inherit',
  },
  '.cm-button': {
    backgroundImage: 'none',
    backgroundColor: 'var(--surface)',
    color: 'inherit',
    border: '1px solid var(--line-strong)',
    borderRadius: 'var(--radius-s)',
    fontSize: 'inherit',
  },
  '.cm-panel.cm-search': { padding: 'var(--space-2)', fontSize: 'var(--text-sm)' },
  '.cm-panel.cm-search label': { fontSize: 'inherit' },
  '.cm-tooltip': { color: 'var(--text)', backgroundColor: 'var(--surface)', border: '1px solid var(--line)' },
  '.cm-tooltip-autocomplete > ul > li[aria-selected]': { color: 'var(--on-main)', backgroundColor: 'var(--main)' },
})

export interface EditorOptions {
  name: string
  text: string
  /** Texts of the editor in the language of the page, by the English ones. */
  phrases: Record<string, string>
  onchange: (text: string) => void
}

/** Open an editor in the element. Its styles are in a shadow root: the policy of the page allows no style element. */
export function openEditor(element: HTMLElement, options: EditorOptions): EditorView {
  const root = element.attachShadow({ mode: 'open' })
  const language = new Compartment()
  const state = EditorState.create({ doc: options.text, extensions: [makeExtensions(options), language.of([])] })
  const view = new EditorView({ state, root, parent: root })
  void loadLanguage(options.name).then(
    (support) => support && view.dispatch({ effects: language.reconfigure(support) }),
  )
  return view
}

function makeExtensions({ name, phrases, onchange }: EditorOptions): Extension {
  return [
    LOOK,
    EditorState.phrases.of(phrases),
    lineNumbers(),
    highlightActiveLineGutter(),
    highlightSpecialChars(),
    foldGutter(),
    history(),
    drawSelection(),
    EditorState.allowMultipleSelections.of(true),
    EditorView.lineWrapping,
    EditorView.perLineTextDirection.of(true),
    indentOnInput(),
    syntaxHighlighting(COLOURS),
    bracketMatching(),
    closeBrackets(),
    autocompletion(),
    highlightActiveLine(),
    highlightSelectionMatches(),
    search({ top: true }),
    keymap.of([
      ...closeBracketsKeymap,
      ...defaultKeymap,
      ...searchKeymap,
      ...historyKeymap,
      ...foldKeymap,
      ...completionKeymap,
      indentWithTab,
    ]),
    EditorView.contentAttributes.of({ 'aria-label': name, autocapitalize: 'off', spellcheck: 'false' }),
    EditorView.updateListener.of(({ docChanged, state }) => docChanged && onchange(state.doc.toString())),
  ]
}
