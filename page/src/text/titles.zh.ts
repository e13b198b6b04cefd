/** Titles of views, which menus and the window show as well. */
export const titles = {
  manage: '管理',
  profile: '个人资料',
}
