export const appearance = {
  title: 'Appearance',
  theme: 'Theme',
  themes: { system: 'As the system', light: 'Light', dark: 'Dark' },
  useDark: 'Dark theme',
  useLight: 'Light theme',
  density: 'Density',
  densities: { comfortable: 'Comfortable', compact: 'Compact' },
}
