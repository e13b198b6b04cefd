const SECRET =
  /password|passphrase|secret|private_key$|(_|^)token$|account_key$|application_key$|access_key$|salt$|credential$|temp_url_key$/
const NO_SECRET = /_id$/

/** True if an option or setting is shown as dots. The interface does not tell, so it goes by the name. */
export function isSecret(name: string): boolean {
  return SECRET.test(name) && !NO_SECRET.test(name)
}
