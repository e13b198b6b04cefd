import { mount } from 'svelte'
import { appearance } from './state/appearance.svelte'
import './style/base.css'
import { language } from './text/language.svelte'
import ComponentsView from './views/components/ComponentsView.svelte'

/** Every component in every state, for development: `npm run dev` and /@components. It is no part of the build. */
const target = document.getElementById('page')
if (!target) throw new Error('components.html has no element #page')
appearance.apply()
await language.start()
mount(ComponentsView, { target })
