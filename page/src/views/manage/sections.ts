import type { Component } from 'svelte'
import type { Texts } from '../../text/en'

type SectionView = Component<{ rest: string }>

interface Section {
  name: keyof Texts['manage']['sections']
  load: () => Promise<{ default: SectionView }>
}

/** The sections, in order; each is loaded when it is opened. `rest` is what the address says behind the section. */
export const SECTIONS: readonly Section[] = [
  { name: 'overview', load: () => import('./overview/OverviewSection.svelte') },
  { name: 'storages', load: () => import('./storages/StoragesSection.svelte') },
  { name: 'users', load: () => import('./users/UsersSection.svelte') },
  { name: 'groups', load: () => import('./groups/GroupsSection.svelte') },
  { name: 'rules', load: () => import('./rules/RulesSection.svelte') },
  { name: 'locks', load: () => import('./locks/LocksSection.svelte') },
  { name: 'settings', load: () => import('./settings/SettingsSection.svelte') },
  { name: 'tools', load: () => import('./tools/ToolsSection.svelte') },
  { name: 'index', load: () => import('./index/IndexSection.svelte') },
  { name: 'audit', load: () => import('./audit/AuditSection.svelte') },
  { name: 'backup', load: () => import('./backup/BackupSection.svelte') },
]
