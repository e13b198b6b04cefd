import { type ArchiveRequest, getArchive, listArchiveFolder } from '../api/archives'
import { asProblem, type Problem } from '../api/problem'
import type { ArchiveMeta, ArchiveNode, FileObject } from '../api/schema'
import type { Stores } from './stores'

const MAX_ENTRIES = 10_000 // entries of one folder

/** An archive, read as folders. A large one is asked for one folder at a time. */
export class Archive {
  readonly path: string
  password = $state('')
  about = $state.raw<ArchiveMeta | null>(null)
  inside = $state('/') // the folder of the archive that is shown
  entries = $state.raw<readonly FileObject[]>([])
  total = $state(0) // of the folder: more than `entries` where it has too many
  problem = $state.raw<Problem | null>(null)
  isBusy = $state(false)

  constructor(
    private stores: Pick<Stores, 'api' | 'passwords'>,
    path: string,
  ) {
    this.path = path
  }

  get #request(): ArchiveRequest {
    return { path: this.path, password: this.stores.passwords.find(this.path), archive_pass: this.password }
  }

  /** Read it with that password, '' for none. */
  async open(password: string): Promise<void> {
    this.password = password
    await this.#try(async () => {
      this.about = await getArchive(this.stores.api, this.#request)
      await this.#list('/')
    })
  }

  /** Show one of its folders. */
  async show(inside: string): Promise<void> {
    await this.#try(() => this.#list(inside))
  }

  async #list(inside: string): Promise<void> {
    const tree = this.about?.content
    const { content, total } = tree
      ? findFolder(tree, inside)
      : await listArchiveFolder(this.stores.api, this.#request, inside, MAX_ENTRIES)
    this.entries = [...(content ?? [])].sort((a, b) => Number(b.is_dir) - Number(a.is_dir))
    this.total = total
    this.inside = inside
  }

  async #try(work: () => Promise<void>): Promise<void> {
    this.isBusy = true
    this.problem = null
    try {
      await work()
    } catch (thrown) {
      this.problem = asProblem(thrown)
    } finally {
      this.isBusy = false
    }
  }
}

/** Return the content of a folder of the tree; empty if it does not exist. */
export function findFolder(tree: readonly ArchiveNode[], inside: string) {
  let content: readonly ArchiveNode[] = tree
  for (const name of inside.split('/').filter(Boolean)) {
    content = content.find((member) => member.is_dir && member.name === name)?.children ?? []
  }
  return { content, total: content.length }
}
