import type { Texts } from './en'

export const signInWith: Texts['signInWith'] = {
  directory: '我的账户在目录服务中',
  or: '或',
  passkey: '使用通行密钥登录',
  passkeyNone: '未使用通行密钥。请重试，或使用密码登录。',
  sso: (platform) => `使用 ${platform} 登录`,
  ssoBlocked: '浏览器阻止了登录窗口。请允许此站点弹出窗口，然后重试。',
  ssoClosed: '登录窗口在登录完成前被关闭。',
  ssoName: '单点登录',
}

export const passkeys: Texts['profile']['passkeys'] = {
  add: '添加通行密钥',
  added: (date) => `添加于 ${date}`,
  code: '当前的两步验证码',
  codeWrong: '两步验证码不正确，或已被使用。',
  confirm: (title) => `移除通行密钥“${title}”？此后无法再用它登录。`,
  done: '已添加通行密钥',
  explanation: '使用指纹、面容或 PIN 登录，无需密码和两步验证码。密钥保存在您的设备上。',
  neverUsed: '从未使用',
  none: '没有通行密钥。',
  refused: '浏览器未创建通行密钥。此设备可能已有该账户的通行密钥。',
  remove: '移除',
  removeOne: (title) => `移除通行密钥 ${title}`,
  title: '通行密钥',
  titleField: '通行密钥的名称',
  titleHelp: '例如此设备的名称。',
  unsupported: '此浏览器或地址不支持通行密钥。通行密钥需要 HTTPS 和主机名。',
  used: (date) => `上次使用 ${date}`,
}
