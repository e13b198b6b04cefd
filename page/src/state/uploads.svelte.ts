import { asProblem } from '../api/problem'
import { isReachable, whenReachable } from './reachable'
import type { Stores } from './stores'
import { countBatch, findFault, isReadable, readBatch, send, sendBatch } from './uploads/send'
import { Speed } from './uploads/speed'
import { STALLED, StallGuard } from './uploads/stall'
import { StoringFollower } from './uploads/storing'
import { Telling } from './uploads/telling'
import { Batch, type Choice, isFinished, Upload } from './uploads/upload'

export const UPLOAD_CONCURRENCY = 3
const SMALL_UPLOAD_CONCURRENCY = 6 // browsers open no more connections to one service
const MAX_SMALL_BYTES = 256 * 1024 // of a file of which more are on their way
const SHOWN_EVERY = 150 // ms

export type Pause = 'user' | 'signedOut' | 'offline'

export type UploadQueueStores = Pick<
  Stores,
  'api' | 'drops' | 'folderChanges' | 'language' | 'passwords' | 'session' | 'site' | 'tasks' | 'toasts'
>

/** A file or an empty folder that was found on this device; `folder` is where it goes. */
export interface FoundFile {
  folder: string
  name: string
  file: File | null
}

/** The uploads of a user from this device; they end with the session. */
export class UploadQueue {
  asTask = $state(false) // for what is begun from now on
  paused = $state.raw<Pause | null>(null)
  reading = $state(0) // folders of this device that are being read
  readonly speed = new Speed()
  #owner: string | undefined
  #version = $state(0) // of all that is not reactive by itself
  #all: Upload[] = []
  #waiting: Upload[] = []
  #asking: Upload[] = []
  #running = new Set<Upload>()
  #requests = 0 // that carry the running ones
  #telling: Telling
  #storing: StoringFollower
  #reconnecting = new AbortController()
  #showing: ReturnType<typeof setTimeout> | undefined

