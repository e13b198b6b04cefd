/** The last change that can be undone. */
export class UndoStack {
  #steps: (() => void)[] = []

  remember(undo: () => void): void {
    this.#steps = [...this.#steps, undo].slice(-MAX_STEPS)
  }

  /** Undo the last change; false if there is none. */
  undo(): boolean {
    const step = this.#steps.at(-1)
    if (step) this.run(step)
    return step !== undefined
  }

  /** Undo one of the changes, once. */
  run(step: () => void): void {
    if (!this.#steps.includes(step)) return
    this.#steps = this.#steps.filter((other) => other !== step)
    step()
  }
}

const MAX_STEPS = 20 // changes
