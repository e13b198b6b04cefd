/** Texts about ways to sign in other than with the password: passkeys, single sign-on, a directory, tokens. */
export const signInWith = {
  directory: 'My account is in the directory',
  or: 'or',
  passkey: 'Sign in with a passkey',
  passkeyNone: 'No passkey was used. Try again, or sign in with your password.',
  sso: (platform: string) => `Sign in with ${platform}`,
  ssoBlocked: 'The browser blocked the sign-in window. Allow pop-ups for this site, then try again.',
  ssoClosed: 'The sign-in window was closed before the sign-in was complete.',
  ssoName: 'single sign-on',
}

export const passkeys = {
  add: 'Add a passkey',
  added: (date: string) => `Added ${date}`,
  code: 'Current two-factor code',
  codeWrong: 'The two-factor code is wrong or already used.',
  confirm: (title: string) => `Remove the passkey “${title}”? Nobody can sign in with it any longer.`,
  done: 'Passkey added',
  explanation:
    'Sign in with your fingerprint, face or PIN instead of the password and the two-factor code. The key stays on your device.',
  neverUsed: 'Never used',
  none: 'There are no passkeys.',
  refused: 'The browser did not create a passkey. Perhaps this device already has one for this account.',
  remove: 'Remove',
  removeOne: (title: string) => `Remove the passkey ${title}`,
  title: 'Passkeys',
  titleField: 'Name of the passkey',
  titleHelp: 'For example, the name of this device.',
  unsupported: 'This browser or address does not support passkeys. They need HTTPS and a host name.',
  used: (date: string) => `Last used ${date}`,
}
