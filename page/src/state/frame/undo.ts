/** The last change that can be undone. */
export class UndoStack {
  #steps: (() => void)[] = []

  remember(undo: () => void): void {
    this.#steps = [...this.#steps, undo].slice(-MAX_STEPS)
  }

  /** Undo the last change; false if there is none. */
  undo(): boolean {
    const step = this.#steps.pop()
    step?.()
    return step !== undefined
  }
}

const MAX_STEPS = 20 // changes
