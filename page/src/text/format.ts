/** A name as it is shown: what would turn the letters around it, and so hide an extension, is made visible. */
export function formatName(name: string): string {
  return name.replace(/[\u202a-\u202e\u2066-\u2069]/g, '\ufffd')
}
