import { mount } from 'svelte'
import { createStores } from './state/stores'
import './style/base.css'
import ComponentsView from './views/components/ComponentsView.svelte'

/** Every component in every state, for development: `npm run dev` and /@components. It is no part of the build. */
const target = document.getElementById('page')
if (!target) throw new Error('components.html has no element #page')
const stores = createStores()
stores.appearance.apply()
await stores.language.start()
mount(ComponentsView, { target, props: { stores } })
