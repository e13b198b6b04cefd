/** A device by what its program says of itself: `[program, system]`, '' for what is not known. */

const PROGRAMS: readonly (readonly [RegExp, string])[] = [
  [/\bEdgA?\//, 'Edge'],
  [/\bOPR\//, 'Opera'],
  [/\bVivaldi\//, 'Vivaldi'],
  [/\bSamsungBrowser\//, 'Samsung Internet'],
  [/\b(?:Firefox|FxiOS)\//, 'Firefox'],
  [/\b(?:Chrome|CriOS|HeadlessChrome)\//, 'Chrome'],
  [/\bVersion\/.*\bSafari\//, 'Safari'],
]
const SYSTEMS: readonly (readonly [RegExp, string])[] = [
  [/\biPhone\b/, 'iPhone'],
  [/\biPad\b/, 'iPad'],
  [/\bAndroid\b/, 'Android'],
  [/\bWindows\b/, 'Windows'],
  [/\bMac OS X\b|\bMacintosh\b/, 'macOS'],
  [/\bCrOS\b/, 'ChromeOS'],
  [/\bLinux\b/, 'Linux'],
]

export function readDevice(userAgent: string): readonly [string, string] {
  const find = (names: typeof PROGRAMS) => names.find(([pattern]) => pattern.test(userAgent))?.[1] ?? ''
  const program = find(PROGRAMS) || (userAgent.startsWith('Mozilla/') ? '' : (userAgent.split(/[/ ]/)[0] ?? ''))
  return [program, find(SYSTEMS)]
}

export function isHandheld(system: string): boolean {
  return ['iPhone', 'iPad', 'Android'].includes(system)
}
