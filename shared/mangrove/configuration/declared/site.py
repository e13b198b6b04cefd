"""Settings of the site as front ends show it, and of previews."""

from __future__ import annotations

from mangrove import __version__
from mangrove.configuration.setting import (
    Flag,
    SettingCategory,
    SettingGroup,
    check_encoding,
    choice,
    line,
    number,
    switch,
    text,
    words,
)

MAX_REMOTE_THUMBNAIL_MIB = 64  # the largest limit that can be set
PUBLIC, PRIVATE, READONLY = Flag.PUBLIC, Flag.PRIVATE, Flag.READONLY
LOGO = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'%3E%3Cpath fill='%232e7d5b' "
    "d='M16 2C9 2 4 7 4 12c0 4 4 6 9 6v12h6V18c5 0 9-2 9-6 0-5-5-10-12-10z'/%3E%3C/svg%3E"
)
PREVIEWS = (
    '{"doc,docx,xls,xlsx,ppt,pptx":{"Microsoft":"https://view.officeapps.live.com/op/view.aspx?src=$e_url",'
    '"Google":"https://docs.google.com/gview?url=$e_url&embedded=true"}}'
)


class Site(SettingGroup):
    """The site as the page shows it."""

    group = SettingCategory.SITE

    version = line(f"v{__version__}", READONLY, "The version of the service.", zh="版本")
    site_title = line("Mangrove", PUBLIC, "The name of the site, shown in the title of the page.", zh="站点标题")
    announcement = text("", PUBLIC, "A note to all visitors, as Markdown.", zh="公告")
    pagination_type = choice(
        "all",
        "all,pagination,load_more,auto_load_more",
        PUBLIC,
        "How long folders are shown: complete, in pages, or with more entries on demand.",
        zh="分页方式",
    )
    default_page_size = number(30, PUBLIC, "Number of entries that are loaded at a time.", zh="每页条目数")
    allow_indexed = switch(False, PUBLIC, "Allow search engines to index the site.", zh="允许搜索引擎收录")
    allow_mounted = switch(True, PUBLIC, "Offer to open a folder in other programs.", zh="允许挂载")
    robots_txt = text("User-agent: *\nAllow: /", PUBLIC, "The content of /robots.txt.", zh="robots.txt")


class Style(SettingGroup):
    """Pictures, colours and layout."""

    group = SettingCategory.STYLE

    logo = text(
        LOGO,
        PUBLIC,
        "URLs of the logo, one per line: the first for the light theme, the last for the dark theme.",
        zh="标志",
    )
    favicon = line(LOGO, PUBLIC, "URL of the icon of the browser tab.", zh="网站图标")
    main_color = line("#1890ff", PUBLIC, "The colour of buttons and links.", zh="主题色")
    home_icon = line("🏠", PUBLIC, "Icon of the root folder; text or an emoji.", zh="首页图标")
    share_icon = line("🎁", PUBLIC, "Icon of a shared folder; text or an emoji.", zh="分享图标")
    home_container = choice(
        "max_980px", "max_980px,hope_container", PUBLIC, "Width of the page in compatible front ends.", zh="首页布局"
    )
    settings_layout = choice(
        "list", "list,responsive", PUBLIC, "Layout of the settings in compatible front ends.", zh="设置页布局"
    )
    hide_storage_details = switch(True, PRIVATE, "Hide used and total space in listings.", zh="隐藏存储空间信息")
    hide_storage_details_in_manage_page = switch(
        True, PRIVATE, "Hide used and total space in the administration.", zh="在管理页隐藏存储空间信息"
    )
    show_disk_usage_in_plain_text = switch(
        False, PUBLIC, "Show used and total space as text instead of a bar.", zh="以文字显示空间用量"
    )


class Preview(SettingGroup):
    """File types and previews."""

    group = SettingCategory.PREVIEW

    remote_thumbnail_max_mb = number(
        16,
        PRIVATE,
        "The size in MiB up to which pictures on storages other than Local get thumbnails. The service reads the whole "
        "picture once. 0 for none; on AWS, there are none.",
        minimum=0,
        maximum=MAX_REMOTE_THUMBNAIL_MIB,
        zh="远程图片缩略图上限（MiB）",
    )
    text_types = words(
        "txt,htm,html,xml,java,properties,sql,js,md,json,conf,ini,vue,php,py,bat,gitignore,yml,go,sh,c,cpp,h,hpp,tsx,vtt,srt,ass,rs,lrc,strm",
        PRIVATE,
        "Extensions of text files, separated by commas.",
        zh="文本类型",
    )
    audio_types = words(
        "mp3,flac,ogg,m4a,wav,opus,wma", PRIVATE, "Extensions of audio files, separated by commas.", zh="音频类型"
    )
    video_types = words(
        "mp4,mkv,avi,mov,rmvb,webm,flv,m3u8",
        PRIVATE,
        "Extensions of video files, separated by commas.",
        zh="视频类型",
    )
    image_types = words(
        "jpg,tiff,jpeg,png,gif,bmp,svg,ico,swf,webp,avif",
        PRIVATE,
        "Extensions of images, separated by commas.",
        zh="图片类型",
    )
    proxy_types = words(
        "m3u8,url",
        PRIVATE,
        "Extensions of files that are always downloaded through this service, separated by commas.",
        zh="代理类型",
    )
    proxy_ignore_headers = words(
        "authorization,referer",
        PRIVATE,
        "Request headers that are not passed on to storages, separated by commas.",
        zh="代理忽略的请求头",
    )
    external_previews = text("{}", PUBLIC, "Programs that can open a file, by extension, as JSON.", zh="外部预览")
    iframe_previews = text(
        PREVIEWS,
        PUBLIC,
        "Web services that can show a file, by extension, as JSON. The service receives the link to the file.",
        zh="内嵌预览",
    )
    audio_cover = line(LOGO, PUBLIC, "URL of the image for audio files without a cover.", zh="音频封面")
    audio_autoplay = switch(True, PUBLIC, "Play audio as soon as it is opened.", zh="自动播放音频")
    video_autoplay = switch(True, PUBLIC, "Play videos as soon as they are opened.", zh="自动播放视频")
    preview_download_by_default = switch(
        False, PUBLIC, "Show the download instead of a preview when a file is opened.", zh="默认显示下载"
    )
    preview_archives_by_default = switch(
        True, PUBLIC, "List the content of an archive when it is opened.", zh="默认预览压缩包"
    )
    share_preview_download_by_default = switch(
        True, PUBLIC, "Show the download instead of a preview when a shared file is opened.", zh="分享默认显示下载"
    )
    share_preview_archives_by_default = switch(
        False, PUBLIC, "List the content of a shared archive when it is opened.", zh="分享默认预览压缩包"
    )
    readme_autorender = switch(True, PUBLIC, "Show README.md below the listing of its folder.", zh="自动显示说明文件")
    filter_readme_scripts = switch(
        True, PUBLIC, "Remove scripts from README.md before it is shown.", zh="过滤说明文件中的脚本"
    )
    non_efs_zip_encoding = line(
        "IBM437",
        PUBLIC,
        "Encoding of names in ZIP files that do not declare one.",
        check=check_encoding,
        zh="ZIP 文件名编码",
    )
