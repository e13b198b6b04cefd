import type { Texts } from './en'

export const appearance: Texts['appearance'] = {
  title: '外观',
  theme: '主题',
  themes: { system: '跟随系统', light: '浅色', dark: '深色' },
  useDark: '深色主题',
  useLight: '浅色主题',
  density: '密度',
  densities: { comfortable: '宽松', compact: '紧凑' },
}
