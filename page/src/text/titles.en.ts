/** Titles of views, which menus and the window show as well. */
export const titles = {
  manage: 'Manage',
  profile: 'Profile',
}
