export interface Toast {
  id: number
  kind: 'done' | 'failed'
  text: string
  action?: ToastAction | undefined
}

/** A button of the message. */
export interface ToastAction {
  text: string
  run: () => void
}

const SECONDS = { done: 4, failed: 10 } // a failure takes longer to read
const SECONDS_TO_ACT = 10

/** Short messages that go by themselves. */
export class Toasts {
  list = $state.raw<readonly Toast[]>([])
  #last = 0

  show(kind: Toast['kind'], text: string, action?: ToastAction): void {
    const id = ++this.#last
    this.list = [...this.list, { id, kind, text, action }]
    setTimeout(() => this.close(id), (action ? SECONDS_TO_ACT : SECONDS[kind]) * 1000)
  }

  close(id: number): void {
    this.list = this.list.filter((toast) => toast.id !== id)
  }
}
