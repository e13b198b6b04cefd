const UNITS = [
  [86_400, 'd'],
  [3600, 'h'],
  [60, 'min'],
] as const

/** An age in its largest unit: "3 min". */
export function formatAge(seconds: number): string {
  const unit = UNITS.find(([size]) => seconds >= size)
  return unit ? `${Math.floor(seconds / unit[0])} ${unit[1]}` : `${Math.floor(seconds)} s`
}
