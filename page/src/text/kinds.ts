// Derived from the service by `make generate`.

/** The titles of the kinds of tasks. */
export const taskKinds = {
  en: {
    compress: 'Pack',
    copy: 'Copy',
    decompress: 'Unpack',
    decompress_upload: 'Store unpacked files',
    move: 'Move',
    offline_download: 'Download',
    offline_download_transfer: 'Store the download',
    upload: 'Upload',
  },
  zh: {
    compress: '打包',
    copy: '复制',
    decompress: '解压',
    decompress_upload: '存入解压文件',
    move: '移动',
    offline_download: '离线下载',
    offline_download_transfer: '存入下载文件',
    upload: '上传',
  },
}
