export const firstSteps = {
  title: 'First steps',
  hide: 'Hide the steps',
  done: 'Done',
  password: { title: 'Change the password', help: 'The one of the first start is in the terminal and its history.' },
  storage: { title: 'Add a storage', help: 'A folder of this computer, a server, a bucket or a cloud drive.' },
  user: { title: 'Make a user', help: 'Everybody has a name, a folder and rights of their own.' },
  install: { title: 'Install as an app', help: 'In a window of its own, with an icon.' },
}
