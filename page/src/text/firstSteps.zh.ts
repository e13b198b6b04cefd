import type { Texts } from './en'

export const firstSteps: Texts['firstSteps'] = {
  title: '开始使用',
  hide: '隐藏这些步骤',
  done: '已完成',
  password: { title: '修改密码', help: '首次启动的密码显示在终端及其历史记录中。' },
  storage: { title: '添加存储', help: '本机的文件夹、服务器、存储桶或网盘。' },
  user: { title: '创建用户', help: '每个人都有自己的名称、文件夹和权限。' },
  install: { title: '安装为应用', help: '在独立窗口中打开，并带有图标。' },
}
