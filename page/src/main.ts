import { mount } from 'svelte'
import App from './App.svelte'
import { createStores } from './state/stores'
import './style/base.css'

const target = document.getElementById('page')
if (!target) throw new Error('index.html has no element #page')

const stores = createStores()
stores.appearance.apply()
stores.router.start()
void stores.site.load()
void stores.session.start()
// no await here: a language is a file of its own that imports from this one, and would wait for it
void stores.language.start().then(() => mount(App, { target, props: { stores } }))

/** Without the service, the page opens nevertheless and connects when it can: see public/sw.js. */
if (import.meta.env.PROD && 'serviceWorker' in navigator) {
  navigator.serviceWorker.register('/sw.js').catch(() => undefined) // not over plain HTTP
}