  constructor(private stores: UploadQueueStores) {
    this.#telling = new Telling(stores)
    this.#storing = new StoringFollower(stores.api, (upload) => {
      if (upload.state === 'done') this.#telling.add(upload)
      stores.drops.observe(upload)
      if (this.isActive) this.#show()
      else this.#showNow()
    })
    stores.tasks.onUploadsEnded = () => this.#storing.hurry()
  }

  /** All of this user, in the order in which they came: read anew when something about them changed. */
  get list(): readonly Upload[] {
    this.#version
    return this.stores.session.user?.username === this.#owner ? this.#all : []
  }

  /** The one that asks what to do, as its name is taken. */
  get question(): Upload | undefined {
    this.#version
    return this.list.length > 0 ? this.#asking[0] : undefined
  }

  get isActive(): boolean {
    return this.#waiting.length + this.#asking.length + this.#running.size > 0
  }

  /** Begin a batch: the files of one selection or drop. */
  begin(folder: string): Batch {
    if (this.#owner !== this.stores.session.user?.username) this.#drop()
    this.#owner = this.stores.session.user?.username
    globalThis.addEventListener?.('beforeunload', warn)
    return new Batch(folder)
  }

  add(batch: Batch, files: readonly FoundFile[]): void {
    for (const { folder, name, file } of files) {
      const upload = new Upload(batch, folder, name, file)
      this.#all.push(upload)
      this.#enqueue(upload)
    }
    this.#start()
  }

  pause(why: Pause = 'user'): void {
    this.paused = why
    if (why === 'offline') void this.#resumeWhenReachable()
    for (const { controller } of this.#running) controller?.abort('pause')
  }

  resume(): void {
    this.paused = null
    this.#start()
  }

  /** The user is here, perhaps again. */
  greet(username: string): void {
    if (this.paused === 'signedOut' && username === this.#owner) this.resume()
  }

  cancel(uploads: readonly Upload[] = this.#all): void {
    const chosen = new Set(uploads.filter((upload) => !isFinished(upload)))
    this.#waiting = this.#waiting.filter((upload) => !chosen.has(upload))
    this.#asking = this.#asking.filter((upload) => !chosen.has(upload))
    for (const upload of chosen) {
      upload.state = 'canceled'
      this.stores.drops.observe(upload)
      upload.controller?.abort('cancel')
    }
    this.#start()
  }

  /** Begin anew; of a large file only what the service does not have. */
  retry(uploads: readonly Upload[] = this.#all.filter(({ state }) => state === 'failed')): void {
    for (const upload of uploads) {
      if (!isFinished(upload) || this.#running.has(upload)) continue
      if (upload.state === 'skipped') upload.batch = new Batch(upload.batch.folder) // it is asked again
      this.#enqueue(upload)
    }
    this.#start()
  }

  /** Forget what is finished, here and at the service. */
  clear(): void {
    this.#all = this.#all.filter((upload) => !isFinished(upload) || upload.state === 'storing')
    this.#show()
  }

  answer(choice: Choice, isForAll: boolean): void {
    const pending = this.#asking[0]
    if (!pending) return
    if (isForAll) pending.batch.choice = choice
    const answered = this.#asking.filter((upload) => upload === pending || (isForAll && upload.batch === pending.batch))
    this.#asking = this.#asking.filter((upload) => !answered.includes(upload))
    for (const upload of answered) this.#choose(upload, choice)
    this.#start()
  }

  #enqueue(upload: Upload, isNext = false): void {
    upload.fault = findFault(upload)
    upload.state = upload.fault ? 'failed' : 'queued'
    upload.sent = 0
    if (upload.fault) return
    if (isNext) this.#waiting.unshift(upload)
    else this.#waiting.push(upload)
  }

  #choose(upload: Upload, choice: Choice): void {
    upload.choice = choice
    if (choice === 'skip') upload.state = 'skipped'
    else this.#enqueue(upload, true)
  }

  #start(): void {
    if (this.#waiting.length > 0 && this.stores.session.user?.username !== this.#owner) this.paused ??= 'signedOut'
    while (!this.paused && this.#waiting.length > 0 && this.#requests < this.#findConcurrency()) {
      const uploads = this.#waiting.splice(0, this.asTask ? 1 : countBatch(this.stores.passwords, this.#waiting))
      void (uploads.length > 1 ? this.#runBatch(uploads) : uploads[0] && this.#run(uploads[0]))
    }
    if (!this.isActive) {
      globalThis.removeEventListener?.('beforeunload', warn)
      this.speed.clear()
      this.#showNow()
    } else this.#show()
  }

  /** The uploads that may run: more if all of them and the next are small. */
  #findConcurrency(): number {
    const isSmall = ({ size }: Upload) => size <= MAX_SMALL_BYTES
    const next = this.#waiting[0]
    return next && isSmall(next) && [...this.#running].every(isSmall) ? SMALL_UPLOAD_CONCURRENCY : UPLOAD_CONCURRENCY
  }

  #begin(upload: Upload): AbortController {
    upload.controller = new AbortController()
    upload.state = 'running'
    this.#running.add(upload)
    return upload.controller
  }

  #end(upload: Upload): void {
    upload.controller = null
    this.#running.delete(upload)
    this.stores.drops.observe(upload)
  }

  /** Send small files in one request. It takes a moment, so only a cancellation of all of them interrupts it. */
  async #runBatch(uploads: readonly Upload[]): Promise<void> {
    const request = new AbortController()
    const guard = new StallGuard(request)
    const signals = uploads.map((upload) => this.#begin(upload).signal)
    const abort = () => signals.every(({ reason }) => reason === 'cancel') && request.abort('cancel')
    for (const signal of signals) signal.addEventListener('abort', abort)
    this.#requests++
    let isWhole = false // what failed is the request, not single files
    const advance = (part: number) => {
      guard.report()
      for (const upload of uploads) this.#advance(upload, Math.round(part * upload.size))
    }
    const sending = readBatch(uploads).then((read) => sendBatch(this.stores, uploads, read, request.signal, advance))
    const failures = await guard.watch(sending).catch((thrown): unknown[] => {
      isWhole = true
      return uploads.map(() => thrown)
    })
    this.#requests--
    for (const [index, upload] of uploads.entries()) {
      const isCanceled = signals[index]?.reason === 'cancel'
      if (!failures[index]) this.#telling.add(upload)
      if (!failures[index] && !isCanceled) upload.state = 'done'
      else if (!isCanceled && isWhole && this.paused) this.#enqueue(upload, true)
      else if (!isCanceled) await this.#fail(upload, failures[index])
      this.#end(upload)
    }
    this.#start()
  }

  #advance(upload: Upload, sent: number): void {
    this.speed.add(sent - upload.sent, performance.now())
    upload.sent = sent
    this.stores.drops.observe(upload)
    this.#show()
  }

  async #run(upload: Upload): Promise<void> {
    const { asTask } = this
    const controller = this.#begin(upload)
    const guard = new StallGuard(controller)
    const advance = (sent: number) => {
      guard.report()
      this.#advance(upload, sent)
    }
    this.#requests++
    try {
      upload.task = await guard.watch(send(this.stores, upload, asTask, controller.signal, advance))
      upload.state = upload.task ? 'storing' : 'done'
      if (upload.task) this.#storing.add(upload)
      this.#telling.add(upload)
    } catch (thrown) {
      if (controller.signal.reason === 'pause') this.#enqueue(upload, true)
      else if (!controller.signal.aborted || thrown === STALLED) await this.#fail(upload, thrown)
    } finally {
      this.#requests--
      this.#end(upload)
      this.#start()
    }
  }

  async #fail(upload: Upload, thrown: unknown): Promise<void> {
    const { batch, choice, file } = upload
    if (thrown === STALLED) {
      upload.fault = STALLED
      upload.state = 'failed'
      return
    }
    const isUnreadable = thrown instanceof DOMException || (file && !(await isReadable(file)))
    const problem = isUnreadable ? null : asProblem(thrown)
    if (problem?.kind === 'exists' && file && (!choice || choice === 'skip')) {
      if (batch.choice) return this.#choose(upload, batch.choice)
      upload.state = 'asking'
      this.#asking.push(upload)
      return
    }
    const why = problem?.kind === 'signedOut' ? 'signedOut' : 'offline'
    if (why === 'signedOut' || (problem?.kind === 'offline' && !(await isReachable()))) {
      this.#enqueue(upload, true)
      if (why === 'signedOut' && !this.paused)
        this.stores.toasts.show('failed', this.stores.language.t().uploads.signIn)
      return this.pause(this.paused ?? why)
    }
    upload.fault = problem ?? 'unreadable'
    upload.state = 'failed'
  }

  async #resumeWhenReachable(): Promise<void> {
    this.#reconnecting.abort()
    this.#reconnecting = new AbortController()
    if ((await whenReachable(this.#reconnecting.signal)) && this.paused === 'offline') this.resume()
  }

  #drop(): void {
    this.cancel()
    this.#all = []
    this.paused = null
  }

  /** Have what depends on the uploads read anew, not for each of them. */
  #show(): void {
    this.#showing ??= setTimeout(() => this.#showNow(), SHOWN_EVERY)
  }

  #showNow(): void {
    clearTimeout(this.#showing)
    this.#showing = undefined
    this.#version++
  }
}

function warn(event: BeforeUnloadEvent): void {
  event.preventDefault()
}
