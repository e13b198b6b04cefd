/** Help texts of settings and storage options in Chinese, by the English text of the service. */
export const helps: Record<string, string> = {
  'The version of the service.': '服务的版本。',
  'The name of the site, shown in the title of the page.': '站点名称，显示在页面标题中。',
  'A note to all visitors, as Markdown.': '面向所有访问者的公告，使用 Markdown。',
  'How long folders are shown: complete, in pages, or with more entries on demand.':
    '条目较多的文件夹的显示方式：全部显示、分页显示或按需加载。',
  'Number of entries that are loaded at a time.': '每次加载的条目数。',
  'Allow search engines to index the site.': '允许搜索引擎收录本站。',
  'Offer to open a folder in other programs.': '提供用其他程序打开文件夹的选项。',
  'The content of /robots.txt.': '/robots.txt 的内容。',
  'URLs of the logo, one per line: the first for the light theme, the last for the dark theme.':
    '标志的网址，每行一个：第一个用于浅色主题，最后一个用于深色主题。',
  'URL of the icon of the browser tab.': '浏览器标签页图标的网址。',
  'The colour of buttons and links.': '按钮和链接的颜色。',
  'Icon of the root folder; text or an emoji.': '根文件夹的图标，可用文字或表情符号。',
  'Icon of a shared folder; text or an emoji.': '分享文件夹的图标，可用文字或表情符号。',
  'Width of the page in compatible front ends.': '兼容前端中页面的宽度。',
  'Layout of the settings in compatible front ends.': '兼容前端中设置页的布局。',
  'Hide used and total space in listings.': '在文件列表中隐藏已用空间和总空间。',
  'Hide used and total space in the administration.': '在管理页中隐藏已用空间和总空间。',
  'Show used and total space as text instead of a bar.': '以文字代替进度条显示已用空间和总空间。',
  'Extensions of text files, separated by commas.': '文本文件的扩展名，用逗号分隔。',
  'Extensions of audio files, separated by commas.': '音频文件的扩展名，用逗号分隔。',
  'Extensions of video files, separated by commas.': '视频文件的扩展名，用逗号分隔。',
  'Extensions of images, separated by commas.': '图片的扩展名，用逗号分隔。',
  'Extensions of files that are always downloaded through this service, separated by commas.':
    '始终通过本服务下载的文件的扩展名，用逗号分隔。',
  'Request headers that are not passed on to storages, separated by commas.': '不转发给存储的请求头，用逗号分隔。',
  'Programs that can open a file, by extension, as JSON.': '可打开文件的程序，按扩展名列出，JSON 格式。',
  'Web services that can show a file, by extension, as JSON. The service receives the link to the file.':
    '可显示文件的网络服务，按扩展名列出，JSON 格式。该服务会得到文件的链接。',
  'URL of the image for audio files without a cover.': '没有封面的音频文件所用图片的网址。',
  'Play audio as soon as it is opened.': '打开音频后自动播放。',
  'Play videos as soon as they are opened.': '打开视频后自动播放。',
  'Show the download instead of a preview when a file is opened.': '打开文件时显示下载而不是预览。',
  'List the content of an archive when it is opened.': '打开压缩包时列出其内容。',
  'Show the download instead of a preview when a shared file is opened.': '打开分享的文件时显示下载而不是预览。',
  'List the content of a shared archive when it is opened.': '打开分享的压缩包时列出其内容。',
  'Show README.md below the listing of its folder.': '在文件夹列表下方显示其中的 README.md。',
  'Remove scripts from README.md before it is shown.': '显示 README.md 之前移除其中的脚本。',
  'Encoding of names in ZIP files that do not declare one.': '未声明编码的 ZIP 文件中名称的编码。',
  'Patterns (RE2) of paths that the page does not show, one per line. To hide them from the API too, use a rule.':
    '页面上不显示的路径的正则表达式（RE2），每行一个。如需在 API 中同样隐藏，请使用规则。',
  'Offer to download several files together.': '提供一次下载多个文件的选项。',
  "HTML at the end of the page's head. Scripts in it run for every visitor.":
    '插入页面 head 末尾的 HTML。其中的脚本会对每位访问者运行。',
  "HTML at the end of the page's body. Scripts in it run for every visitor.":
    '插入页面 body 末尾的 HTML。其中的脚本会对每位访问者运行。',
  'Hours after which a link expires; 0 means never.': '链接的有效小时数；0 表示永不过期。',
  'Sign the links to all files. A link without a valid signature is refused.':
    '为所有文件的链接签名。没有有效签名的链接会被拒绝。',
  'A link stops working when its user can no longer read the file.': '用户失去文件的读取权限后，其链接随之失效。',
  'Patterns (RE2), one per line. Their matches in error messages are replaced by asterisks.':
    '正则表达式（RE2），每行一个。错误消息中匹配的内容会替换为星号。',
  'URL of a service that reads verification codes in images, for compatible front ends.':
    '识别图片验证码的服务的网址，供兼容前端使用。',
  'Characters to replace in file names, as a JSON object: the original text and its replacement.':
    '文件名中要替换的字符，JSON 对象：原文字与替换文字。',
  'Pass the query parameters of a link on to the storage.': '将链接的查询参数转发给存储。',
  'Query parameters that are never passed on, separated by commas.': '从不转发的查询参数，用逗号分隔。',
  'Allow sign-in with a passkey.': '允许使用通行密钥登录。',
  'Visitors of share links see previews and thumbnails, not only downloads.':
    '分享链接的访问者可查看预览和缩略图，而不仅是下载。',
  'Visitors of share links look into shared archives.': '分享链接的访问者可查看压缩包内容。',
  'Bytes of shared files always pass through this service. Otherwise storages that can serve them themselves do.':
    '分享的文件始终通过本服务传输；关闭时，支持直接下载的存储会自行提供。',
  'The text that goes with a shared link.': '随分享链接附带的文字。',
  'Add written files to the search index. auto_update_index has the same effect.':
    '将写入的文件加入搜索索引。auto_update_index 有同样的作用。',
  'Accepted for compatibility; has no effect.': '仅为兼容而保留，不起作用。',
  'Refuse uploads of .DS_Store, desktop.ini, Thumbs.db, @eaDir and names that start with “._”.':
    '拒绝上传 .DS_Store、desktop.ini、Thumbs.db、@eaDir 以及以“._”开头的文件。',
  'Minimum length of a new password, in characters; 0 means no minimum.': '新密码的最少字符数；0 表示不限。',
  'The permanent token. Programs that send it act as the administrator.': '永久令牌。持有它的程序等同于管理员。',
  'Renewed together with the token; existing links then stop working.': '随令牌一起更新；更新后已有的链接失效。',
  'The search index. All values except none mean the same built-in index.':
    '搜索索引。除 none 以外的值都表示同一个内置索引。',
  'Update the index when entries change.': '条目变化时更新索引。',
  'One path per line.': '每行一个路径。',
  'Max depth of index.': '索引的最大层数。',
  'Progress of the index.': '索引的进度。',
  'Allow sign-in at an identity provider.': '允许通过身份提供方登录。',
  'The kind of identity provider. Casdoor and Dingtalk are not supported.': '身份提供方的类型。不支持 Casdoor 和钉钉。',
  'The client id of this site at the provider.': '本站在提供方的客户端 ID。',
  'The client secret of this site at the provider.': '本站在提供方的客户端密钥。',
  'The claim with the name of a new account.': '用作新账户名称的声明。',
  'The id of the tenant, for Microsoft.': '租户 ID，用于 Microsoft。',
  'Saved and without effect.': '会保存，但不起作用。',
  'The issuer of the provider, for OIDC; the address of a GitHub server.':
    'OIDC 提供方的签发者，或 GitHub 服务器的地址。',
  'Saved and without effect: the keys of the provider are read from it.':
    '会保存，但不起作用：提供方的密钥从提供方读取。',
  'More scopes to request from the provider, separated by spaces.': '向提供方请求的其他范围，用空格分隔。',
  'Create an account for an identity that is linked to none.': '为未关联账户的身份创建账户。',
  'The base path of such an account.': '此类账户的根目录。',
  'The permission of such an account, as a number.': '此类账户的权限，以数字表示。',
  'The claim that makes a user an administrator until the next sign-in; empty for none.':
    '使用户在下次登录前成为管理员的声明；留空则不使用。',
  'The value that this claim has, or lists, for administrators.': '管理员的该声明所具有或列出的值。',
  'Redirect to the front end after a sign-in instead of closing a window.': '登录后重定向到前端，而不是关闭窗口。',
  'Allow sign-in with a name and password of a directory.': '允许使用目录中的用户名和密码登录。',
  'The address of the directory, as ldaps://ldap.example.org.': '目录的地址，例如 ldaps://ldap.example.org。',
  'Do not verify the certificate of the directory.': '不验证目录的证书。',
  'The distinguished name that searches for users; empty for nobody.': '用于查找用户的可分辨名称；留空表示匿名查找。',
  'The password of that name.': '该名称的密码。',
  'The entry below which users are searched.': '在此条目之下查找用户。',
  'The filter that finds a user; %s stands for the name.': '查找用户的过滤器；%s 代表用户名。',
  'The base path of a new account.': '新账户的根目录。',
  'The permission of a new account, as a number.': '新账户的权限，以数字表示。',
  'The text beside the form of this sign-in.': '此登录表单旁的文字。',
  'SFTP clients can sign in with keys only, not with passwords.': 'SFTP 客户端只能用密钥登录，不能用密码。',
  'Number of concurrent downloads.': '同时进行的下载数。',
  'Number of downloaded files that are stored concurrently.': '同时存入的已下载文件数。',
  'Number of uploads that are stored concurrently in the background.': '同时在后台存入的上传数。',
  'Number of concurrent copy tasks.': '同时进行的复制任务数。',
  'Number of concurrent move tasks.': '同时进行的移动任务数。',
  'Number of archives that are unpacked concurrently.': '同时解压的压缩包数。',
  'Number of unpacked archives that are stored concurrently.': '同时存入的已解压压缩包数。',
  'Number of small files that one copy or move transfers concurrently, each over its own connection: 1 to 32.':
    '单个复制或移动任务同时传输的小文件数，每个文件使用一个连接：1 到 32。',
  'Maximum number of entries of an archive; 0 means no limit.': '压缩包的最多条目数；0 表示不限。',
  'Maximum unpacked size of an archive, in MiB; 0 means no limit.': '压缩包解压后的最大大小（MiB）；0 表示不限。',
  'Maximum ratio of unpacked to packed size, of an archive and of each file in it; 0 means no limit.':
    '压缩包及其中每个文件解压后与压缩前大小的最大比值；0 表示不限。',
  'Maximum number of files and folders that are packed into one archive; 0 means no limit.':
    '打包到一个压缩包中的最多文件和文件夹数；0 表示不限。',
  'Maximum size of the files that are packed into one archive, in MiB; 0 means no limit.':
    '打包到一个压缩包中的文件的最大总大小（MiB）；0 表示不限。',
  'process: a stored file survives a crash of the process. file: it survives a power cut too.':
    'process：已存入的文件在进程崩溃后仍在。file：断电后也仍在。',
  'Read a moved file back from its target before its source is removed, if no checksum proves the copy.':
    '没有校验和可证明副本正确时，先读取目标文件进行比较，再删除源文件。',
  'Days for which sign-ins and changes by administrators are kept in the audit; 0 records none.':
    '登录和管理员更改在审计中保留的天数；0 表示不记录。',
  'The size in MiB up to which pictures on storages other than Local get thumbnails. The service reads the whole picture once. 0 for none; on AWS, there are none.':
    '本地以外的存储中，不超过此大小（MiB）的图片会有缩略图。服务会完整读取图片一次。0 表示没有；在 AWS 上没有缩略图。',
  'Days for which finished tasks are kept.': '已结束任务的保留天数。',
  'KiB per second to all clients together; a negative value means no limit.':
    '发送给所有客户端的总速度（KiB/秒）；负值表示不限。',
  'KiB per second from all clients together; a negative value means no limit.':
    '从所有客户端接收的总速度（KiB/秒）；负值表示不限。',
  'KiB per second from all storages together; a negative value means no limit.':
    '从所有存储读取的总速度（KiB/秒）；负值表示不限。',
  'KiB per second to all storages together; a negative value means no limit.':
    '写入所有存储的总速度（KiB/秒）；负值表示不限。',
  'Allow uploads in parts.': '允许分片上传。',
  'Size of one part, in MB.': '每个分片的大小（MB）。',
  'The RPC secret of aria2; empty if it has none.': 'aria2 的 RPC 密钥；没有则留空。',
  'Let aria2 download HTTP and HTTPS URLs, if a user chooses it. Otherwise this service downloads them.':
    '用户选择 aria2 时，由 aria2 下载 HTTP 和 HTTPS 网址；否则由本服务下载。',
  "URL of aria2's RPC interface.": 'aria2 的 RPC 接口网址。',
  'Maximum size of the download of one URL, in MiB; 0 means no limit.': '单个网址下载的最大大小（MiB）；0 表示不限。',
  'Host names, addresses and networks outside the public internet that offline downloads can reach, separated by commas or lines.':
    '离线下载可访问的非公网主机名、地址和网段，用逗号或换行分隔。',
  'Download tools that answered when they were set up.': '设置时已成功连接的下载工具。',
  'Minutes for which a finished torrent is seeded; a negative value means forever.':
    '种子完成后的做种分钟数；负值表示一直做种。',
  'URL of qBittorrent, with its user name and password.': 'qBittorrent 的网址，包含用户名和密码。',
  'Host and port of the SFTP server, such as 127.0.0.1:5222. Empty: the server is off. Standalone only.':
    'SFTP 服务的地址和端口，例如 127.0.0.1:5222。留空则关闭。仅适用于单机部署。',
  "Maximum size of the temporary files of one user's SFTP uploads, in MiB. Beyond it, a file is stored while it is received and has to be sent in order.":
    '单个用户 SFTP 上传的临时文件总大小上限（MiB）。超出后文件边接收边存入，且必须按顺序发送。',
  'Maximum size of the temporary files of all SFTP uploads, in MiB. 256 MiB of the disk always stay free.':
    '所有 SFTP 上传的临时文件总大小上限（MiB）。磁盘始终保留 256 MiB 空闲空间。',
  'Maximum size of the gaps in one file over SFTP, in MiB, including sizes that a client sets.':
    '单个 SFTP 文件中空洞的最大大小（MiB），包括客户端设置的大小。',
  'Serve WebDAV at /dav.': '在 /dav 提供 WebDAV。',
  'Allow WebDAV sign-in over plain HTTP, where passwords are not encrypted.':
    '允许通过未加密的 HTTP 登录 WebDAV，此时密码以明文传输。',
  'Allow WebDAV clients to list a folder with all its subfolders in one request.':
    '允许 WebDAV 客户端用一个请求列出文件夹及其所有子文件夹。',
  'The folders that a rename, a removal or a new folder changes, if several have the same name.':
    '存在同名文件夹时，重命名、删除和新建文件夹作用于哪些文件夹。',
  'The folders that receive uploaded, copied, moved or unpacked files, if several have the same name.':
    '存在同名文件夹时，上传、复制、移动和解压的文件存入哪些文件夹。',
  'Number of concurrent ranges of a file. It applies to downloads through this service.':
    '同时请求的文件分段数，适用于通过本服务的下载。',
  'Size of a range, in KiB. It applies to downloads through this service.':
    '分段的大小（KiB），适用于通过本服务的下载。',
  'The path of the storage in the tree; each storage has its own.': '存储在目录树中的路径，不能与其他存储相同。',
  'Position of the storage among all storages.': '该存储在所有存储中的位置。',
  'Request ranges of a file one by one. It applies to downloads through this service.':
    '逐段请求文件，适用于通过本服务的下载。',
  'Leave out the signature in links to the download proxy.': '指向下载代理的链接不带签名。',
  'Instead of the three options above. It expires soon.': '可代替上面三项；很快会过期。',
  'Minutes for which listings of this storage are cached; 0 disables the cache.':
    '该存储文件列表的缓存分钟数；0 表示不缓存。',
  'Lines `glob:minutes`; the first that matches a path replaces the time above.':
    '每行一条“通配符:分钟数”；第一条匹配路径的规则代替上面的时间。',
  "Instead of the account's key.": '可代替账户密钥。',
  'The folder of the tree that contains the encrypted files.': '目录树中存放加密文件的文件夹。',
  'The main password.': '主密码。',
  'A second password; optional, but recommended.': '第二个密码；可选，建议设置。',
  'Suffix of encrypted files. Change it only to match existing files.':
    '加密文件的后缀。仅在需要与已有文件一致时更改。',
  'Encoding of encrypted names. Change it only to match existing files.':
    '加密名称的编码。仅在需要与已有文件一致时更改。',
  'Show thumbnails that exist in the folder .thumbnails.': '显示 .thumbnails 文件夹中已有的缩略图。',
  'Answer /metrics for Prometheus: programs of this computer, or with a token every program that sends it.':
    '为 Prometheus 提供 /metrics：允许本机程序访问；设置令牌后，允许发送该令牌的任何程序访问。',
  'The token that a program sends as `Authorization: Bearer …` to read /metrics. Without it, only programs of this computer may.':
    '程序读取 /metrics 时以 `Authorization: Bearer …` 发送的令牌。未设置时仅允许本机程序读取。',
  'Watch the folder on the disk: lists and search show changes by other programs within a second.':
    '监视磁盘上的文件夹：列表和搜索会在一秒内显示其他程序所做的更改。',
  'Show hidden files and folders.': '显示隐藏的文件和文件夹。',
  'Enter a folder before listing it.': '列出文件夹之前先进入该文件夹。',
  'Encrypt the connections with explicit TLS (AUTH TLS).': '使用显式 TLS（AUTH TLS）加密连接。',
  'Accept any certificate of the server. The connection can then be intercepted.':
    '接受服务器的任何证书。此时连接可能被截取。',
  'Days for which removed entries can be restored from the trash; 0: removals are final':
    '已删除的条目可从回收站恢复的天数；0 表示直接删除。',
  'Days for which removed entries can be restored from the trash; 0: removals are final. Files are moved into the trash one after the other.':
    '已删除的条目可从回收站恢复的天数；0 表示直接删除。文件逐个移入回收站。',
  'Days for which removed entries can be restored from the trash; 0: removals are final. Without versioning, files are moved into the trash one after the other.':
    '已删除的条目可从回收站恢复的天数；0 表示直接删除。未启用版本控制时，文件逐个移入回收站。',
  'This storage has no trash: removals are final.': '此存储没有回收站：删除后无法恢复。',
  'MiB that the trash may have; beyond that its oldest entries are deleted. 0: no limit':
    '回收站的最大大小（MiB），超出时删除最早的条目；0 表示不限。',
  'How many older versions of a file are kept when it is replaced; 0: none':
    '文件被替换时保留的旧版本数；0 表示不保留。',
  'The JSON key of a service account.': '服务账号的 JSON 密钥。',
  'An access token, instead of the key.': '访问令牌，可代替密钥。',
  'Show the size of folders. All files below are read, which takes time.':
    '显示文件夹大小。需要读取其下所有文件，耗时较长。',
  'Show thumbnails.': '显示缩略图。',
  'Number of thumbnails that are made concurrently.': '同时生成的缩略图数。',
  'Position of the thumbnail in a video: seconds, or a percentage of its length with %.':
    '缩略图在视频中的位置：秒数，或带 % 的百分比。',
  "Folder for removed files. Empty or 'delete permanently': removals are final.":
    '存放已删除文件的文件夹。留空或填写“delete permanently”表示直接删除。',
  'Host of links, if it is not the endpoint.': '链接所用的主机，与端点不同时填写。',
  'Remove bucket name from path when using custom host.': '使用自定义域名时从路径中去掉存储桶名称。',
  'Add filename to Content-Disposition header.': '在 Content-Disposition 响应头中加入文件名。',
  'Custom User-Agent for S3 requests.': 'S3 请求使用的 User-Agent。',
  "The server's public key or its SHA256 fingerprint. If empty, it is set at the first connection. Another key is then refused; to accept a new one, empty this field or enter its fingerprint.":
    '服务器的公钥或其 SHA256 指纹。留空时在首次连接时自动设置，之后拒绝其他密钥；如需接受新密钥，请清空此项或填写其指纹。',
  'Required for links.': '生成链接时需要。',
  'Request the size of files with HEAD. Some servers do not answer it.': '用 HEAD 请求获取文件大小。部分服务器不支持。',
  'Host names, addresses and networks outside the public internet that may be reached, separated by commas or spaces.':
    '可访问的非公网主机名、地址和网段，用逗号或空格分隔。',
  'Lines `value = group`: a user whose claim has the value is a member of the group, and nobody else is.':
    '每行一条“值 = 组”：声明中含有该值的用户属于该组，其他用户不属于。',
  'The claim that lists the groups of a user; empty for none.': '列出用户所属组的声明；留空表示不使用。',
  'Number of archives that are packed concurrently.': '同时打包的压缩文件数。',
  'Serve the Model Context Protocol at /mcp, for tokens that include it.':
    '在 /mcp 提供模型上下文协议，供包含该权限的令牌使用。',
  'structure:FolderName:\n  [FileName:][FileSize:][Modified:]Url':
    '结构：文件夹名:\n  [文件名:][文件大小:][修改时间:]网址',
}
