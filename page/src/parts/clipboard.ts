/** Put a text into the clipboard. Over plain HTTP browsers have only the older way. */
export async function copyText(text: string): Promise<void> {
  if (navigator.clipboard) return navigator.clipboard.writeText(text)
  const field = document.createElement('textarea')
  field.value = text
  field.className = 'hidden'
  document.body.append(field)
  field.select()
  document.execCommand('copy')
  field.remove()
}
